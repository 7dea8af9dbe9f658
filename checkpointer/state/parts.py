"""What a run's state is made of: immutable, and without contents.

Seqs name events, and with them contents; times are those of events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from checkpointer.canon import FrozenDict
from checkpointer.events import Commit, Declared, Effect, Holder, Mode, Risk, Terms, Trust
from checkpointer.state.tables import CallStatus, RunStatus
from checkpointer.trail import Ledger, Trail

Place = tuple[int, int]
"""A slot of a model turn: the turn's seq, and the number of the call in it, from 0."""


Role = Literal["user", "model", "tool", "summary", "gap"]


class Message(NamedTuple):
    """What stands in a context. `seq` made it and is its id; its words are contents of event `source` of this run.

    A `tool` message answers `slot` with what became of call `key`. A `gap` stands where words are lost.
    """

    seq: int
    role: Role
    trust: Trust
    source: int
    key: str | None = None
    slot: Place | None = None


class Attempt(NamedTuple):
    """How an open or failed call may be settled: when it started, on which files, and what its tool declared."""

    first_at: str
    at: str
    commit: Commit | None
    terms: Terms | None
    parent: str | None
    compensates: str | None


class Call(NamedTuple):
    """An action and what became of it. `accepted`, `started` and `ended` are seqs, 0 for not yet.

    `attempt` counts starts. `proven` says that the newest attempt certainly had no effect. `newest` is there from the
    first start until the call is over, and for a failed one. `origin` is set for another run's call: (run, seq).
    """

    key: str
    tool: str
    effect: Effect
    status: CallStatus
    context: str
    slot: Place | str | None = None
    accepted: int = 0
    started: int = 0
    ended: int = 0
    attempt: int = 0
    generation: int = 0
    outcome: str = ""
    source: str = ""
    trust: Trust = "untrusted"
    proven: bool = False
    signature: str | None = None
    occurrence: int = 1
    risk: Risk = "normal"
    args_digest: str | None = None
    newest: Attempt | None = None
    origin: tuple[str, int] | None = None

    @property
    def sent_key(self) -> str:
        """The key as a receiver sees it."""
        return f"{self.key}/g{self.generation}" if self.generation else self.key


class Tokens(NamedTuple):
    """The sum of what model turns used."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


class Waiting(NamedTuple):
    """A slot that no message answers yet."""

    key: str
    context: str


class Named(NamedTuple):
    """What filled a caller's slot: event `seq`, which began call `key` unless it is a message."""

    seq: int
    key: str | None


class Doubt(NamedTuple):
    """A call's place in the queue: `number` is its handle, `tries` how often settling it was tried.

    `retry` says by whose word it is to run again under the same key (`policy`, `person`), empty while it waits for one.
    `earlier`: an attempt before the newest may have had its effect too, so what is known of the newest settles nothing.
    """

    key: str
    number: int | None
    seq: int
    since: str
    reason: str
    tries: int = 0
    escalated: bool = False
    told: bool = False
    retry: str = ""
    earlier: bool = False


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

    `live` are the calls that are not over, `over` the others, both by key; `waiting` the unanswered slots in their
    order; `doubts` the uncertain calls, and those that are to run again; `watched` the newest completions of tools
    whose observations age, by tool and arguments; `readings` the completions that say which files they read, by their
    seqs; `signatures` the newest call of each signature; `named` what a caller's slot was filled with.
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
    resumptions: tuple[Resumption, ...] = ()
    commit: Commit | None = None
    unprotected: str | None = None
    turn: int | None = None
    messages: FrozenDict[str, Trail[Message]] = field(default_factory=FrozenDict)
    model_turns: int = 0
    usage: Tokens = Tokens()  # noqa: RUF009 - immutable
    cost_micros: int = 0
    compactions: tuple[Compaction, ...] = ()
    trajectory: Trail[Step] = field(default_factory=lambda: Trail(Step._make))
    live: FrozenDict[str, Call] = field(default_factory=FrozenDict)
    over: Ledger[str, Call] = field(default_factory=lambda: Ledger(Call._make))
    waiting: FrozenDict[Place, Waiting] = field(default_factory=FrozenDict)
    doubts: FrozenDict[str, Doubt] = field(default_factory=FrozenDict)
    approvals: FrozenDict[str, Approval] = field(default_factory=FrozenDict)
    signatures: Ledger[str, str] = field(default_factory=lambda: Ledger(str))
    watched: Ledger[str, int] = field(default_factory=lambda: Ledger(int))
    readings: Trail[int] = field(default_factory=lambda: Trail(int))
    named: Ledger[str, Named] = field(default_factory=lambda: Ledger(Named._make))

    def context(self, name: str = "main") -> Trail[Message]:
        """The messages of a context, oldest first."""
        return self.messages.get(name, _NO_MESSAGES)

    @property
    def accepted(self) -> tuple[Place, ...]:
        """The slots that wait, in their order: what is to be called next, or was cut off."""
        return tuple(self.waiting)

    def call(self, key: str) -> Call | None:
        """The call of a key, or None."""
        live = self.live.get(key)
        return self.over.get(key) if live is None else live

    def filled(self, slot: Place | str) -> Call | None:
        """What fills a slot, or None. A slot of a model turn that left its context is not found."""
        if isinstance(slot, str):
            found = self.named.get(slot)
            return self.call(found.key) if found is not None and found.key else None
        waits = self.waiting.get(slot)
        if waits is not None:
            return self.call(waits.key)
        answers = (m for trail in self.messages.values() for m in reversed(trail) if m.slot == slot)
        return next((self.call(m.key) for m in answers if m.key is not None), None)

    @property
    def open(self) -> tuple[Call, ...]:
        """The calls whose start is in the log and whose end is not, the uncertain ones left out."""
        return tuple(c for c in self.live.values() if c.status == "open")

    @property
    def uncertain(self) -> tuple[Call, ...]:
        return tuple(c for c in self.live.values() if c.status == "uncertain")

    @property
    def unsettled(self) -> tuple[Call, ...]:
        """Every call that may have had an effect which no event confirms: open, uncertain, or about to run again."""
        return tuple(c for c in self.live.values() if c.status != "accepted" or c.key in self.doubts)

    @property
    def completed(self) -> tuple[Call, ...]:
        return tuple(c for c in self.over.values() if c.status == "completed")


_NO_MESSAGES: Final[Trail[Message]] = Trail(Message._make)
