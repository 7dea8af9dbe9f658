"""What an event does to the conversation: it changes the draft, or refuses."""

from __future__ import annotations

from collections.abc import Sequence

from checkpointer.errors import IllegalEvent
from checkpointer.events import MAIN, ContextCompacted, ContextRewound, ModelTurn, UserMessage
from checkpointer.state import calls
from checkpointer.state.draft import Draft
from checkpointer.state.parts import Compaction, Message
from checkpointer.trail import Growing, Trail


def user_message(draft: Draft, e: UserMessage) -> None:
    if e.slot is not None:
        draft.name(e.slot, e.seq, None)
    draft.say(e.context or MAIN, e.seq, "user", e.trust, e.seq)
    if e.turn is not None:
        draft.turn = e.turn
    if e.session is not None:
        draft.rest.update(session=e.session, agent=e.agent or draft.rest["agent"])


def model_turn(draft: Draft, e: ModelTurn) -> None:
    context = e.context or MAIN
    if draft.waiting and any(w.context == context for w in draft.waiting.values()):
        raise IllegalEvent("a model was asked while calls of its last turn had no answer")
    draft.say(context, e.seq, "model", "model", e.seq)
    draft.model_turns += 1
    draft.cost_micros += e.cost_micros
    u = e.usage
    draft.spend(u.input, u.output, u.cache_read, u.cache_write, u.reasoning)
    if e.calls:
        calls.accept(draft, e, context)


def _check_cut(draft: Draft, context: str, cut: Sequence[Message], kept: Sequence[Message]) -> None:
    """A call and its answer go together or stay together, and an unanswered call stays."""
    turns = {m.seq for m in cut if m.role == "model"}
    if any(w.context == context and slot[0] in turns for slot, w in draft.waiting.items()):
        raise IllegalEvent("a call that has no answer yet cannot leave the context")
    if any(m.slot is not None and m.slot[0] not in turns for m in cut):
        raise IllegalEvent("an answer cannot leave the context without its call")
    if any(m.slot is not None and m.slot[0] in turns for m in kept):
        raise IllegalEvent("a call cannot leave the context without its answer")


def _position(said: Sequence[Message], seq: int) -> tuple[int, int]:
    """From where to where the messages of one id stand. Raises `IllegalEvent` if there are none."""
    found = [i for i, m in enumerate(said) if m.seq == seq]
    if not found:
        raise IllegalEvent(f"the context holds no message {seq}")
    return found[0], found[-1] + 1


def _trail(said: Sequence[Message]) -> Growing:
    return Trail(Message._make, map(tuple, said)).thaw()


def compacted(draft: Draft, e: ContextCompacted) -> None:
    context = e.context or MAIN
    said = [Message._make(row) for row in draft.messages.get(context, ())]
    start, _ = _position(said, e.from_seq)
    _, end = _position(said, e.to_seq)
    if end <= start:
        raise IllegalEvent("a compaction that ends before it begins")
    _check_cut(draft, context, said[start:end], [*said[:start], *said[end:]])
    put = Message(e.seq, "summary" if e.summarised else "gap", "untrusted", e.seq)
    draft.messages[context] = _trail([*said[:start], put, *said[end:]])
    compaction = Compaction(e.seq, context, e.from_seq, e.to_seq, e.summarised)
    draft.compactions = (*draft.compactions, compaction)


def rewound(draft: Draft, e: ContextRewound) -> None:
    context = e.context or MAIN
    said = [Message._make(row) for row in draft.messages.get(context, ())]
    end = _position(said, e.to_seq)[1] if e.to_seq else 0
    _check_cut(draft, context, said[end:], said[:end])
    draft.messages[context] = _trail(said[:end])
