"""What an event does to the conversation. Each function gives the fields that change, or refuses."""

from __future__ import annotations

from typing import Any

from checkpointer.canon import FrozenDict
from checkpointer.errors import IllegalEvent
from checkpointer.events import MAIN, ContextCompacted, ContextRewound, ModelTurn, Usage, UserMessage
from checkpointer.state import calls
from checkpointer.state.parts import Compaction, Message, RunState
from checkpointer.trail import Trail

Changes = dict[str, Any]


def said(state: RunState, context: str, *messages: Message) -> FrozenDict[Any, Any]:
    """All messages, with these added to one context."""
    trail = state.context(context)
    for message in messages:
        trail = trail.add(message)
    return FrozenDict({**state.messages, context: trail})


def user_message(state: RunState, e: UserMessage) -> Changes:
    context = e.context or MAIN
    changes: Changes = {"messages": said(state, context, Message(e.seq, "user", e.trust, e.seq))}
    if e.slot is not None:
        changes["named"] = calls.name(state, e.slot, e.seq, None)
    if e.turn is not None:
        changes["turn"] = e.turn
    return changes


def model_turn(state: RunState, e: ModelTurn) -> Changes:
    context = e.context or MAIN
    if any(w.context == context for w in state.waiting.values()):
        raise IllegalEvent("a model was asked while calls of its last turn had no answer")
    u, more = state.usage, e.usage
    changes: Changes = {
        "messages": said(state, context, Message(e.seq, "model", "model", e.seq)),
        "model_turns": state.model_turns.add(e.seq),
        "cost_micros": state.cost_micros + e.cost_micros,
        "usage": Usage(
            input=u.input + more.input,
            output=u.output + more.output,
            cache_read=u.cache_read + more.cache_read,
            cache_write=u.cache_write + more.cache_write,
            reasoning=u.reasoning + more.reasoning,
        ),
    }
    if e.calls:
        calls.accept(state, e, context, changes)
    return changes


def _check_cut(state: RunState, context: str, cut: tuple[Message, ...], kept: tuple[Message, ...]) -> None:
    """A call and its answer go together or stay together, and an unanswered call stays."""
    turns = {m.seq for m in cut if m.role == "model"}
    if any(w.context == context and slot.seq in turns for slot, w in state.waiting.items()):
        raise IllegalEvent("a call that has no answer yet cannot leave the context")
    if any(m.slot is not None and m.slot.seq not in turns for m in cut):
        raise IllegalEvent("an answer cannot leave the context without its call")
    if any(m.slot is not None and m.slot.seq in turns for m in kept):
        raise IllegalEvent("a call cannot leave the context without its answer")


def _position(trail: Trail[Message], seq: int) -> tuple[int, int]:
    """From where to where the messages of one id stand. Raises `IllegalEvent` if there are none."""
    found = [i for i, m in enumerate(trail) if m.seq == seq]
    if not found:
        raise IllegalEvent(f"the context holds no message {seq}")
    return found[0], found[-1] + 1


def compacted(state: RunState, e: ContextCompacted) -> Changes:
    context = e.context or MAIN
    trail = state.context(context)
    start, _ = _position(trail, e.from_seq)
    _, end = _position(trail, e.to_seq)
    if end <= start:
        raise IllegalEvent("a compaction that ends before it begins")
    _check_cut(state, context, trail[start:end], trail[:start] + trail[end:])
    put = Message(e.seq, "summary" if e.summarised else "gap", "untrusted", e.seq)
    compaction = Compaction(e.seq, context, e.from_seq, e.to_seq, e.summarised)
    return {
        "messages": FrozenDict({**state.messages, context: Trail((*trail[:start], put, *trail[end:]))}),
        "compactions": state.compactions.add(compaction),
    }


def rewound(state: RunState, e: ContextRewound) -> Changes:
    context = e.context or MAIN
    trail = state.context(context)
    end = _position(trail, e.to_seq)[1] if e.to_seq else 0
    _check_cut(state, context, trail[end:], trail[:end])
    return {"messages": FrozenDict({**state.messages, context: Trail(trail[:end])})}
