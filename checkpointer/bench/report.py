"""What the measurements of a run come to: how long its state may take, which interval keeps that short, what pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from checkpointer.bench import interval
from checkpointer.bench.figure import Figure, Shape, shape
from checkpointer.bench.measuring import Measured
from checkpointer.run.claims import Life

UNSURE = 0.25
"""Rounds that differ by more than this say so."""


class Asked(NamedTuple):
    """What was asked for. Seconds; `grown` is how long the runs may become, `current` the interval that is set."""

    target: float
    grown: int | None
    current: int


class Deaths(NamedTuple):
    """The recoveries that driven runs took whose owners had not let go. `most` and `middle`: how many events one had to
    read without a snapshot.
    """

    runs: int
    events: int
    claims: int
    released: int
    crashes: int
    takeovers: int
    since: str
    middle: int
    most: int

    @property
    def all(self) -> int:
        return self.crashes + self.takeovers


def deaths(lives: Sequence[Life]) -> Deaths:
    """Counted over runs; watched ones among them are passed over, since nobody replays them to go on."""
    driven = [life for life in lives if life.mode == "driven"]
    claims = [claim for life in driven for claim in life.claims]
    read = sorted(claim.seq - 1 for life in driven for claim in life.recoveries)
    after = [claim.after for claim in claims]
    return Deaths(
        runs=len(driven),
        events=sum(life.events for life in driven),
        claims=len(claims),
        released=after.count("released"),
        crashes=after.count("crash"),
        takeovers=after.count("takeover"),
        since=min((claim.at for claim in claims), default=""),
        middle=read[len(read) // 2] if read else 0,
        most=read[-1] if read else 0,
    )


@dataclass(frozen=True)
class Report:
    """`deaths` are those of the store's runs."""

    asked: Asked
    found: Measured
    deaths: Deaths

    @cached_property
    def worst(self) -> interval.Costs:
        return self.found.costs(worst=True)

    @property
    def reach(self) -> int:
        """So many events are read within the target without any snapshot."""
        return interval.reach(self.worst, self.asked.target)

    @property
    def length(self) -> int:
        """What is reckoned for: the run as it is, or twice as long as the target allows without a snapshot."""
        return self.asked.grown or max(self.found.of, 2 * self.reach)

    @property
    def every(self) -> int | None:
        """The interval that keeps the worst case within the target; 0: none is needed; None: none does."""
        return interval.wanted(self.worst, self.asked.target, self.length)

    @property
    def worst_then(self) -> float | None:
        """Seconds, in the worst case, with that interval."""
        return None if self.every is None else interval.longest(self.worst, self.every, self.length)

    @property
    def worst_now(self) -> float:
        """Seconds, in the worst case, with the interval that is set, for the run as it is."""
        return interval.longest(self.worst, self.asked.current, self.found.of)

    @property
    def is_set(self) -> bool:
        """Does the interval that is set keep the worst case of the longer runs within the target already?"""
        return interval.longest(self.worst, self.asked.current, self.length) <= self.asked.target

    @property
    def needed(self) -> float | None:
        """How often such a run must die for these snapshots to save the time that they cost."""
        return interval.break_even(self.found.costs(worst=False), self.every or 0, self.length)

    @property
    def pays(self) -> bool | None:
        """Do the deaths that were counted say that it pays? None where they are too few to tell."""
        return interval.pays(self.needed, (self.deaths.all, self.deaths.events), self.length)

    @property
    def shape(self) -> Shape:
        return shape(self.bent)

    @property
    def bent(self) -> Figure:
        assert self.found.bent is not None
        return self.found.bent

    @property
    def fatter(self) -> float:
        """How much longer a line of the second half is than one of the first."""
        marks, ends = self.found.marks, self.found.bytes
        middle = len(marks) // 2 - 1
        first = ends[middle] / marks[middle]
        return (ends[-1] - ends[middle]) / (marks[-1] - marks[middle]) / first

    @property
    def unsure(self) -> bool:
        return self.found.replay[-1].spread > UNSURE
