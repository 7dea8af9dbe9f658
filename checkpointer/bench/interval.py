"""What an interval between snapshots costs, saves and promises: reckoned from measured costs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SHORTEST = 50
"""Events between two snapshots below which one is written all the time; no such interval is recommended."""


class Line(NamedTuple):
    """Seconds for a state of so many events: what it takes at all, and for each event more."""

    fixed: float
    each: float

    def of(self, events: float) -> float:
        return self.fixed + self.each * events


def through(small: tuple[int, float], large: tuple[int, float]) -> Line:
    """The line through two measurements; it never falls."""
    each = max(0.0, (large[1] - small[1]) / (large[0] - small[0]))
    return Line(max(0.0, large[1] - each * large[0]), each)


class Costs(NamedTuple):
    """Seconds: to replay one event, to load a snapshot, to write one."""

    event: float
    load: Line
    write: Line


def longest(costs: Costs, every: int, length: int) -> float:
    """Seconds until the state is there again in the worst case: the owner of a run of up to `length` events is killed
    right before its next snapshot. `every` 0: there is none.
    """
    if not every or every >= length:
        return costs.event * length
    return costs.load.of(length) + costs.event * every


def reach(costs: Costs, target: float) -> int:
    """How long a run may become until replaying all of it takes longer than the target."""
    return int(target / costs.event)


def wanted(costs: Costs, target: float, length: int) -> int | None:
    """The longest interval whose worst case stays within the target, in two digits; 0 where none is needed, None where
    no interval is short enough.
    """
    if longest(costs, 0, length) <= target:
        return 0
    every = int((target - costs.load.of(length)) / costs.event)
    if every < SHORTEST:
        return None
    digits = int(10 ** max(0, len(str(every)) - 2))
    return every // digits * digits


def break_even(costs: Costs, every: int, length: int) -> float | None:
    """How often a run of `length` events must be recovered for its snapshots to have saved the time that writing them
    took. Deaths come anywhere in it. None where a recovery is no faster with them.
    """
    points = range(every, length + 1, every) if every else ()
    if not points:
        return None
    written = sum(costs.write.of(at) for at in points)
    saved = sum((costs.event * at - costs.load.of(at)) * (min(at + every, length) - at) / length for at in points)
    return written / saved if saved > 0 else None


def pays(needed: float | None, deaths: Sequence[int], length: int) -> bool | None:
    """Were the runs that died (how many of how many events: two numbers) recovered often enough? None: too few tell.

    Where none died, three in as many events is the most that can be meant by chance.
    """
    count, events = deaths
    if needed is None:
        return False
    if not events:
        return None
    if count >= 3:
        return count / events * length > needed
    if 3 / events * length < needed:
        return False
    return None
