"""What a run says to a model and hears from it: messages, turns, contexts; each recorded before it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkpointer import canon
from checkpointer.errors import IllegalEvent, NeedsPerson, Usage
from checkpointer.events import (
    ABSENT,
    MAIN,
    ContextCompacted,
    ContextRewound,
    GuardrailTriggered,
    MemoryWritten,
    ModelTurn,
    Trust,
    UserMessage,
)
from checkpointer.events import Usage as Tokens
from checkpointer.run import acceptance, telemetry
from checkpointer.run.desk import Desk, ToolCall, Turn
from checkpointer.state import RunState

if TYPE_CHECKING:
    from checkpointer.run.freshness import Stale
    from checkpointer.tools import Tool


class Conversation:
    """The part of a `Run` that runs no tools."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.notices: list[str] = []
        self.stale: list[Stale] = []
        """What the run had seen before it was resumed, and what holds no more, or may not."""

    # -- looking

    @property
    def state(self) -> RunState:
        """All that the log says so far; immutable."""
        return self._desk.state

    @property
    def id(self) -> str:
        """The run's own name, by which it is resumed."""
        return self._desk.state.run

    @property
    def handle(self) -> str:
        """The name that people type (`r7`)."""
        return self._desk.files.handle

    @property
    def unprotected(self) -> str | None:
        """Why the files are in no checkpoint now; None while all is well."""
        trouble = self._desk.files.trouble
        return None if trouble is None else trouble.message

    def context(self, name: str = MAIN) -> list[dict[str, Any]]:
        """What the model is to be asked with: see `checkpointer.run.contents` for the dicts. They are yours to change.

        Raises `NeedsPerson` while the outcome of a call is unknown and the model was not told, `Usage` while calls of
        its last turn were not called, `MissingObject` where large contents are gone.
        """
        state = self._ready(name)
        return self._desk.contents.context(state, name)

    def last_turn(self, name: str = MAIN) -> Turn | None:
        """The model's newest answer, if nothing was said or called since: it asked for nothing more. A loop that was
        killed before it could act on that goes on from here instead of asking again. None otherwise. Raises as
        `context` does.
        """
        said = self._ready(name).context(name)
        if not said or said[-1].role != "model":
            return None
        turn = self._desk.contents.one(said[-1].source)
        content = turn.content if isinstance(turn, ModelTurn) and turn.content is not ABSENT else None
        return Turn(said[-1].seq, canon.thaw(content))

    def turns(self, name: str = MAIN, last: int = 0) -> list[Turn]:
        """Every answer of the model that is in a conversation, oldest first, with the calls it asked for; or only so
        many of the newest. A loop that is started again takes its model's words from here. Raises `MissingObject` where
        large contents are gone.
        """
        found = []
        for said in [m for m in self.state.context(name) if m.role == "model"][-last:]:
            event = self._desk.contents.one(said.source)
            if isinstance(event, ModelTurn):
                calls = tuple(acceptance.of_turn(event, nth) for nth in range(len(event.calls)))
                content = None if event.content is ABSENT else canon.thaw(event.content)
                found.append(Turn(event.seq, content, calls))
        return found

    def refuse(self, call: ToolCall, reason: str) -> None:
        """A call of the model that its loop will not make: it no longer waits, and the model is told why. Nothing
        happens where it does not wait.
        """
        known = self.state.call(call.key)
        if known is None or known.status == "accepted":
            from checkpointer.run import approvals

            approvals.deny(self._desk, call, reason)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The declared tools that were brought along, by name."""
        return self._desk.tools

    def _ready(self, context: str) -> RunState:
        """The state, if a model may be asked now. What others said of the run meanwhile is taken in first."""
        self._desk.hear()
        state = self.state
        for doubt in state.doubts.values():
            if not doubt.told and not doubt.retry:
                call = state.call(doubt.key)
                raise NeedsPerson(
                    f"nobody knows whether {call.tool if call else doubt.key} happened: the model is not asked before",
                    kept="all that is known is in the run's log",
                    next=("ckpt uncertain", "ckpt settle"),
                    key=doubt.key,
                )
        waiting = [slot for slot, waits in state.waiting.items() if waits.context == context]
        if waiting:
            raise Usage(f"{len(waiting)} calls of the last turn wait", next=("run.call(...) each of state.accepted",))
        return state

    # -- the conversation

    def user_message(
        self,
        content: Any,
        *,
        slot: str | None = None,
        trust: Trust = "trusted",
        turn: bool = True,
        context: str = MAIN,
    ) -> int:
        """Say something to the model; gives the message's seq. With a `slot` it is said once, however often this runs.

        `turn=False` adds to the turn that goes on instead of opening one. Raises `Busy` where no number
        for a turn can be had for a minute.
        """
        if slot is not None and slot in self.state.named:
            filled = self.state.named[slot]
            if filled.key is not None:
                raise Usage(f"the slot {slot!r} holds a call")
            return filled.seq
        desk = self._desk
        number = desk.files.open_turn() if turn and context == MAIN else None
        said = UserMessage(
            slot=slot, trust=trust, turn=number, content=content, context=context, **desk.files.now()
        )  # fmt: skip
        placed = desk.append(said)
        desk.turn = number or desk.turn
        return placed[0].seq

    def model_turn(
        self,
        content: Any = None,
        tool_calls: Sequence[Mapping[str, Any]] = (),
        usage: Mapping[str, int] | Tokens | None = None,
        *,
        model: str | None = None,
        stop: str | None = None,
        cost_micros: int = 0,
        context: str = MAIN,
    ) -> Turn:
        """Record what the model answered. Each of `tool_calls` is `{"name", "arguments", "id"}`, and gets its identity
        here: an `external` one that was asked for before is the same action, unless it says `"repeat": True`.

        `usage` counts tokens: `input`, `output`, `cache_read`, `cache_write`, `reasoning`. Calls of unknown tools, or
        with arguments that do not fit or are no JSON, are denied at once. Raises as `context` does, `Usage`, `NotJson`
        where the `content` is none.
        """
        self._ready(context)
        facts = {telemetry.RUN: self.id, "ckpt.run": self.handle, "gen_ai.response.model": model}
        with telemetry.span("ckpt.model_turn", facts) as mark:
            turn = acceptance.accept(
                self._desk,
                tool_calls,
                usage,
                content=content,
                model=model,
                stop=stop,
                cost_micros=cost_micros,
                context=context,
            )
            mark.tell(telemetry.answered(usage, stop, len(turn.tool_calls)))
        return turn

    def compact(self, from_seq: int, to_seq: int, summary: Any = None, *, context: str = MAIN) -> int:
        """Put a summary in the place of the messages `from_seq` to `to_seq`; None says that they cannot be summed up.

        Raises `IllegalEvent` where that would part a call from its answer.
        """
        event = ContextCompacted(
            from_seq=from_seq,
            to_seq=to_seq,
            summarised=summary is not None,
            summary=summary,
            context=context,
            **self._desk.files.now(),
        )
        return self._desk.append(event)[0].seq

    def rewind(self, to_seq: int, why: str | None = None, *, context: str = MAIN) -> int:
        """Forget every message after `to_seq`, 0 for all. What was done stays done, and known. As `compact` raises."""
        event = ContextRewound(to_seq=to_seq, why=why, context=context, **self._desk.files.now())
        return self._desk.append(event)[0].seq

    def memory(self, memory: str, content: Any, *, trust: Trust = "model", context: str = MAIN) -> int:
        """Record that something was stored to be remembered in other runs; storing it is the caller's."""
        event = MemoryWritten(memory=memory, content=content, trust=trust, context=context, **self._desk.files.now())
        return self._desk.append(event)[0].seq

    def guardrail(self, guardrail: str, **facts: Any) -> int:
        """Record that a guardrail acted: `severity`, `action`, and what else `GuardrailTriggered` holds."""
        event = GuardrailTriggered(guardrail=guardrail, **{"context": MAIN, **facts}, **self._desk.files.now())
        return self._desk.append(event)[0].seq

    def finish(self, outcome: str, detail: Any = None) -> None:
        """End the run for good. Raises `NeedsPerson` while the outcome of a call is unknown, `Usage` without words."""
        if not outcome:
            raise Usage("an outcome is a word", next=('run.finish("done")',))
        try:
            self._desk.pen.finish(outcome, detail=detail)
        except IllegalEvent as e:
            if not e.details.get("keys"):
                raise
            raise NeedsPerson(e.message, kept="the run stays open", next=("ckpt uncertain",)) from e
