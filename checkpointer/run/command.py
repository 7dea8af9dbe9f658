"""A run around a command that tells us nothing: its turn is whatever changes while it works. Where it is an agent with
hooks, these tell its turns and calls, and what is done here fills the gaps.

Before the child starts, the files are in a checkpoint and the run is in its log; after it has ended, what changed is.
In between, watching hints at quiet moments, and each burst of change becomes a step of its own (or, where a person
types to the command, a turn). A kill of this process at any moment leaves a run that nobody ended: the next command
finds its log, and what changed since the last checkpoint is then not taken for anybody's.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from checkpointer import machine
from checkpointer.errors import CheckpointerError, Fenced, IllegalEvent
from checkpointer.events import MAIN, Commit, RunStarted, UserMessage, WorkspaceChanged
from checkpointer.log import JsonlRuns, Pen, claim
from checkpointer.run import closing, pending, roster
from checkpointer.run import session as sessions
from checkpointer.run.child import Child
from checkpointer.run.session import Session
from checkpointer.run.typed import InputHistory
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.checkpoint import OPERATIONS, Checkpoint, CheckpointKind
from checkpointer.workspace.outcome import Saved
from checkpointer.workspace.watch import Watch
from checkpointer.workspace.workspace import Progress, Workspace

QUIET = 1.0
"""Seconds without a change that end a step of a command without a terminal on its input."""
QUIET_TYPED = 3.0
"""The same where a person types to the command: then it ends a turn."""
LONGEST = 60.0
"""Seconds after which a burst that never goes quiet is captured all the same."""
REST = 20.0
"""A capture that took s seconds of work is followed by at least this many times s without another: 5% at most."""


@dataclass
class Report:
    """What came of it. `changed` are the paths the run's turns changed, as checkpoint `before` and `after` show them.

    `turns` are the handles of its turns that changed something. `lost` says why hints may be missing, `trouble` why the
    files of the end are not in a checkpoint.
    """

    status: int
    before: int
    after: int
    turns: list[str] = field(default_factory=list)
    lost: str | None = None
    trouble: CheckpointerError | None = None


class CommandRun:
    """Make it, `begin` it, `carry_out`. `warn` is told once when protection is lost while the command runs."""

    def __init__(
        self,
        workspace: Workspace,
        argv: Sequence[str],
        *,
        agent: str | None = None,
        typed: bool = False,
        warn: Callable[[CheckpointerError], None] = lambda e: None,
    ) -> None:
        self.workspace = workspace
        self.argv = tuple(argv)
        self.agent = agent
        self.typed = typed
        self.warn = warn
        self.handle = ""
        self.closed: list[str] = []
        self.turn = 0
        self.step = 0
        self._known = 0
        self.hooked = False
        self._late = False
        self._history = InputHistory.of(self.argv, workspace.root)
        self._trouble: CheckpointerError | None = None
        self._capture = threading.Lock()

    # -- before

    def begin(self, progress: Progress | None = None) -> Saved:
        """The files as they are go into a checkpoint, the run into its log. Raises what `save` and `claim` raise."""
        workspace = self.workspace
        with workspace.locked("run"):
            dead = closing.dead(workspace)
            others = roster.others(self.workspace.directory, self.handle)
            base = workspace.save(
                kind="crash" if dead else "base", runs=others.runs, steps=others.steps, progress=progress
            )
            self.closed = closing.close(workspace, dead, base.checkpoint)
            facts = workspace.facts
            facts.last_run += 1
            facts.had_run = True
            facts_file.save(workspace.directory, facts)
            self.handle = f"r{facts.last_run}"
        self._known = base.checkpoint.number
        self.pen = self._claim(facts.last_run, base.checkpoint)
        self._open_turn(self._words())
        return base

    def go_on(self, pen: Pen, handle: str, known: int) -> None:
        """Work on a run that was claimed again for this command, whose files are those of checkpoint `known`. Where it
        is an agent's conversation, its hooks tell when a turn begins.
        """
        self.pen, self.handle, self._known = pen, handle, known
        self.turn = pen.state.turn or 0
        self._late = pen.state.session is not None
        if not self._late:
            self._open_turn(self._words())

    def _words(self) -> str:
        return shlex.join(_text(word) for word in self.argv)

    def _claim(self, number: int, base: Checkpoint) -> Pen:
        runs = JsonlRuns(os.fspath(roster.runs_directory(self.workspace.directory)))
        return claim(runs.log(self.handle), self._begin_event(self.handle, number, base, self.argv), shared=True)

    def _begin_event(self, run: str, number: int | None, base: Checkpoint, argv: Sequence[str]) -> RunStarted:
        return RunStarted(
            run=run,
            number=number,
            owner=machine.holder(),
            agent=self.agent,
            command=[_text(word) for word in argv],
            directory=_text(os.fsdecode(os.getcwdb())),
            environment=sorted(_text(name) for name in os.environ),
            commit=_commit(base),
        )

    def _open_turn(self, prompt: str | None) -> None:
        """A number for the turn that begins now. The words a person typed are not known to us."""
        with self.workspace.locked("beginning a turn"):
            facts = self.workspace.facts
            facts.last_turn += 1
            facts_file.save(self.workspace.directory, facts)
            self.turn, self.step = facts.last_turn, 0
        tip = self.workspace.store.by_number(self._known)
        self.pen.append(UserMessage(turn=self.turn, content=prompt, context=MAIN, commit=_commit(tip)))

    # -- while it works

    def carry_out(self, environment: Mapping[str, str]) -> Report:
        """Start the command, wait for its end, capture what it changed. Raises `CannotStart`."""
        before = self._known
        passed = {
            **environment,
            "CKPT_RUN": self.handle,
            "CKPT_LOG": self.pen.log.run,
            "CKPT_EPOCH": str(self.pen.epoch),
            "CKPT_WORKSPACE": os.fsdecode(self.workspace.root),
        }
        try:
            child = Child(self.argv, passed)
        except CheckpointerError:
            self.pen.release("interrupted")
            raise
        report = Report(0, before, before)
        stop = threading.Event()
        with Watch(self.workspace.root, self.workspace.directory) as watch:
            threads = [
                threading.Thread(target=self._follow, args=(watch, stop, report), daemon=True),
                threading.Thread(target=self._renew, args=(stop,), daemon=True),
            ]
            watch.touched()  # the child may have been faster than the watch
            for thread in threads:
                thread.start()
            report.status = child.wait()
            stop.set()
            watch.touched()
            watch.check_limit()
            report.lost = watch.lost
            threads[0].join()
        self._end(report)
        return report

    def _renew(self, stop: threading.Event) -> None:
        while not stop.wait(self.pen.state.ttl_ms / 3000):
            try:
                self.pen.renew()
            except Fenced:
                return
            except CheckpointerError:
                continue

    def _follow(self, watch: Watch, stop: threading.Event, report: Report) -> None:
        quiet = QUIET_TYPED if self.typed else QUIET
        while watch.burst(stop, quiet=quiet, longest=LONGEST):
            began = time.thread_time()
            try:
                if self._take(report, "step"):
                    self._trouble = None
                    if self.typed and self._history is None:
                        self._open_turn(None)
            except CheckpointerError as e:
                if self._trouble is None:
                    self._trouble = e
                    self.warn(e)
            stop.wait((time.thread_time() - began) * REST)

    def _hooked(self) -> Session | None:
        """What the command's own hooks told, if it is an agent that has any: then the turns are theirs."""
        session = sessions.load(self.workspace.directory, self.pen.log.run)
        return session if session is not None and session.turn > self.turn else None

    def _fill(self, session: Session, report: Report, *, last: bool) -> bool:
        """Capture between what hooks tell: what changed is the work of the calls that are open, else of nobody; at the
        very end, of a turn that nobody ended, too.
        """
        self.hooked = True
        with self._capture, self.workspace.locked(f"a checkpoint for {self.handle}", 60.0):
            others = roster.others(self.workspace.directory, self.handle, self.pen.log.run)
            steps = session.owners(closing=last)
            runs = (self.handle, *others.runs) if steps else others.runs
            saved = self.workspace.save(
                kind="step" if steps else "outside", runs=runs, steps=(*steps, *others.steps), by="watch"
            )
        report.after = max(report.after, saved.checkpoint.number)
        return False

    def _take(self, report: Report, kind: CheckpointKind) -> bool:
        """Capture what changed as the open step. True if anything had, and the turn is one that only we know of."""
        if (session := self._hooked()) is not None:
            return self._fill(session, report, last=kind == "turn")
        if self._late:
            tip = self.workspace.store.tip()
            if tip is not None and self.workspace.look().tree.root.hex() == tip.tree:
                return False
            self._late = False
            self._open_turn(self._words())
        typed = self._history.prompts() if self._history is not None else []
        if typed:
            self._open_turn(typed[-1])
        with self._capture, self.workspace.locked(f"a checkpoint for {self.handle}", 60.0):
            others = roster.others(self.workspace.directory, self.handle, self.pen.log.run)
            tip = self.workspace.store.tip()
            step = f"t{self.turn}.{self.step + 1}"
            saved = self.workspace.save(
                kind=kind, runs=(self.handle, *others.runs), steps=(step, *others.steps), by="watch"
            )
            self._note_others()
            if not saved.created:
                return False
            self.step += 1
            report.after = self._known = saved.checkpoint.number
            handle = f"t{self.turn}"
            if handle not in report.turns:
                report.turns.append(handle)
            changed = WorkspaceChanged(
                cause="step",
                by="agent",
                checkpoint=saved.checkpoint.number,
                before=tip.number if tip is not None else None,
                turn=self.turn,
                step=self.step,
                commit=_commit(saved.checkpoint),
            )
        self.pen.append(changed)
        return True

    def _note_others(self) -> None:
        """What a person did to the files meanwhile (an undo, a restore) becomes an event, once."""
        for checkpoint in self.workspace.store.checkpoints():
            if checkpoint.number > self._known and checkpoint.kind in OPERATIONS:
                self.pen.append(
                    WorkspaceChanged(
                        cause=checkpoint.kind,  # type: ignore[arg-type]
                        by=checkpoint.meta.by,
                        checkpoint=checkpoint.number,
                        commit=_commit(checkpoint),
                    )
                )

    # -- after

    def _end(self, report: Report) -> None:
        try:
            self._take(report, "turn")
        except CheckpointerError as e:
            report.trouble = e
        pending.settle(self.workspace.directory, self.pen.log.run)
        if self.hooked:
            with contextlib.suppress(CheckpointerError):
                report.turns = self._turns(report.before)
        with contextlib.suppress(CheckpointerError):  # then the run stays open, which is what the next command will say
            if report.trouble is not None:
                return
            if report.status > 128:
                self.pen.release("interrupted", status=report.status)
                return
            try:
                self.pen.finish("ended", status=report.status)
            except IllegalEvent:  # a call is still in question: a person's word may follow
                self.pen.release("ended", status=report.status)

    def _turns(self, since: int) -> list[str]:
        """The handles of this run's turns that changed something after a checkpoint."""
        timeline = self.workspace.timeline()
        own = (u for u in timeline.units if self.handle in u.runs and u.last > since and u.turn is not None)
        return [unit.handle for unit in own if timeline.state_of_unit(unit) is not None]


def _text(word: str) -> str:
    """An argument or name as it may stand in a log: bytes that are no text are shown escaped."""
    return os.fsencode(word).decode("utf-8", "backslashreplace")


def _commit(checkpoint: Checkpoint) -> Commit:
    return Commit(id=checkpoint.id, number=checkpoint.number, captured=True)
