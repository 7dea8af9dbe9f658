"""A state while it grows: `thaw`, let events change it, `freeze`.

The draft is never seen by anybody but the fold, and one that an event was refused for is thrown away. So it may be
changed in place, which is what makes a replay cheap.
"""

from __future__ import annotations

from typing import Any

from checkpointer.canon import FrozenDict
from checkpointer.errors import IllegalEvent
from checkpointer.events import Trust
from checkpointer.state.parts import Approval, Call, Doubt, Message, Place, Role, RunState, Tokens, Waiting
from checkpointer.state.tables import CALL, LIVE, CallStatus
from checkpointer.trail import Growing, Trail


class Draft:
    """The fields of `RunState` under the same names: those that every event may change, the rest in `rest`."""

    __slots__ = (
        "approvals", "at", "commit", "compactions", "cost_micros", "doubts", "epoch", "live", "messages",
        "model_turns", "named", "over", "readings", "rest", "seq", "signatures", "status", "tokens",
        "trajectory", "turn", "unprotected", "waiting", "watched",
    )  # fmt: skip

    def __init__(self, state: RunState) -> None:
        self.rest: dict[str, Any] = dict(state.__dict__)
        self.seq = state.seq
        self.at = state.at
        self.epoch = state.epoch
        self.status = state.status
        self.commit = state.commit
        self.unprotected = state.unprotected
        self.turn = state.turn
        self.cost_micros = state.cost_micros
        self.model_turns = state.model_turns
        self.tokens = state.usage
        self.messages: dict[str, Growing] = {c: trail.thaw() for c, trail in state.messages.items()}
        self.trajectory = state.trajectory.thaw()
        self.compactions = state.compactions
        self.over = state.over.thaw()
        self.signatures = state.signatures.thaw()
        self.named = state.named.thaw()
        self.live: dict[str, Call] = dict(state.live)
        self.waiting: dict[Place, Waiting] = dict(state.waiting)
        self.doubts: dict[str, Doubt] = dict(state.doubts)
        self.watched = state.watched.thaw()
        self.readings = state.readings.thaw()
        self.approvals: dict[str, Approval] = dict(state.approvals)

    def freeze(self) -> RunState:
        """The state as it is now; the draft must not be used again."""
        self.rest.update(
            seq=self.seq,
            at=self.at,
            epoch=self.epoch,
            status=self.status,
            commit=self.commit,
            unprotected=self.unprotected,
            turn=self.turn,
            cost_micros=self.cost_micros,
            model_turns=self.model_turns,
            usage=self.tokens,
            messages=FrozenDict({context: said.freeze() for context, said in self.messages.items()}),
            trajectory=self.trajectory.freeze(),
            compactions=self.compactions,
            over=self.over.freeze(),
            signatures=self.signatures.freeze(),
            named=self.named.freeze(),
            live=FrozenDict(self.live),
            waiting=FrozenDict(self.waiting),
            doubts=FrozenDict(self.doubts),
            approvals=FrozenDict(self.approvals),
            watched=self.watched.freeze(),
            readings=self.readings.freeze(),
        )
        state: RunState = object.__new__(RunState)
        state.__dict__.update(self.rest)
        return state

    # What several events do

    def say(
        self, context: str, seq: int, role: Role, trust: Trust, source: int, key: str | None = None,
        slot: Place | None = None,
    ) -> None:  # fmt: skip
        """Add a `Message` to a context."""
        said = self.messages.get(context)
        if said is None:
            said = self.messages[context] = Trail(Message._make).thaw()
        said.append((seq, role, trust, source, key, slot))

    def call(self, key: str) -> Call | None:
        return self.live.get(key) or self.over.get(key)

    def keep(self, call: Call) -> None:
        """Put a call in its place: among the live ones, or those that are over."""
        if call.status in LIVE:
            self.live[call.key] = call
        else:
            self.live.pop(call.key, None)
            self.over.put(call.key, tuple(call))

    def answer(self, key: str, seq: int, trust: Trust) -> None:
        """Every slot that waits for this call is answered by event `seq`."""
        for slot in [slot for slot, waits in self.waiting.items() if waits.key == key]:
            context = self.waiting.pop(slot).context
            self.say(context, seq, "tool", trust, seq, key, slot)

    def name(self, slot: str, seq: int, key: str | None) -> None:
        """Fill a caller's slot; each is filled once."""
        filled = self.named.get(slot)
        if filled is not None:
            raise IllegalEvent(f"the slot {slot!r} was filled by event {filled.seq}", slot=slot)
        self.named.put(slot, (seq, key))

    def spend(self, input: int, output: int, cache_read: int, cache_write: int, reasoning: int) -> None:
        had = self.tokens
        self.tokens = Tokens(
            had[0] + input, had[1] + output, had[2] + cache_read, had[3] + cache_write, had[4] + reasoning
        )  # fmt: skip


def move(call: Call | None, what: str, key: str) -> CallStatus:
    """Where `CALL` leads. Raises `IllegalEvent`."""
    status = "new" if call is None else call.status
    try:
        return CALL[status, what]
    except KeyError:
        raise IllegalEvent(f"call {key} is {status}: {what} cannot follow", key=key, status=status) from None
