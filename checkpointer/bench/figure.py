"""Several measurements of the same thing as one figure that says how sure it is; how a curve runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal, NamedTuple

Shape = Literal["a line", "bends up", "bends down", "unclear"]
FEW = 3
"""Fewer rounds than this tell nothing about how sure they are."""


class Figure(NamedTuple):
    """The median of `n` measurements, the bounds of the half of them that lies in the middle, and the largest."""

    median: float
    low: float
    high: float
    worst: float
    n: int

    @property
    def spread(self) -> float:
        """How far the middle half lies from the median at most, as a share of it; 1 where too few were measured."""
        if self.n < FEW or self.median <= 0:
            return 1.0
        return max(self.high - self.median, self.median - self.low) / self.median

    def times(self, factor: float) -> Figure:
        """The same in another unit."""
        return Figure(self.median * factor, self.low * factor, self.high * factor, self.worst * factor, self.n)


def figure(values: Sequence[float]) -> Figure:
    """Of at least one value."""
    ordered = sorted(values)
    n = len(ordered)
    return Figure(median(ordered), ordered[n // 4], ordered[n - 1 - n // 4], ordered[-1], n)


def bend(times: Sequence[float], at: Sequence[int]) -> float:
    """How much an event of the second half costs beside one of the first. `times` are since the beginning, at so many
    events; at least two of them.
    """
    middle = len(at) // 2 - 1
    first = times[middle] / at[middle]
    second = (times[-1] - times[middle]) / (at[-1] - at[middle])
    return second / first if first > 0 else 1.0


def shape(bent: Figure) -> Shape:
    """What the bends of several rounds say, if all of their middle half says it."""
    if bent.n < FEW:
        return "unclear"
    if bent.low > 1.2:
        return "bends up"
    if bent.high < 1 / 1.2:
        return "bends down"
    return "a line" if bent.low > 0.8 and bent.high < 1.25 else "unclear"
