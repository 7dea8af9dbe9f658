"""What a run's state only names: words, arguments and results, read from its log; what a model is to be asked with.

A context is a list of plain dicts that belong to no model's API:

    {"role": "user", "content": ..., "trust": "trusted", "seq": 4}
    {"role": "assistant", "content": ..., "tool_calls": [{"id", "name", "arguments"}], "seq": 5}
    {"role": "tool", "tool_call_id": ..., "name": ..., "content": ..., "failed": false, "seq": 7}
    {"role": "summary", "content": ..., "trust": "untrusted", "seq": 9}
    {"role": "gap", "content": None, "seq": 9}       messages that are lost

`seq` is the message's id. Contents that were redacted from the log are None, and the dict says `"redacted": True`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from checkpointer import canon
from checkpointer.events import (
    ABSENT,
    AnyEvent,
    ApprovalDecided,
    ContextCompacted,
    ModelTurn,
    RunStarted,
    ToolCallCompleted,
    ToolCallReconciled,
    ToolCallStarted,
    UserMessage,
)
from checkpointer.log import Writable
from checkpointer.state import Message, Place, RunState

UNKNOWN = "The outcome of this call is unknown: it may have happened. Do not repeat it."
ABANDONED = "This call was given up by a person; whether it happened is not known."
ELSEWHERE = "This was done already, in another run; its result is not known here."
DENIED = "This call was not allowed"


class Contents:
    """Reads events whole, each once; usable by several threads."""

    def __init__(self, log: Writable) -> None:
        self._log = log
        self._known: dict[int, AnyEvent] = {}
        self._mutex = threading.Lock()

    def add(self, events: Iterable[AnyEvent]) -> None:
        """Remember events that were just appended."""
        with self._mutex:
            self._known.update(
                (event.seq, event) for event in events if event.group in ("context", "tools", "oversight")
            )

    def load(self, seqs: Iterable[int]) -> dict[int, AnyEvent]:
        """Events with their contents, by seq. Raises `MissingObject`, `Damaged` where one cannot be read."""
        with self._mutex:
            wanted = set(seqs)
            missing = sorted(wanted - self._known.keys())
            if missing:
                for record in self._log.at(missing):
                    self._known[record.seq] = record.load(self._log.fetch)
            return {seq: self._known[seq] for seq in wanted}

    def one(self, seq: int) -> AnyEvent:
        return self.load((seq,))[seq]

    def carried(self, key: str) -> tuple[Any, bool]:
        """What a model is told of a call that another run of the operation made, and whether it is an error."""
        first = self.one(1)
        held = first.carried_results if isinstance(first, RunStarted) else None
        said = held.get(key) if isinstance(held, dict) else None
        if not isinstance(said, dict) or "result" not in said:
            return ELSEWHERE, False
        return said["result"], bool(said.get("failed"))

    def arguments(self, state: RunState, slot: Place | str) -> Any:
        """The arguments of the call in a slot, or `ABSENT` where they were redacted."""
        seq = slot[0] if isinstance(slot, tuple) else state.named[slot].seq
        event = self.one(seq)
        if isinstance(event, ModelTurn) and isinstance(slot, tuple):
            return ABSENT if event.arguments is ABSENT else event.arguments[slot[1]]
        if isinstance(event, ToolCallStarted):
            return event.arguments
        return ABSENT

    def context(self, state: RunState, name: str) -> list[dict[str, Any]]:
        """The messages of a context as plain dicts, oldest first; they are the caller's to change."""
        said = state.context(name)
        turns = {m.slot[0] for m in said if m.slot is not None}
        events = self.load({m.source for m in said if m.source} | turns)
        return [self._found_out(m, state, events) or _plain(m, events, self) for m in said]

    def _found_out(self, m: Message, state: RunState, events: dict[int, AnyEvent]) -> dict[str, Any] | None:
        """What became of a call that the model was told nobody knows of; None for any other message."""
        event, call = events.get(m.source), state.call(m.key) if m.key is not None else None
        if m.role != "user" or not isinstance(event, ToolCallCompleted) or call is None:
            return None
        said, _ = result(event)
        words = "" if said is ABSENT else f": {said if isinstance(said, str) else canon.dumps(said).decode()}"
        happened = "it did not happen" if event.effect == "none" else "it happened"
        content = f"It was found out what became of {call.tool}, which nobody knew: {happened}{words}"
        return {"role": "user", "content": content, "trust": m.trust, "seq": m.seq}


def call_name(turn: ModelTurn, slot: Place) -> str:
    """How a model knows a call: by its own name for it, or by one made of the slot."""
    return turn.calls[slot[1]].call_id or f"call_{slot[0]}_{slot[1]}"


def _plain(m: Message, events: dict[int, AnyEvent], contents: Contents) -> dict[str, Any]:
    event = events.get(m.source)
    match event:
        case UserMessage():
            out: dict[str, Any] = {"role": "user", "content": event.content, "trust": m.trust}
        case ModelTurn():
            out = {"role": "assistant", "content": event.content, "tool_calls": _asked(event)}
        case ContextCompacted():
            out = {"role": m.role, "content": event.summary if m.role == "summary" else None, "trust": m.trust}
        case _:
            out = _answered(m, event, events, contents)
    if out["content"] is ABSENT:
        out.update(content=None, redacted=True)
    out["content"] = canon.thaw(out["content"])
    return {**out, "seq": m.seq}


def _asked(turn: ModelTurn) -> list[dict[str, Any]]:
    said = [ABSENT] * len(turn.calls) if turn.arguments in (ABSENT, None) else turn.arguments
    asked = []
    for nth, (call, arguments) in enumerate(zip(turn.calls, said, strict=True)):
        one: dict[str, Any] = {"id": call_name(turn, (turn.seq, nth)), "name": call.tool}
        one["arguments"] = None if arguments is ABSENT else canon.thaw(arguments)
        asked.append(one)
    return asked


def _answered(m: Message, event: AnyEvent | None, events: dict[int, AnyEvent], contents: Contents) -> dict[str, Any]:
    content, failed = contents.carried(m.key) if not m.source and m.key is not None else result(event)
    out = {"role": "tool", "content": content, "failed": failed}
    if m.slot is not None:
        turn = events[m.slot[0]]
        assert isinstance(turn, ModelTurn)
        out.update(tool_call_id=call_name(turn, m.slot), name=turn.calls[m.slot[1]].tool)
    return out


def result(event: AnyEvent | None) -> tuple[Any, bool]:
    """What a model is told of a call that ended with `event`, and whether it is an error."""
    match event:
        case ToolCallCompleted():
            return event.result, event.failed
        case ApprovalDecided():
            reason = event.reason if isinstance(event.reason, str) else ""
            return f"{DENIED}: {reason}" if reason else f"{DENIED}.", True
        case ToolCallReconciled(verdict="abandon"):
            return ABANDONED, True
        case ToolCallReconciled():
            return UNKNOWN, True
        case _:
            return ABSENT, True
