"""What a run's state is made of: immutable, and without contents.

Seqs name events, and with them contents; times are those of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from checkpointer.canon import FrozenDict
from checkpointer.events import Commit, Declared, Effect, Holder, Mode, Risk, Trust, Usage
from checkpointer.state.tables import CallStatus, RunStatus
from checkpointer.trail import Ledger, Trail


class Place(NamedTuple):
    """A slot of a model turn: the turn's seq, and the number of the call in it, from 0."""

    seq: int
    nth: int


class Message(NamedTuple):
    """What stands in a context. `seq` made it and is its id; its words are contents of event `source` of this run.

    A `tool` message answers `slot` with what became of call `key`. A `gap` stands where words are lost.
    """

    seq: int
    role: Literal["user", "model", "tool", "summary", "gap"]
    trust: Trust
    source: int
    key: str | None = None
    slot: Place | None = None


class Call(NamedTuple):
    """An action and what became of it. `accepted`, `started` and `ended` are seqs, 0 for not yet.

    `attempt` counts starts; `commit` and `started_at` are those of the newest, `first_at` is the time of the first.
    `proven` says that the newest attempt certainly had no effect. `origin` is set for another run's call: (run, seq).
    """

    key: str
    tool: str
    effect: Effect
    status: CallStatus
    context: str
    risk: Risk = "normal"
    signature: str | None = None
    occurrence: int = 1
    args_digest: str | None = None
    slot: Place | str | None = None
    accepted: int = 0
    started: int = 0
    ended: int = 0
    attempt: int = 0
    generation: int = 0
    first_at: str = ""
    started_at: str = ""
    commit: Commit | None = None
    keys_kept_s: int | None = None
    deadline_s: int | None = None
    recovery_s: int | None = None
    after_failure: str = "new_key"
    exclusive: bool = False
    outcome: str = ""
    source: str = ""
    trust: Trust = "untrusted"
    proven: bool = False
    parent: str | None = None
    compensates: str | None = None
    origin: tuple[str, int] | None = None

    @property
    def sent_key(self) -> str:
        """The key as a receiver sees it."""
        return f"{self.key}/g{self.generation}" if self.generation else self.key


class Waiting(NamedTuple):
    """A slot that no message answers yet."""

    key: str
    context: str


class Doubt(NamedTuple):
    """An uncertain call's place in the queue: `number` is its handle, `tries` how often settling it was tried."""

    key: str
    number: int | None
    seq: int
    since: str
    reason: str
    tries: int = 0
    escalated: bool = False
    told: bool = False


class Approval(NamedTuple):
    """What was asked or decided about one attempt of a call."""

    key: str
    attempt: int
    args_digest: str | None
    status: Literal["pending", "approved", "denied", "expired"]
    seq: int
    at: str
    expires_at: str | None


class Compaction(NamedTuple):
    seq: int
    context: str
    from_seq: int
    to_seq: int
    summarised: bool


class Resumption(NamedTuple):
    seq: int
    epoch: int
    after: str
    at: str


class Step(NamedTuple):
    """One start, in the order of the trajectory. `turn` and `number` are those of its handle (`t3.2`)."""

    seq: int
    key: str
    tool: str
    attempt: int
    turn: int | None
    number: int | None


@dataclass(frozen=True)
class RunState:
    """All that a run's log says, up to event `seq`. Only `apply` makes one; see there.

    `calls` holds every call by key, `live` those that are not over, `waiting` the unanswered slots in their order,
    `doubts` the uncertain calls, `signatures` the newest call of each signature, `named` what a caller's slot was
    filled with: (seq, key or None).
    """

    seq: int = 0
    at: str = ""
    epoch: int = 0
    status: RunStatus = "new"
    run: str = ""
    number: int | None = None
    tenant: str = ""
    operation: str = ""
    mode: Mode = "observed"
    on_uncertain: str = "pause"
    owner: Holder | None = None
    writer: str = ""
    fold: str = ""
    tools: tuple[Declared, ...] = ()
    prompt: str | None = None
    agent: str | None = None
    session: str | None = None
    ttl_ms: int = 30_000
    durability: str = "sync"
    claimed_at: str = ""
    released: str | None = None
    outcome: str | None = None
    resumptions: Trail[Resumption] = field(default_factory=Trail)
    commit: Commit | None = None
    unprotected: str | None = None
    turn: int | None = None
    messages: Mapping[str, Trail[Message]] = field(default_factory=FrozenDict)
    model_turns: Trail[int] = field(default_factory=Trail)
    usage: Usage = field(default_factory=Usage)
    cost_micros: int = 0
    compactions: Trail[Compaction] = field(default_factory=Trail)
    trajectory: Trail[Step] = field(default_factory=Trail)
    calls: Ledger[str, Call] = field(default_factory=Ledger)
    live: Mapping[str, None] = field(default_factory=FrozenDict)
    waiting: Mapping[Place, Waiting] = field(default_factory=FrozenDict)
    doubts: Mapping[str, Doubt] = field(default_factory=FrozenDict)
    approvals: Mapping[str, Approval] = field(default_factory=FrozenDict)
    signatures: Ledger[str, str] = field(default_factory=Ledger)
    named: Ledger[str, tuple[int, str | None]] = field(default_factory=Ledger)

    def context(self, name: str = "main") -> Trail[Message]:
        """The messages of a context, oldest first."""
        return self.messages.get(name, _NO_MESSAGES)

    @property
    def accepted(self) -> tuple[Place, ...]:
        """The slots that wait, in their order: what is to be called next, or was cut off."""
        return tuple(self.waiting)

    def call(self, slot: Place | str) -> Call | None:
        """What fills a slot, or None."""
        if isinstance(slot, str):
            found = self.named.get(slot)
            return self.calls.get(found[1]) if found and found[1] else None
        waits = self.waiting.get(slot)
        if waits is not None:
            return self.calls[waits.key]
        return next((self.calls[m.key] for m in self._answers(slot) if m.key is not None), None)

    def _answers(self, slot: Place) -> list[Message]:
        return [m for trail in self.messages.values() for m in trail if m.slot == slot]

    @property
    def open(self) -> tuple[Call, ...]:
        """The calls whose start is in the log and whose end is not, the uncertain ones left out."""
        return tuple(c for c in map(self.calls.__getitem__, self.live) if c.status == "open")

    @property
    def uncertain(self) -> tuple[Call, ...]:
        return tuple(map(self.calls.__getitem__, self.doubts))

    @property
    def completed(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls.values() if c.status == "completed")


_NO_MESSAGES: Final[Trail[Message]] = Trail()


def grown(state: RunState, changes: Mapping[str, Any]) -> RunState:
    """`dataclasses.replace`, without its cost. For `apply` alone."""
    new: RunState = object.__new__(RunState)
    new.__dict__.update(state.__dict__)
    new.__dict__.update(changes)
    return new
