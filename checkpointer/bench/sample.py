"""Lines of a log up to some event, replayed again and again with a clock beside each line."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from checkpointer.collector import uncollected
from checkpointer.errors import IllegalEvent, LogDamaged
from checkpointer.line import HEAD
from checkpointer.log.lines import CHUNK
from checkpointer.log.place import START
from checkpointer.log.scan import Scan
from checkpointer.record import Record, decode
from checkpointer.state import RunState, fold

MARKS = 8
"""At so many places of a replay its time is looked at."""


class Replay(NamedTuple):
    """One replay: seconds since its beginning at each mark, and seconds by kind of event."""

    at: tuple[float, ...]
    by_kind: tuple[float, ...]


class Kind(NamedTuple):
    """A type of event in one version of its schema."""

    type: str
    version: int


class Sample:
    """The first `events` events of a log, which may grow meanwhile or be written anew: the file stays open. `half` and
    `whole` are the states after half of them and after all. Raises what reading a log raises.
    """

    def __init__(self, path: str, events: int) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._bytes = 1 << 62
        self._kinds: dict[Kind, int] = {}
        self._kind_of = array("H")
        ends = array("Q")
        scan = Scan(self._lines(), START, self._learning(ends))
        found = map(attrgetter("event"), scan)
        try:
            with uncollected():
                self.half: RunState = fold(islice(found, max(1, events // 2)))
                self.whole: RunState = fold(islice(found, max(0, events - self.half.seq)), self.half)
        except IllegalEvent as e:
            seq = e.details["seq"]
            raise LogDamaged(f"event {seq} cannot follow those before it: {e.message}", seq=seq) from e
        self.events = self.whole.seq
        # A write is read whole: what comes of it after the last event that is wanted is not measured.
        del self._kind_of[self.events :]
        self._bytes = ends[self.events - 1] if self.events else 0
        marks = [max(1, self.events * n // MARKS) for n in range(1, MARKS + 1)]
        self.marks: tuple[int, ...] = tuple(sorted(set(marks))) if self.events else ()
        self.bytes: tuple[int, ...] = tuple(ends[mark - 1] for mark in self.marks)

    def _learning(self, ends: array[int]) -> Callable[[bytes, str, int], Record]:
        def learn(line: bytes, previous: str, seq: int) -> Record:
            found = decode(line, previous, seq)
            head = HEAD.match(line)
            assert head is not None
            kind = Kind(head[5].decode(), int(head[4]))
            self._kind_of.append(self._kinds.setdefault(kind, len(self._kinds)))
            ends.append((ends[-1] if ends else 0) + len(line) + 1)
            return found

        return learn

    @property
    def kinds(self) -> dict[Kind, int]:
        """How many events there are of each kind, in the order of `Replay.by_kind`."""
        return {kind: self._kind_of.count(n) for kind, n in self._kinds.items()}

    def _lines(self) -> Iterator[bytes]:
        left = self._bytes
        with os.fdopen(os.dup(self._fd), "rb", buffering=CHUNK) as file:
            file.seek(0)
            for line in file:
                if left <= 0:
                    return
                left -= len(line)
                yield line

    def replay(self) -> Replay:
        """All of it, as a resume reads it: verified and folded."""
        clock, stamps = time.perf_counter_ns, array("q")

        def stamped(line: bytes, previous: str, seq: int) -> Record:
            stamps.append(clock())
            return decode(line, previous, seq)

        scan = Scan(self._lines(), START, stamped)
        began = clock()
        with uncollected():
            fold(map(attrgetter("event"), scan))
        stamps.append(clock())
        by_kind = [0] * len(self._kinds)
        for kind, start, end in zip(self._kind_of, stamps, islice(stamps, 1, None), strict=False):
            by_kind[kind] += end - start
        return Replay(tuple((stamps[m] - began) / 1e9 for m in self.marks), tuple(ns / 1e9 for ns in by_kind))

    def close(self) -> None:
        os.close(self._fd)


def length(path: str) -> int:
    """How many lines a log has."""
    with open(path, "rb", buffering=0) as f:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: f.read(CHUNK), b""))
