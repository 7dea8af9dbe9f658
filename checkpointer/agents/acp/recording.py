"""One run in one workspace, made of what an agent and its editor say to each other: prompts are turns, calls steps.

The files go into a checkpoint when a prompt begins, when a call begins and when it ends, and when the prompt ends. What
changed in between is the work of the calls that were open; where none was, of the turn's newest one: a call may have
been reported late, or go on after its end was. What changed between turns is nobody's.

Nothing here raises for a file or a log that cannot be written: `say` is told once what is no longer kept.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Literal

from checkpointer import machine
from checkpointer.agents import telling
from checkpointer.agents.acp.facts import CallFacts, bounded
from checkpointer.agents.acp.talk import Call, Talk, context_of
from checkpointer.errors import CheckpointerError
from checkpointer.events import (
    AnyEvent,
    ModelTurn,
    RunStarted,
    ToolCallCompleted,
    ToolCallReconciled,
    ToolCallStarted,
    ToolCallUncertain,
    UserMessage,
    WorkspaceChanged,
)
from checkpointer.log import JsonlRuns, Pen, claim
from checkpointer.recovery import Scene, settle
from checkpointer.run import roster
from checkpointer.run.files import Files
from checkpointer.workspace.checkpoint import OPERATIONS
from checkpointer.workspace.workspace import Workspace


class Recording:
    """Begun when it is made. `say(text)` tells the person; raises what `Workspace.save` and `claim` raise."""

    def __init__(self, workspace: Workspace, directory: str, agent: str, say: Callable[[str], None]) -> None:
        self.workspace = workspace
        self.say = say
        self.talks: dict[str, Talk] = {}
        self._lost = ""
        self._troubled = False
        self._owners: set[str] = set()
        self._waiting: list[Callable[[dict[str, Any], dict[str, Any]], AnyEvent]] = []
        self._look = False
        files = Files(workspace, "", "", warn=self._unprotected)
        files.base()
        if files.trouble is not None:
            raise files.trouble
        number = files.begin_run()
        files.run = files.handle = self.handle = f"r{number}"
        self.files = files
        self.base = files.newest
        log = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory))).log(self.handle)
        self.pen: Pen = claim(
            log,
            RunStarted(
                run=self.handle,
                number=number,
                owner=machine.holder(),
                agent=agent,
                environment=sorted(bounded(name) for name in os.environ),
                directory=bounded(directory),
                **files.verified(),
            ),
            shared=True,
        )

    # -- what happens

    def prompt(self, session: str, text: str | None, *, tells: bool = False) -> str:
        """A turn begins: what changed until now is not its work. Gives what the agent must know of what a person undid
        since; empty where it cannot be told now (`tells`) or there is nothing.
        """
        talk = self._talk(session)
        if talk.turn is not None:
            self.answered(session, "superseded")
        self.flush()
        events = self.files.before()
        try:
            turn = self.files.open_turn()
        except CheckpointerError as e:
            self.say(f"this turn is not recorded: {e.message}")
            self._append(*events)
            return ""
        talk.turn, talk.step = turn, 0
        said = None if text is None else bounded(text)
        message = UserMessage(turn=turn, content=said, context=talk.name, **self.files.verified())
        self._append(*events, message)
        return self._undone(talk) if tells else ""

    def _undone(self, talk: Talk) -> str:
        """What a person undid, did again or restored since the agent was last told, in words for it."""
        since, talk.told = talk.told, self.files.newest
        if since == talk.told:
            return ""
        found = [c for c in self.workspace.store.checkpoints() if c.number > since and c.kind in OPERATIONS]
        return telling.undone(self.workspace, [c for c in found if c.meta.by == "person"])

    def call(self, session: str, facts: CallFacts) -> None:
        """A call begins, goes on, or is over."""
        talk = self._talk(session)
        if talk.turn is None:
            if facts.over:
                self._owners.update(talk.steps())
                return
            self.prompt(session, None)  # the agent works without having been asked
            if talk.turn is None:
                return
        known = talk.calls.get(facts.id)
        if known is None:
            known = self._begin(talk, facts)
        known.facts = facts
        if facts.over:
            self._over(talk, known)

    def hear(self, session: str, text: str) -> None:
        """A part of what the model says."""
        talk = self._talk(session)
        if talk.turn is not None:
            talk.hear(text)

    def look(self) -> None:
        """The files are to be looked at before anything goes on."""
        self._mark()
        self._look = True

    def answered(self, session: str, stop: str) -> None:
        """The turn is over. Calls whose end nobody reported: the agent went on; or was stopped, and nobody knows."""
        talk = self._talk(session)
        if talk.turn is None:
            return
        self._mark()
        self._look = True
        self.flush("turn")
        interrupted = stop in ("cancelled", "error", "died")
        for call in talk.calls.values():
            self._unreported(talk, call, interrupted, stop)
        talk.calls.clear()
        if interrupted:
            self._settle()
        self._say_model(talk, stop)
        talk.turn, talk.step = None, 0
        self.flush()

    def undone(self) -> None:
        """Somebody may have brought files back: it is noted."""
        self.flush()
        self._append(*self.files.before())

    def renew(self) -> None:
        """Say that this run's owner lives."""
        with contextlib.suppress(CheckpointerError):
            self.pen.renew()

    def close(self, how: Literal["ended", "interrupted"], status: int | None) -> None:
        """End the run: `ended`, or `interrupted` where agent or editor died, as one does who leaves a turn open."""
        for session, talk in self.talks.items():
            if talk.turn is not None:
                how = "interrupted"
                self.answered(session, "died")
        self.flush()
        if self._lost:
            return
        try:
            if how == "ended" and not self.pen.state.live:
                self.pen.finish("ended", status=status)
            else:
                self.pen.release(how, status=status)
        except CheckpointerError as e:
            self._no_log(e)

    # -- the log

    def flush(self, kind: Literal["step", "turn"] = "step") -> None:
        """Look at the files once for all that happened since the last look, and write it down."""
        events: list[AnyEvent] = []
        before = self.files.newest
        owners = tuple(sorted(self._owners, key=_in_order))
        made = False
        if self._look:
            events += self.files.during(owners, kind) if owners else self.files.before()
            made = bool(owners) and self.files.newest > before and self.files.trouble is None
        if made:
            turn, step = _in_order(owners[-1])
            events.append(
                WorkspaceChanged(
                    cause="step",
                    by="agent",
                    checkpoint=self.files.newest,
                    before=before or None,
                    turn=turn,
                    step=step,
                    **self.files.verified(),
                )
            )
        verified = self.files.verified() if self._look else self.files.now()
        # Where something had changed by then, the look was perhaps too late to show how a call found the files.
        late = self.files.now() if made else verified
        waiting, self._waiting = self._waiting, []
        events += [make(verified, late) for make in waiting]
        self._look, self._owners = False, set()
        self._append(*events)

    def _append(self, *events: AnyEvent) -> None:
        if self._troubled and self.files.trouble is None:
            self._troubled = False
            self.say(f"protected again, from checkpoint {self.files.newest} on")
        if not events or self._lost:
            return
        try:
            self.pen.append(*events)
        except (CheckpointerError, ValueError) as e:
            self._no_log(e)

    def _no_log(self, error: Exception) -> None:
        if not self._lost:
            self._lost = getattr(error, "message", "") or str(error)
            self.say(f"the log of {self.handle} cannot be written from here on: {self._lost}")
            self.say("checkpoints of the files are still made")

    def _unprotected(self, error: CheckpointerError) -> None:
        self._troubled = True
        self.say(f"NOT PROTECTED from here on: {error.message}")

    # -- parts

    def _talk(self, session: str) -> Talk:
        talk = self.talks.get(session)
        if talk is None:
            talk = self.talks[session] = Talk(context_of(session), self.files.newest)
        return talk

    def _mark(self) -> None:
        """What changed since the last look is the work of those that are open now."""
        open_calls = {s for t in self.talks.values() if t.calls for s in t.steps()}
        self._owners |= open_calls or {s for t in self.talks.values() for s in t.steps()}

    def _begin(self, talk: Talk, facts: CallFacts) -> Call:
        self._say_model(talk, None)
        talk.step += 1
        key = sha256(f"{talk.name}\0{talk.turn}\0{talk.step}\0{facts.id}".encode("utf-8", "backslashreplace"))
        call = talk.calls[facts.id] = Call(key.hexdigest()[:32], talk.step, facts)
        if facts.effect != "read":
            self._mark()
            self._look = True
        turn, step = talk.turn, talk.step

        def start(_: dict[str, Any], found: dict[str, Any]) -> AnyEvent:
            return ToolCallStarted(
                key=call.key,
                tool=facts.kind,
                effect=facts.effect,
                call_id=facts.id,
                turn=turn,
                step=step,
                arguments=facts.arguments,
                title=facts.title or None,
                context=talk.name,
                **found,
            )

        self._waiting.append(start)
        return call

    def _over(self, talk: Talk, call: Call) -> None:
        if call.facts.effect != "read":
            self._mark()
            self._look = True
        del talk.calls[call.facts.id]
        facts = call.facts

        def end(verified: dict[str, Any], _: dict[str, Any]) -> AnyEvent:
            return ToolCallCompleted(
                key=call.key,
                source="report",
                failed=facts.status != "completed",
                result=facts.gave,
                context=talk.name,
                **verified,
            )

        self._waiting.append(end)

    def _unreported(self, talk: Talk, call: Call, interrupted: bool, stop: str) -> None:
        if not interrupted or call.facts.effect == "read":
            rule = "its agent went on: only its end was not reported"
            if interrupted:
                rule = "it only reads: nothing is in question"
            self._append(
                ToolCallReconciled(
                    key=call.key,
                    verdict="unreported",
                    rule=rule,
                    by="agent",
                    context=talk.name,
                    **self.files.now(),
                )
            )
            return
        number = None
        with contextlib.suppress(CheckpointerError):  # without a handle, then
            number = self.files.open_question()
        self._append(
            ToolCallUncertain(
                key=call.key,
                reason="cancelled" if stop == "cancelled" else "crash",
                number=number,
                context=talk.name,
                **self.files.now(),
            )
        )

    def _settle(self) -> None:
        """Verdicts on the calls that were cut off, as far as the files tell."""
        uncertain = [c.key for c in self.pen.state.uncertain]
        if uncertain and not self._lost:
            try:
                settle(Scene(self.pen, self.files), uncertain)
            except (CheckpointerError, ValueError) as e:
                self._no_log(e)

    def _say_model(self, talk: Talk, stop: str | None) -> None:
        """What the model said so far; with `stop`, that the turn is over."""
        if talk.text or stop is not None:
            text, name = talk.said(), talk.name
            self._waiting.append(
                lambda verified, _: ModelTurn(content=text, arguments=[], stop=stop, context=name, **verified)
            )


def _in_order(handle: str) -> tuple[int, int]:
    turn, _, step = handle.removeprefix("t").partition(".")
    return int(turn), int(step)
