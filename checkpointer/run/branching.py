"""What the log of a fork begins with: its parent's conversation up to a point, and what is in the world already.

A fork is an operation of its own, with a secret of its own. What its parent has done outside, before the point or
after it, keeps the key it was done under, and is never done again: a call that would do the same is answered by it.
What was not done gets another key, so that no receiver takes the fork's call for one of its parent's. Signatures are
made anew, since they are keyed too; a call whose arguments were purged has none, and is known by nobody again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from checkpointer import canon
from checkpointer.errors import Usage
from checkpointer.events import (
    ABSENT,
    AcceptedCall,
    AnyEvent,
    ApprovalDecided,
    ApprovalRequested,
    CarriedCall,
    ContextCompacted,
    ContextRewound,
    LogRedacted,
    ModelTurn,
    RunFinished,
    RunReleased,
    RunResumed,
    RunStarted,
    ToolCallCompleted,
    ToolCallReconciled,
    ToolCallStarted,
    ToolCallUncertain,
    TurnSlot,
)
from checkpointer.log import JsonlLog
from checkpointer.record import Record
from checkpointer.run import inheriting
from checkpointer.run.identity import Identity
from checkpointer.state import Call, RunState, fold

DONE: Final = frozenset(("completed", "abandoned", "unreported"))
_LEFT_OUT = (RunStarted, RunResumed, RunReleased, RunFinished, LogRedacted, ApprovalRequested)
_OF_CALL = (ToolCallStarted, ToolCallCompleted, ToolCallUncertain, ToolCallReconciled)
Stop = Callable[[AnyEvent], bool]
"""Is this event the first that is no part of the fork?"""


@dataclass(frozen=True)
class Cut:
    """The place in the parent's log after which the fork goes its own way: the state there and at the end. `moved`: a
    call was under way at the place that was wanted.
    """

    seq: int
    sum: str
    then: RunState
    now: RunState
    moved: bool = False

    @property
    def under_way(self) -> set[str]:
        """The calls outside that had begun at the place and were not over."""
        return {c.key for c in self.then.unsettled if c.effect == "external"}

    def keeps(self, key: str) -> bool:
        """Has this call been done, so that its key goes on naming it?"""
        before, after = self.then.over.get(key), self.now.over.get(key)
        if before is not None and before.status in DONE:
            return True
        return after is not None and after.effect == "external" and after.status in DONE


def cut(log: JsonlLog, now: RunState, stop: Stop) -> Cut:
    """The place right before the first event at which `stop` says so, moved back so that no call is under way there
    whose files could be half-done. Raises `Usage` where nothing would be left.
    """
    end = next((r.event.w - 1 for r in log.read() if stop(r.event)), now.seq)  # a write is whole or not there
    moved = False
    while True:
        last = ""

        def each(upto: int = end) -> Iterator[AnyEvent]:
            nonlocal last
            for record in log.read():
                if record.seq > upto:
                    return
                last = record.sum
                yield record.event

        then = fold(each())
        halves = [c.started for c in (*then.open, *then.uncertain) if c.effect != "external" and c.started]
        if not halves:
            break
        end, moved = log.at([min(halves)])[0].event.w - 1, True
    if end < 1:
        raise Usage(f"that is before run {log.run} began", kept="nothing was written", next=("ckpt events",))
    return Cut(end, last, then, now, moved)


@dataclass
class Branch:
    """The events of a fork's log after its first one, and what that one says. `bare` has the digest of the contents of
    events that were purged, by their new seqs. `unknown` counts calls that nobody can recognise any more.
    """

    carried: list[CarriedCall] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    since: list[Call] = field(default_factory=list)
    events: list[AnyEvent] = field(default_factory=list)
    bare: dict[int, str] = field(default_factory=dict)
    unknown: int = 0


class Brancher:
    """Translates a parent's events. `identity` is the fork's."""

    def __init__(self, log: JsonlLog, at: Cut, identity: Identity, run: str) -> None:
        self._log = log
        self._at = at
        self._identity = identity
        self._run = run
        self.branch = Branch()
        self._keys: dict[str, str] = {}
        self._seqs: dict[int, int] = {}
        self._signed: dict[str, tuple[str | None, int]] = {}
        self._occurrences: dict[str, int] = {}
        self._known: set[str] = set()
        self._elsewhere = {c.key for c in at.now.over.values() if c.origin is not None and not c.started}
        self._elsewhere |= {c.key for c in at.now.live.values() if c.origin is not None and not c.started}
        self._undone: set[str] = set()
        self._brought: set[str] = set()
        self._ends = self._first_ends()

    def _first_ends(self) -> dict[str, tuple[int, bool]]:
        """How the calls that were under way at the place ended first: the event, and whether they were done."""
        wanted, found = self._at.under_way, dict[str, tuple[int, bool]]()
        for record in self._log.read() if wanted else ():
            event = record.event
            if record.seq > self._at.seq and getattr(event, "key", "") in wanted - found.keys():
                if isinstance(event, ToolCallCompleted) and not event.again:
                    found[event.key] = (record.seq, event.effect != "none")
                elif isinstance(event, ToolCallReconciled) and event.verdict in ("abandon", "unreported"):
                    found[event.key] = (record.seq, True)
        return found

    def run(self) -> Branch:
        self._carry()
        self._seqs[1] = 1
        for record in self._log.read():
            if record.seq > self._at.seq and not self._settles(record):
                continue
            event = self._translated(record)
            seq = len(self.branch.events) + (2 if event is not None else 1)
            self._seqs[record.seq] = seq
            if event is None:
                continue
            if record.redacted:
                self.branch.bare[seq] = str(canon.loads(record.line[5 : record.line.index(b'"},"sum":"') + 2])["dd"])
            place = {"seq": seq, "w": seq, "n": 1, "epoch": 1, "v": type(event).version}
            self.branch.events.append(event.model_copy(update=place))
        return self.branch

    def _settles(self, record: Record) -> bool:
        """Does this later event belong to what brought a call to its end that was under way?"""
        return isinstance(record.event, _OF_CALL) and record.seq <= self._ends.get(record.event.key, (0, False))[0]

    # What is in the world

    def _carry(self) -> None:
        """What the parent's own first event brought along, and what the parent did after the place."""
        then, now = self._at.then, self._at.now
        for call in inheriting.outside(now):
            before = then.call(call.key)
            elsewhere = call.key in self._elsewhere
            comes = before is not None and (before.status in DONE or self._ends.get(call.key, (0, False))[1])
            if comes and not elsewhere:
                continue  # its events come along
            held = inheriting.contents(self._log, now, call)
            if not elsewhere:
                self.branch.since.append(call)
                if before is not None and before.status != "accepted":
                    self._undone.add(call.key)
            status: Any = None if elsewhere or call.status != "completed" else "world"
            one = inheriting.carry(call, now, status)
            signature, nth = self._sign(call.key, call.tool, held.get("arguments", ABSENT), call.signature)
            self.branch.carried.append(one.model_copy(update={"signature": signature, "occurrence": nth}))
            self.branch.results[call.key] = held
            self._known.add(call.key)
            self._brought.add(call.key)

    def _sign(self, key: str, tool: str, arguments: Any, signature: str | None) -> tuple[str | None, int]:
        """Signature and occurrence of a call in the fork, the same however often it is asked for."""
        if key in self._signed:
            return self._signed[key]
        if signature is not None and not isinstance(arguments, dict):
            self.branch.unknown += 1
            signature = None
        made = self._identity.signature(tool, arguments) if signature is not None else None
        nth = 1
        if made is not None:
            nth = self._occurrences[made] = self._occurrences.get(made, 0) + 1
        self._signed[key] = (made, nth)
        return made, nth

    # Events

    def _key(self, key: str, make: Callable[[], str] = lambda: secrets.token_hex(16)) -> str:
        """The key of a call in the fork."""
        if self._at.keeps(key) and key not in self._undone:
            return key
        if key not in self._keys:
            self._keys[key] = make()
        return self._keys[key]

    def _seq(self, seq: int) -> int:
        return self._seqs.get(seq, 0)

    def _translated(self, record: Record) -> AnyEvent | None:
        event: Any = record.event
        if isinstance(event, _LEFT_OUT):
            return None
        if isinstance(event, _OF_CALL) and self._is_brought(event.key):
            return None
        event = record.load(self._log.fetch)
        match event:
            case ModelTurn():
                return self._model_turn(event)
            case ToolCallStarted():
                return self._started(event)
            case ToolCallCompleted() | ToolCallUncertain() | ToolCallReconciled():
                return event.model_copy(update={"key": self._key(event.key)})
            case ApprovalDecided():
                brought = self._is_brought(event.key)
                return None if event.decision != "denied" or brought else self._denied(event)
            case ContextCompacted():
                return event.model_copy(
                    update={"from_seq": self._seq(event.from_seq), "to_seq": self._seq(event.to_seq)}
                )
            case ContextRewound():
                return event.model_copy(update={"to_seq": self._seq(event.to_seq)})
        return event  # type: ignore[no-any-return]

    def _is_brought(self, key: str) -> bool:
        """Does the fork begin with this call, so that nothing more is to be told of it?"""
        return key in self._elsewhere or (key in self._brought and key not in self._undone)

    def _denied(self, event: ApprovalDecided) -> ApprovalDecided:
        return event.model_copy(update={"key": self._key(event.key), "expires_at": None})

    def _model_turn(self, event: ModelTurn) -> ModelTurn:
        said = event.arguments if isinstance(event.arguments, tuple) else [ABSENT] * len(event.calls)
        seq = len(self.branch.events) + 2
        calls = [self._accepted(one, said[n], (seq, n)) for n, one in enumerate(event.calls)]
        return event.model_copy(update={"calls": tuple(calls)})

    def _accepted(self, asked: AcceptedCall, arguments: Any, slot: tuple[int, int]) -> AcceptedCall:
        again = asked.key in self._undone
        signature, nth = (None, 1) if again else self._sign(asked.key, asked.tool, arguments, asked.signature)
        facts: dict[str, Any] = {"signature": signature, "occurrence": nth}
        if isinstance(arguments, dict):
            facts["args_digest"] = self._identity.arguments(arguments)

        def make() -> str:
            if not isinstance(arguments, dict):
                return secrets.token_hex(16)
            if signature is not None:
                return self._identity.occurrence(asked.tool, arguments, nth)
            return self._identity.slot(asked.tool, arguments, self._run, slot)

        key = self._key(asked.key, make)
        facts.update(key=key, joined=key in self._known)
        self._known.add(key)
        return asked.model_copy(update=facts)

    def _started(self, event: ToolCallStarted) -> ToolCallStarted:
        again = event.key in self._undone
        signature, nth = (None, 1) if again else self._sign(event.key, event.tool, event.arguments, event.signature)
        facts: dict[str, Any] = {
            "key": self._key(event.key),
            "signature": signature,
            "occurrence": nth,
            "process": None,
        }
        if isinstance(event.arguments, dict) and event.args_digest is not None:
            facts["args_digest"] = self._identity.arguments(event.arguments)
        if isinstance(event.slot, TurnSlot):
            facts["slot"] = event.slot.model_copy(update={"seq": self._seq(event.slot.seq)})
        facts.update({name: self._key(key) for name in ("parent", "compensates") if (key := getattr(event, name))})
        self._known.add(facts["key"])
        return event.model_copy(update=facts)


def unknown_outcomes(state: RunState) -> Iterator[Call]:
    """Calls outside whose outcome nobody knows: a fork from there could not say what is in the world."""
    for call in state.unsettled:
        if call.effect == "external":
            yield call
