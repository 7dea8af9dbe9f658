"""The measurements of one run, round by round in changing order, until the time that was given is over."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from checkpointer.bench import figure as figures
from checkpointer.bench.figure import FEW, Figure
from checkpointer.bench.interval import Costs, Line, through
from checkpointer.bench.lengthening import lengthen
from checkpointer.bench.sample import Kind, Replay, Sample, length
from checkpointer.errors import Failed, Usage
from checkpointer.log import JsonlLog
from checkpointer.snapshot import Snapshots
from checkpointer.state import RunState

SHORT = 2_000
"""The replay of fewer events than this is over before a clock can tell what it costs."""
LONGER = 8_000
MOST = 25
SURE = 0.02
"""Rounds end early once so many have agreed so well."""
_ENOUGH = 9
Watch = Callable[[float, float], None]
"""Told how many seconds of how many are over."""


@dataclass
class Measured:
    """What was found. Seconds; a figure is of as many rounds as its `n`.

    `events` were measured of a run of `of`; where those are a copy that was made longer, `copied` is true and `refused`
    is the share of its events that could not be repeated. `bytes` are those of the log up to each mark.
    """

    of: int
    events: int
    copied: bool
    refused: float
    marks: tuple[int, ...]
    bytes: tuple[int, ...]
    kinds: dict[Kind, int]
    rounds: int = 0
    seconds: float = 0.0
    replay: list[Figure] = field(default_factory=list)
    by_kind: list[Figure] = field(default_factory=list)
    versions: dict[int, tuple[int, Figure]] = field(default_factory=dict)
    bent: Figure | None = None
    write: dict[Literal["half", "whole"], Figure] = field(default_factory=dict)
    load: dict[Literal["half", "whole"], Figure] = field(default_factory=dict)
    snapshot_bytes: int = 0
    half: int = 0
    worst_event: float = 0.0

    def costs(self, *, worst: bool) -> Costs:
        """As the middle round had them; or, replay and loading, as the slowest had them."""
        load, write = self._line(self.load), self._line(self.write)
        if not worst:
            return Costs(self.replay[-1].median / self.events, load, write)
        slower = self.load["whole"].worst / self.load["whole"].median
        return Costs(self.worst_event, Line(load.fixed * slower, load.each * slower), write)

    def _line(self, found: dict[Literal["half", "whole"], Figure]) -> Line:
        return through((self.half, found["half"].median), (self.events, found["whole"].median))


def measure(log: JsonlLog, place: str, seconds: float, watch: Watch) -> Measured:
    """Measure for about so many seconds, writing nothing but in `place`. Raises `Usage` where the log holds nothing to
    measure, `LogDamaged`, what else reading a log raises.
    """
    began = time.monotonic()
    of, path, copied, refused = length(log.path), log.path, False, 0.0
    if of < SHORT:
        path, copied = os.path.join(place, "longer.jsonl"), True
        made = lengthen(list(log.read()), path, LONGER, began + seconds * 0.25)
        if made is None:
            raise Usage(f"run {log.run} has only begun: there is nothing to measure", next=("ckpt runs",))
        refused = made.refused
    sample = Sample(path, min(length(path), _fitting(path, seconds)))
    try:
        return _rounds(
            sample,
            place,
            _Clock(began, seconds, watch),
            Measured(of, sample.events, copied, refused, sample.marks, sample.bytes, sample.kinds),
        )
    finally:
        sample.close()


def _fitting(path: str, seconds: float) -> int:
    """So many events can be replayed in a fifth of the time."""
    probe = Sample(path, 500)
    try:
        took = min(probe.replay().at[-1] for _ in range(2)) / probe.events
    finally:
        probe.close()
    return max(SHORT, int(seconds / 5 / took))


@dataclass
class _Clock:
    began: float
    seconds: float
    watch: Watch
    longest: float = 0.0

    def another(self, rounds: int) -> bool:
        """Is there time for one more round?"""
        over = time.monotonic() - self.began
        self.watch(min(over, self.seconds), self.seconds)
        if rounds < FEW:
            return not rounds or over < 2 * self.seconds
        return rounds < MOST and over + self.longest / 2 < self.seconds


def _rounds(sample: Sample, place: str, clock: _Clock, found: Measured) -> Measured:
    half, whole = _Kept(place, sample.half), _Kept(place, sample.whole)
    found.half = sample.half.seq
    replays: list[Replay] = []
    acts: list[Callable[[], None]] = [
        lambda: replays.append(sample.replay()),
        half.write,
        half.read,
        whole.write,
        whole.read,
    ]
    half.write()  # so that every round, also one that begins at the other end, has something to read
    whole.write()
    while clock.another(found.rounds):
        start = time.monotonic()
        for act in acts if found.rounds % 2 == 0 else reversed(acts):
            act()
        clock.longest = max(clock.longest, time.monotonic() - start)
        found.rounds += 1
        if found.rounds >= _ENOUGH and figures.figure([r.at[-1] for r in replays]).spread < SURE:
            break
    found.seconds = time.monotonic() - clock.began
    found.write = {"half": figures.figure(half.written[1:]), "whole": figures.figure(whole.written[1:])}
    found.load = {"half": figures.figure(half.loaded), "whole": figures.figure(whole.loaded)}
    found.snapshot_bytes = whole.size()
    _tell(found, replays)
    return found


def _tell(found: Measured, replays: list[Replay]) -> None:
    found.replay = [figures.figure([r.at[n] for r in replays]) for n in range(len(found.marks))]
    found.by_kind = [figures.figure([r.by_kind[n] for r in replays]) for n in range(len(found.kinds))]
    for version in sorted({kind.version for kind in found.kinds}):
        mine = [n for n, kind in enumerate(found.kinds) if kind.version == version]
        count = sum(list(found.kinds.values())[n] for n in mine)
        sums = [sum(r.by_kind[n] for n in mine) / count for r in replays]
        found.versions[version] = (count, figures.figure(sums))
    found.bent = figures.figure([figures.bend(r.at, found.marks) for r in replays])
    middle = len(found.marks) // 2 - 1
    rest = found.marks[-1] - found.marks[middle]
    # The tail after a snapshot may be any stretch of the log: the dearer half counts.
    found.worst_event = max(max(r.at[-1] / found.marks[-1], (r.at[-1] - r.at[middle]) / rest) for r in replays)


class _Kept:
    """Snapshots of one state, written and read as a run's owner would, in a directory of our own; and how many seconds
    that took each time.
    """

    def __init__(self, place: str, state: RunState) -> None:
        self.written: list[float] = []
        self.loaded: list[float] = []
        self._state = state
        self._directory = os.path.join(place, "runs", str(state.seq), "snapshots")
        os.makedirs(self._directory, mode=0o700)
        self._snapshots = Snapshots(self._directory)

    def write(self) -> None:
        start = time.perf_counter()
        self._snapshots.save(self._state, "", 0)
        self.written.append(time.perf_counter() - start)

    def read(self) -> None:
        start = time.perf_counter()
        if self._snapshots.load(lambda seq, total, offset: True) is None:
            raise Failed("a snapshot that was just written cannot be read again")
        self.loaded.append(time.perf_counter() - start)

    def size(self) -> int:
        return os.stat(os.path.join(self._directory, f"{self._state.seq}.json")).st_size
