"""Take up a run that was cut off, without its tools: claim it, make files and log agree, settle what files can tell.

Calls with effects outside are left to the program that has their tools; those that nothing can look up, to a person.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from checkpointer import lease, machine
from checkpointer.errors import Busy, Finished
from checkpointer.events import ABSENT, WorkspaceChanged
from checkpointer.log import JsonlLog, Pen, claim
from checkpointer.machine import moment
from checkpointer.recovery import Choice, Scene, Settled, processes, queue, settle, word
from checkpointer.recovery.queue import Item
from checkpointer.replay import Counters, replay
from checkpointer.run import drift, freshness, keeper, leftoff, pending, questions, roster
from checkpointer.run.files import Files
from checkpointer.run.questions import Question
from checkpointer.state import RunState
from checkpointer.workspace.checkpoint import OPERATIONS
from checkpointer.workspace.workspace import Workspace

_FLEETING = frozenset(("_", "OLDPWD", "PWD", "SHLVL", "COLUMNS", "LINES", "WINDOWID", "SSH_CLIENT", "SSH_CONNECTION"))
"""Variables that no command depends on."""


@dataclass
class Resumed:
    """A run that this process owns now, and what there is to say. `died` says that nobody had let it go.

    `finished` counts the calls that will not run again, `undone` what was taken back since; `missing` are names of
    variables that its command was started with and that are not set now; `stale` are observations that
    hold no more, or may not. `uncertain` is left open, `asked` waits for a person's yes.
    """

    pen: Pen
    files: Files
    state: RunState
    died: bool
    at: datetime | None
    open: int
    finished: int
    counters: Counters
    command: tuple[str, ...] = ()
    directory: str = ""
    settled: list[Settled] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    uncertain: list[Item] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)

    @property
    def handle(self) -> str:
        return self.files.handle

    @property
    def blocked(self) -> list[Item]:
        """The questions without whose answer the command must not be started."""
        open_ = [i for i in self.uncertain if not i.retry]
        if self.state.mode == "observed":
            return [i for i in open_ if i.risk == "high"]
        if self.state.on_uncertain == "tell":
            return []
        return [i for i in open_ if i.effect == "workspace" or i.escalated or not i.strategies]

    def let_go(self) -> None:
        """Give the run up again: whoever is started next claims it."""
        word.let_go(self.pen)


def resumable(store: Path) -> list[roster.RunInfo]:
    """The runs that were cut off or paused and that nobody owns, newest last."""
    return sorted(leftoff.resumable(store), key=lambda info: info.last.timestamp() if info.last else 0.0)


def take_up(workspace: Workspace, log: JsonlLog, choice: Choice, *, take_over: bool = False) -> Resumed:
    """Claim a run and see to it. Raises `Busy` while its owner or its command lives, `Finished`, `Drift` where somebody
    changed files and `choice` is `ask`, `LogDamaged`, what a checkpoint or restore raises; the run is let go then.
    """
    counters = Counters()
    pending.settle(workspace.directory, log.run, taken_over=True)
    known = replay(log, keeper.of(log), counters)
    before = known.state
    if before.status == "finished":
        raise Finished(f"{log.run} is finished: there is nothing to resume", kept="nothing was written")
    handle = f"r{before.number}" if before.number is not None else before.run
    refuse_working(workspace, before, handle)
    begun = word.newest_claim(log, before)
    observed = before.mode == "observed"
    pen = claim(log, word.as_before(log, before), take_over=take_over, shared=observed, known=known)
    resumed = Resumed(
        pen,
        Files(workspace, before.run, handle),
        before,
        died=before.status == "owned",
        at=moment(before.at),
        open=len(before.open),
        finished=len(before.completed),
        counters=counters,
    )
    if begun is not None:
        resumed.command = _words(begun.command)
        resumed.directory = begun.directory if isinstance(begun.directory, str) else ""
        resumed.missing = _missing(begun.environment, os.environ)
    try:
        _see_to(resumed, choice)
    except BaseException:
        resumed.let_go()
        raise
    return resumed


def refuse_working(workspace: Workspace, state: RunState, handle: str) -> None:
    """Raises `Busy` while the command of a run still works, although its owner is gone."""
    if state.status == "owned" and state.owner is not None:
        alive = lease.liveness(state.owner, machine.holder(), machine.started(state.owner.pid))
        if alive != "dead":
            return  # the claim decides
    found = processes.of_run(handle, os.fsdecode(workspace.root)) if state.mode == "observed" else ()
    if found:
        raise Busy(
            f"the command of {handle} still works (process {', '.join(map(str, found))})",
            kept="nothing was written",
            next=("end it first, then ckpt resume",),
            processes=list(found),
        )


def _see_to(resumed: Resumed, choice: Choice) -> None:
    pen, files = resumed.pen, resumed.files
    workspace = files.workspace
    pen.collect()
    files.take_up(pen.state)
    resumed.notes += drift.settle(workspace)
    resumed.undone = _undone(workspace, pen.state)
    if pen.state.mode == "observed" and choice != "restore" and not drift.is_empty(workspace):
        events: list[WorkspaceChanged] = _as_they_are(files, pen.state)
    else:
        events, notes = drift.look(files, pen.state, choice)
        resumed.notes += notes
    if events:
        pen.append(*events)
    resumed.settled = settle(Scene(pen, files, None, choice))
    resumed.stale = [one.words for one in freshness.look(pen.log, pen.state, workspace, resumed.handle)]
    resumed.uncertain = queue.items(pen.log, pen.state)
    resumed.asked = [one for one in questions.pending(pen.log, pen.state) if not one.answered]


def _as_they_are(files: Files, state: RunState) -> list[WorkspaceChanged]:
    """The files of an agent that is only watched stay; what changed since its last checkpoint may be anybody's."""
    events = files.left("")
    now = files.verified().get("commit")
    if now is not None and (state.commit is None or now.id != state.commit.id):
        known = {event.checkpoint for event in events}
        if now.number not in known:
            events.append(WorkspaceChanged(cause="edit", by="unknown", checkpoint=now.number, commit=now))
    return events


def _undone(workspace: Workspace, state: RunState) -> list[str]:
    """What was undone, redone or restored since the run last saw the files."""
    if state.commit is None or state.commit.number is None:
        return []
    out = []
    for checkpoint in workspace.store.checkpoints():
        operation = checkpoint.meta.operation
        if checkpoint.number > state.commit.number and checkpoint.kind in OPERATIONS and operation is not None:
            what = operation.unit if checkpoint.kind == "restore" else f"{checkpoint.kind} of {operation.unit}"
            out.append(f"{what} (checkpoint {checkpoint.number})")
    return out


def _words(command: object) -> tuple[str, ...]:
    return tuple(str(one) for one in command) if isinstance(command, tuple | list) else ()


def _missing(names: object, now: Mapping[str, str]) -> list[str]:
    if names is ABSENT or not isinstance(names, tuple | list):
        return []
    return sorted(str(n) for n in names if n not in now and n not in _FLEETING and not str(n).startswith("CKPT_"))


def environment(resumed: Resumed) -> dict[str, str]:
    """What the command gets to know of its run."""
    workspace = resumed.files.workspace
    passed = {"CKPT_RUN": resumed.state.run, "CKPT_LOG": resumed.state.run, "CKPT_EPOCH": str(resumed.pen.epoch)}
    return {**os.environ, **passed, "CKPT_WORKSPACE": os.fsdecode(workspace.root)}
