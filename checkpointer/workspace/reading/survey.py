"""A whole scan: by this process alone, or shared with forked workers where that pays."""

from __future__ import annotations

import contextlib
import heapq
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.reading.found import Found, Unread
from checkpointer.workspace.reading.frame import Frame
from checkpointer.workspace.reading.gathering import Gathering
from checkpointer.workspace.reading.reader import failed
from checkpointer.workspace.reading.scan import Scan
from checkpointer.workspace.reading.table import Record, Table
from checkpointer.workspace.reading.terms import Terms
from checkpointer.workspace.reading.workers import (
    Added,
    Counters,
    Crew,
    Relay,
    TooMuch,
    alone,
    processors,
    require_parent,
    take_over,
)

Progress = Callable[[str, int, int | None, int], None]
"""`progress(phase, done, total or None, bytes read)`, a few times a second."""

WORTH = 12_000
"""From so many known files on, a second process saves more than it costs."""

_LENT_WORTH = 10
_MOST_JOBS = 4
_UNITS = 16
_EXPANDED = 128
_UNKNOWN = 1000
_EVERY_S = 0.1
_TICKS = 64


Outcome = tuple[dict[int, Any], tuple[Any, ...], tuple[Any, ...]]
"""What became of each unit, what a worker found, and what it added."""


class Unit(NamedTuple):
    """A sub-directory to be done with all below it."""

    frame: Frame
    name: str


class _Meter:
    """Calls `progress` now and then."""

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        self.progress = progress
        self.total = total
        self.scan: Scan | None = None
        self.counters: Counters | None = None
        self.done = Found()
        self._ticks = 0
        self._next = time.monotonic() + _EVERY_S

    def tick(self) -> None:
        self._ticks += 1
        if self._ticks % _TICKS == 0:
            self.show()

    def show(self, last: bool = False) -> None:
        if self.progress is None or (not last and time.monotonic() < self._next):
            return
        self._next = time.monotonic() + _EVERY_S
        files, size = self.counters.total() if self.counters is not None else (0, 0)
        for tally in (self.done.tally, *([self.scan.found.tally] if self.scan is not None else [])):
            files += tally.files
            size += tally.bytes
        total = files if last else max(files, self.total) if self.total else None
        self.progress("capture", files, total, size)


def survey(
    terms: Terms, sink: Gathering, table: Table, fd: int, *, jobs: int | None = None, progress: Progress | None = None
) -> tuple[bytes, Found]:
    """Scan the workspace whose root is open as `fd`: the git tree of all files, and what was found.

    `jobs` is the number of processes, None for as many as pay. Never forks beside other threads. Raises
    `CaptureFailed` and what the sink raises; then no process is left.
    """
    top_record = table.records.get("")
    known = Record(*top_record).below if top_record is not None else None
    meter = _Meter(progress, known)
    scan = meter.scan = Scan(terms, sink, table.records, meter.tick, sink.sink)
    with contextlib.closing(scan):
        try:
            top = scan.root(fd)
        except OSError as e:
            raise failed(b"", e) from e
        jobs = _jobs(jobs, known, terms, sink)
        expanded, units = _expand(scan, top, jobs) if jobs > 1 else ([top], [])
        if len(units) >= 2 * jobs:
            _share(scan, sink, units, jobs, meter)
        else:
            _give_back(units)
        for frame in reversed(expanded):
            scan.descend(frame)
        meter.show(last=True)
        meter.done.add(scan.found)
        old = table.records.get("")
        record = meter.done.changed.get("") or Record(*old)  # type: ignore[misc]
        return record.tree, meter.done


def _jobs(jobs: int | None, known: int | None, terms: Terms, sink: Gathering) -> int:
    if jobs is None:
        first = known is None and isinstance(sink.sink, PackWriter)
        loan = terms.loan
        if loan is not None and loan.others * _LENT_WORTH < loan.files:  # then little must be read
            first, known = False, loan.files
        jobs = min(processors(), _MOST_JOBS) if first or (known or 0) >= WORTH else 1
    if terms.ours.must or not alone():  # opening directories up is for one process
        return 1
    return jobs


def _expand(scan: Scan, top: Frame, jobs: int) -> tuple[list[Frame], list[Unit]]:
    """Look at directories from the root down until their sub-directories are enough to share, the largest first."""
    expanded = [top]
    heap: list[tuple[int, int, Unit]] = []
    order = 0

    def defer(frame: Frame) -> None:
        nonlocal order
        prefix = frame.path + "/" if frame.path else ""
        for name in frame.pending:
            record: Any = scan.records.get(prefix + name)
            weight = Record(*record).below if record is not None else _UNKNOWN
            heapq.heappush(heap, (-weight, order, Unit(frame, name)))
            order += 1
        frame.pending = []

    defer(top)
    total = sum(-weight for weight, _, _ in heap)
    while heap and len(expanded) < _EXPANDED:
        if len(heap) >= _UNITS * jobs and -heap[0][0] * 4 * jobs <= total:
            break
        if len(heap) >= _UNITS * jobs * 8:
            break
        unit = heapq.heappop(heap)[2]
        scan._reach(unit.frame)
        child = scan.enter(unit.frame, unit.name)
        unit.frame.close_way()
        if child is not None:
            child.close()
            expanded.append(child)
            defer(child)
    return expanded, [heapq.heappop(heap)[2] for _ in range(len(heap))]


def _give_back(units: list[Unit]) -> None:
    for unit in units:
        unit.frame.pending.append(unit.name)


def _do(scan: Scan, unit: Unit) -> tuple[tuple[bytes, int] | None, bool, bool]:
    """Do one unit: the git tree and count of it (None: gone), and whether its parent differs, and must be relisted."""
    frame = unit.frame
    before = frame.differs, frame.relist
    frame.differs = frame.relist = False
    try:
        scan._reach(frame)
        child = scan.enter(frame, unit.name)
        if child is not None:
            scan.descend(child)
        return frame.children.get(unit.name), frame.differs, frame.relist
    finally:
        frame.differs, frame.relist = before[0] or frame.differs, before[1] or frame.relist
        frame.close_way()


def _share(scan: Scan, sink: Gathering, units: list[Unit], jobs: int, meter: _Meter) -> None:
    """Do all units together with forked workers."""
    counters = meter.counters = Counters(jobs - 1)
    with contextlib.closing(counters), Crew(len(units)) as crew:
        for number in range(jobs - 1):
            relay = Relay(sink.sink)
            crew.start(_worker(scan, units, relay, counters, number), relay.abort)
        mine = set()
        while (number_ := crew.next()) is not None:
            _do(scan, units[number_])
            mine.add(number_)
        results = crew.gather(meter.show)
        done = set(mine)
        for outcomes, found, added in results:
            take_over(sink, Added(*added))
            meter.done.add(_unpacked(found))
            for number_, (child, differs, relist) in outcomes.items():
                frame = units[number_].frame
                if child is not None:
                    frame.children[units[number_].name] = child
                frame.differs |= differs
                frame.relist |= relist
                done.add(number_)
        meter.counters = None
    _give_back([unit for i, unit in enumerate(units) if i not in done])


def _worker(
    scan: Scan, units: list[Unit], relay: Relay, counters: Counters, number: int
) -> Callable[[Callable[[], int | None]], Outcome]:
    """What a worker does, to be called in it."""
    parent = os.getpid()

    def work(following: Callable[[], int | None]) -> Outcome:
        total = Found()
        outcomes: dict[int, Any] = {}
        ticks = 0

        def tick() -> None:
            nonlocal ticks
            ticks += 1
            if ticks % _TICKS == 0:
                require_parent(parent)
                tally, now = total.tally, mine.found.tally
                counters.put(number, tally.files + now.files, tally.bytes + now.bytes)

        mine = Scan(scan.terms, relay, scan.records, tick)
        with contextlib.closing(mine):
            while (unit := following()) is not None:
                require_parent(parent)
                try:
                    outcomes[unit] = _do(mine, units[unit])
                except TooMuch:
                    break  # the parent does it itself
                total.add(mine.collect())
        return outcomes, _packed(total), tuple(relay.finish())

    return work


def _packed(found: Found) -> tuple[Any, ...]:
    changed = {path: tuple(record) for path, record in found.changed.items()}
    unread = {path: tuple(u) for path, u in found.unread.items()}
    tally = found.tally
    return changed, found.removed, unread, tally.files, tally.bytes, dict(tally.modes), tally.lent


def _unpacked(packed: tuple[Any, ...]) -> Found:
    changed, removed, unread, files, size, modes, lent = packed
    found = Found()
    found.changed = {path: Record(*record) for path, record in changed.items()}
    found.removed = removed
    found.unread = {path: Unread(*what) for path, what in unread.items()}
    found.tally.files, found.tally.bytes = files, size
    found.tally.modes.update(modes)
    found.tally.lent = lent
    return found
