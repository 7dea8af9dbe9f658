"""The walks beside the model find it out when a rule is left out."""

from __future__ import annotations

import random

import pytest
from harness.timelines import PlainWorld
from harness.undo_pair import Pair, walk

from checkpointer.workspace.undoing.resolution import Resolution, _Work
from checkpointer.workspace.undoing.timeline import Timeline
from checkpointer.workspace.undoing.units import Change


class NothingStaysOpen(_Work):
    """Rule 7 left out."""

    def _stays_open(self, taken: object) -> dict[object, str]:  # type: ignore[override]
        return {}


class SkippedStaysOpen(Timeline):
    """Rule 6 left out: what a skip left is taken up by the next undo again."""

    def state_of(self, change: Change) -> str:  # type: ignore[override]
        state = super().state_of(change)
        return "open" if state == "left" else state


class RedoAlways(Timeline):
    """Rule 10 left out."""

    def _last_change(self, runs: frozenset[str] | None) -> int:
        return 0


class RedoOnlyUnmarks(Timeline):
    """Rule 9 left out: a redone change keeps its state."""

    def _play(self) -> None:
        super()._play()
        self._back.holds = lambda segment, path: False  # type: ignore[method-assign]


def world_of(timeline: type[Timeline] = Timeline, work: type[_Work] = _Work) -> type[PlainWorld]:
    def folded(checkpoints: object, diff: object, *, had_run: bool) -> Timeline:
        return timeline(checkpoints, diff, had_run=had_run, first_kept=1, last_turn=None)  # type: ignore[arg-type]

    def resolved(selection: object, present: object, merge: object, *, mode: object, inside: object) -> Resolution:
        return work(selection, present, merge, mode, inside, {}).resolution()  # type: ignore[arg-type]

    return type("MutantWorld", (PlainWorld,), {"fold": staticmethod(folded), "resolve": staticmethod(resolved)})


def walks_that_fail(world: type[PlainWorld], seeds: int) -> int:
    pair_type = type("MutantPair", (Pair,), {"world_type": world})
    failed = 0
    for seed in range(seeds):
        pair = pair_type()
        try:
            walk(pair, random.Random(seed), 14)
            pair.undone_and_redone()
            pair.skipping_ends()
        except (AssertionError, KeyError):
            failed += 1
    return failed


@pytest.mark.parametrize(
    "mutant",
    [
        world_of(work=NothingStaysOpen),
        world_of(timeline=SkippedStaysOpen),
        world_of(timeline=RedoAlways),
        world_of(timeline=RedoOnlyUnmarks),
    ],
    ids=["rule 7", "rule 6", "rule 10", "rule 9"],
)
def test_a_rule_left_out_is_found(mutant: type[PlainWorld]) -> None:
    assert walks_that_fail(mutant, 300) > 0


def test_the_walks_find_nothing_in_the_real_thing() -> None:
    assert walks_that_fail(world_of(), 100) == 0
