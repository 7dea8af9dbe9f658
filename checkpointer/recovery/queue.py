"""The queue of calls whose outcome is unknown: what was opened, settled, escalated; what is open, how old, how overdue.

Read from the logs, never kept: a projection beside the fold.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from checkpointer import canon
from checkpointer.errors import CheckpointerError
from checkpointer.events import (
    ABSENT,
    AnyEvent,
    RunStarted,
    ToolCallCompleted,
    ToolCallReconciled,
    ToolCallStarted,
    ToolCallUncertain,
)
from checkpointer.log import JsonlLog, JsonlRuns, Writable, open_letter
from checkpointer.machine import moment
from checkpointer.recovery.word import SAID, lives
from checkpointer.replay import Counters, replay
from checkpointer.snapshot import Snapshots
from checkpointer.state import Call, RunState

_LEFT = ("retry", "abandon", "unreported")
_ENDS = b'"type":"run_finished"'
_TAIL = 1 << 16


@dataclass(frozen=True)
class Item:
    """One call whose outcome is unknown. `number` is its handle (`u1`), None where it could not get one; `run` its
    run's own name, `handle` the short one. `rule` and `evidence` are of the newest verdict, `error` of its end. `word`
    is what a person has said and the run's owner has not taken in yet (`happened`, ...), `retry` by
    whose word it is to run again.
    """

    run: str
    handle: str
    key: str
    sent_key: str
    tool: str
    effect: str
    risk: str
    number: int | None
    attempt: int
    since: datetime | None
    started: datetime | None
    reason: str
    tries: int
    escalated: bool
    told: bool
    observed: bool
    strategies: tuple[str, ...] = ()
    arguments: Any = ABSENT
    title: str = ""
    error: Any = None
    rule: str = ""
    by: str = ""
    evidence: Any = None
    step: str = ""
    overdue: bool = False
    word: str = ""
    retry: str = ""

    @property
    def name(self) -> str:
        """`u1`, or the beginning of its key."""
        return f"u{self.number}" if self.number is not None else self.key[:12]

    @property
    def words(self) -> str:
        """`pay(order=881, cents=4200)`, on one line."""
        if self.title:
            return self.title
        if self.arguments in (None, ABSENT):
            return f"{self.tool}(...)"
        said = canon.thaw(self.arguments)
        if not isinstance(said, Mapping):
            return f"{self.tool}({said!r})"
        return f"{self.tool}({', '.join(f'{name}={value!r}' for name, value in said.items())})"


@dataclass
class Queue:
    """Counts over all runs read. `oldest` is in seconds, by risk; `overdue` names what is open for longer than its
    tool allows. `cut_off` are calls that began, and whose run nobody owns any more: no question yet, for nobody has
    looked into them.
    """

    opened: int = 0
    reconciled: int = 0
    escalated: int = 0
    items: list[Item] = field(default_factory=list)
    cut_off: list[Item] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    def oldest(self, now: datetime | None = None) -> dict[str, float]:
        at = now or datetime.now(UTC)
        ages: dict[str, float] = {}
        for item in self.items:
            if item.since is not None:
                ages[item.risk] = max(ages.get(item.risk, 0.0), (at - item.since).total_seconds())
        return ages

    @property
    def overdue(self) -> list[str]:
        return [f"{item.name} {item.words}" for item in self.items if item.overdue]


def waiting(directory: str, counters: Counters | None = None) -> list[Item]:
    """The open questions of every run in a directory of runs, oldest first. What cannot be read is passed over."""
    out = []
    for log, state in unfinished(directory, counters):
        with contextlib.suppress(CheckpointerError):
            out += items(log, state)
    return sorted(out, key=age)


def unfinished(directory: str, counters: Counters | None = None) -> Iterator[tuple[JsonlLog, RunState]]:
    """Every run that is not finished, with its state; those that cannot be read are passed over. A log is closed once
    the next one is asked for.
    """
    runs = JsonlRuns(directory)
    for run in runs.runs():
        log = runs.log(run)
        try:
            if _finished(log.directory):
                continue
            state = replay(log, Snapshots(os.path.join(log.directory, "snapshots")), counters).state
        except CheckpointerError:
            continue
        try:
            yield log, state
        finally:
            log.close()


def _finished(directory: str) -> bool:
    """Does the log's last line finish the run? Then nothing is open."""
    try:
        with open(os.path.join(directory, "events.jsonl"), "rb") as f:
            size = f.seek(0, os.SEEK_END)
            f.seek(max(0, size - _TAIL))
            return _ENDS in f.read().removesuffix(b"\n").rpartition(b"\n")[2]
    except OSError:
        return False


def read(directory: str) -> Queue:
    """The whole queue of a directory of runs. Logs that cannot be read are named in `problems`."""
    runs, queue = JsonlRuns(directory), Queue()
    for run in runs.runs():
        log = runs.log(run)
        try:
            _count(queue, log)
            state = replay(log).state
            queue.items += items(log, state)
            queue.cut_off += cut_off(log, state)
        except CheckpointerError as e:
            queue.problems[run] = e.message
        finally:
            log.close()
    queue.items.sort(key=age)
    return queue


def age(item: Item) -> tuple[datetime, int]:
    """What the queue is sorted by."""
    return item.since or datetime.now(UTC), item.number or 0


def _count(queue: Queue, log: JsonlLog) -> None:
    doubted: set[str] = set()
    escalated: set[str] = set()
    for record in log.read():
        event = record.event
        if isinstance(event, ToolCallUncertain):
            queue.opened += 1
            doubted.add(event.key)
        elif isinstance(event, ToolCallReconciled) and event.verdict == "escalate":
            escalated.add(f"{event.key} {event.attempt}")
        elif _ends(event):
            key = str(getattr(event, "key", ""))
            queue.reconciled += key in doubted
            doubted.discard(key)
    queue.escalated += len(escalated)


def _ends(event: AnyEvent) -> bool:
    return isinstance(event, ToolCallCompleted) or (isinstance(event, ToolCallReconciled) and event.verdict in _LEFT)


def items(log: Writable, state: RunState, now: datetime | None = None) -> list[Item]:
    """The open questions of one run, with what its log says of them."""
    if not state.doubts:
        return []
    verdicts, words = _verdicts(log, state.doubts), _words(log)
    at = now or datetime.now(UTC)
    asked = [call for call in state.live.values() if call.key in state.doubts]
    found = ((call, _item(log, state, call, verdicts.get(call.key), at)) for call in asked)
    return [replace(item, word=words.get((call.key, call.attempt), "")) for call, item in found]


def cut_off(log: Writable, state: RunState) -> list[Item]:
    """The calls that may have had an effect, and were cut off with their owner: whoever takes the run up looks into
    them.
    """
    begun = [call for call in state.open if call.effect != "read" and call.key not in state.doubts]
    if not begun or (state.status == "owned" and lives(state)):
        return []
    return [_item(log, state, call, None, datetime.now(UTC)) for call in begun]


def _words(log: Writable) -> dict[tuple[str, int], str]:
    """What people have said of calls and the owner has still to take in."""
    out = {}
    for _, line in log.letters("inbox"):
        with contextlib.suppress(ValueError):
            event = open_letter(line)
            if isinstance(event, ToolCallReconciled) and event.by == "person":
                out[event.key, event.attempt] = event.rule.removeprefix(SAID)
    return out


def _verdicts(log: Writable, keys: Iterable[str]) -> dict[str, ToolCallReconciled]:
    wanted, found = set(keys), {}
    for record in log.read():
        if isinstance(record.event, ToolCallReconciled) and record.event.key in wanted:
            found[record.event.key] = record
    out = {}
    for key, record in found.items():
        event = _loaded(log, record)
        assert isinstance(event, ToolCallReconciled)
        out[key] = event
    return out


def _loaded(log: Writable, record: Any) -> AnyEvent:
    try:
        event: AnyEvent = record.load(log.fetch)
    except CheckpointerError:
        event = record.event
    return event


def _item(log: Writable, state: RunState, call: Call, verdict: ToolCallReconciled | None, now: datetime) -> Item:
    doubt = state.doubts.get(call.key)
    start, doubted = _events(log, [call.started, doubt.seq if doubt else 0])
    begun = start if isinstance(start, ToolCallStarted) else None
    detail = getattr(doubted, "detail", None) if isinstance(doubted, ToolCallUncertain) else None
    terms = call.newest.terms if call.newest is not None else None
    since = moment(doubt.since) if doubt is not None else None
    limit = terms.recovery_s if terms is not None else None
    asked = begun.arguments if begun is not None else _carried(log, call.key) if call.origin is not None else ABSENT
    numbered = begun is not None and begun.turn is not None and begun.step is not None
    return Item(
        run=state.run,
        handle=f"r{state.number}" if state.number is not None else state.run,
        key=call.key,
        sent_key=call.sent_key,
        tool=call.tool,
        effect=call.effect,
        risk=call.risk,
        number=doubt.number if doubt is not None else None,
        attempt=call.attempt,
        since=since,
        started=moment(call.newest.at) if call.newest is not None else None,
        reason=doubt.reason if doubt is not None else "",
        tries=doubt.tries if doubt is not None else 0,
        escalated=bool(doubt and doubt.escalated),
        told=bool(doubt and doubt.told),
        observed=state.mode == "observed",
        strategies=() if terms is None or terms.policy == "person" else terms.offers,
        arguments=asked,
        title=begun.title if begun is not None and isinstance(begun.title, str) else "",
        error=None if detail is ABSENT else detail,
        rule=verdict.rule if verdict is not None else "",
        by=verdict.by if verdict is not None else "",
        evidence=None if verdict is None or verdict.evidence is ABSENT else verdict.evidence,
        step=f"t{begun.turn}.{begun.step}" if begun is not None and numbered else "",
        retry=doubt.retry if doubt is not None else "",
        overdue=limit is not None and since is not None and (now - since).total_seconds() > limit,
    )


def _carried(log: Writable, key: str) -> Any:
    """The arguments of a call that another run of the operation made."""
    (first,) = _events(log, [1])
    held = first.carried_results if isinstance(first, RunStarted) else None
    said = held.get(key) if isinstance(held, dict) else None
    return said.get("arguments", ABSENT) if isinstance(said, dict) else ABSENT


def _events(log: Writable, seqs: Sequence[int]) -> list[AnyEvent | None]:
    out: list[AnyEvent | None] = []
    for seq in seqs:
        try:
            out.append(_loaded(log, log.at([seq])[0]) if seq else None)
        except (CheckpointerError, KeyError):
            out.append(None)
    return out
