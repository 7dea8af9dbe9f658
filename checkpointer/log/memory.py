"""A log in memory: the same promises without a disk, for tests and for runs that nobody will resume."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from checkpointer.errors import Behind, Fenced, Finished, LogDamaged, MissingObject, NoStore
from checkpointer.lease import Lease
from checkpointer.line import BadLine
from checkpointer.log.follow import follow
from checkpointer.log.place import START, Cut, Position
from checkpointer.log.scan import Scan
from checkpointer.record import Encoded, Record, decode


class MemoryLog:
    """The log of one run; it is there as long as this object is."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._lines: list[bytes] = []
        self._mutex = threading.Lock()
        self._lease: Lease | None = None
        self._objects: dict[str, bytes] = {}
        self._fenced = 0
        self._boxes: dict[str, dict[str, bytes]] = {"inbox": {}, "late": {}}

    @property
    def run(self) -> str:
        return self._run

    def read(self, after: Position = START) -> Scan[Record]:
        return self._scan(after)

    def head(self, after: Position = START) -> Position:
        scan = self._scan(after)
        for _ in scan:
            pass
        return scan.position

    def _scan(self, after: Position) -> Scan[Record]:
        if not self._lines:
            raise NoStore(f"run {self._run} has no log")
        if self.find(*after) is None:
            raise LogDamaged(f"event {after.seq} of run {self._run} is gone or is not what it was", seq=after.seq)
        return Scan(self._lines[after.seq :], after, decode)

    def find(self, seq: int, sum: str, offset: int) -> Position | None:
        if seq == 0:
            return START if not sum else None
        if seq > len(self._lines) or decode(self._lines[seq - 1][:-1], None, seq).sum != sum:
            return None
        return Position(seq, sum, offset)

    def at(self, seqs: Sequence[int]) -> list[Record]:
        try:
            return [decode(self._lines[seq - 1][:-1] if seq > 0 else b"", None, seq) for seq in seqs]
        except (IndexError, BadLine) as e:
            raise KeyError(*seqs) from e

    def follow(self, after: Position = START, *, wait: Callable[[], bool]) -> Iterator[Record | Cut]:
        return follow(self, after, wait)

    def resolve(self, event_id: str) -> int | None:
        return next((r.seq for r in self._scan(START) if r.event.id == event_id), None)

    def lease(self) -> Lease | None:
        return self._lease

    def fetch(self, sha256: str) -> bytes:
        try:
            return self._objects[sha256]
        except KeyError as e:
            raise MissingObject(f"contents {sha256[:12]} of run {self._run} are gone") from e

    def letters(self, box: str) -> list[tuple[str, bytes]]:
        with self._mutex:
            return list(self._boxes[box].items())

    def post(self, box: str, event_id: str, line: bytes) -> None:
        with self._mutex:
            self._boxes[box].setdefault(event_id, line)

    def discard(self, box: str, event_id: str) -> None:
        with self._mutex:
            self._boxes[box].pop(event_id, None)

    def fenced(self) -> int:
        return self._fenced

    def count_fenced(self) -> None:
        with self._mutex:
            self._fenced += 1

    def append(
        self,
        expected: Position,
        epoch: int,
        lines: Sequence[Encoded],
        *,
        durable: bool = True,
        lease: Lease | None = None,
    ) -> Position:
        with self._mutex:
            self._check(expected, epoch)
            self._lines.extend(one.line for one in lines)
            if lease is not None:
                self._lease = lease
        size = sum(len(one.line) for one in lines)
        return Position(expected.seq + len(lines), lines[-1].sum, expected.offset + size) if lines else expected

    def _check(self, expected: Position, epoch: int) -> None:
        found = [r.event for r in Scan(self._lines[expected.seq :], expected, decode)]
        newer = max((event.epoch for event in found), default=0)
        if newer > epoch:
            raise Fenced(f"run {self._run} has another owner now (epoch {newer})", epoch=newer)
        if any(event.type == "run_finished" for event in found):
            raise Finished(f"run {self._run} is finished")
        if found:
            raise Behind(f"the log of run {self._run} is at event {found[-1].seq}, not {expected.seq}")

    def keep(self, objects: Sequence[tuple[str, bytes]]) -> None:
        self._objects.update(objects)

    def renew(self, expected: Position, epoch: int, lease: Lease) -> None:
        with self._mutex:
            newer = max((r.event.epoch for r in Scan(self._lines[expected.seq :], expected, decode)), default=0)
            if newer > epoch:
                raise Fenced(f"run {self._run} has another owner now (epoch {newer})", epoch=newer)
            self._lease = lease


class MemoryRuns:
    """Runs that are there as long as this object is."""

    def __init__(self) -> None:
        self._logs: dict[str, MemoryLog] = {}

    def runs(self) -> list[str]:
        return sorted(run for run, log in self._logs.items() if log._lines)

    def log(self, run: str) -> MemoryLog:
        return self._logs.setdefault(run, MemoryLog(run))

    def delete(self, run: str) -> None:
        self._logs.pop(run, None)
