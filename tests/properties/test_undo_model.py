"""Undo, redo and restore do what a model written apart from them does, in random and in all short sequences."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from harness.undo_pair import Pair, walk
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=400)
@given(st.integers(0, 2**32), st.integers(3, 16))
def test_walks_end_as_the_model_says(seed: int, length: int) -> None:
    pair = Pair()
    walk(pair, random.Random(seed), length)
    pair.undone_and_redone()
    pair.skipping_ends()


SHORT: dict[str, Callable[[Pair], object]] = {
    "t": lambda pair: pair.step("A", True, ("a", 0, False)),
    "T": lambda pair: pair.step("B", True, ("a", 1, False), ("b", 0, False)),
    "s": lambda pair: pair.step("A", False, ("a", 0, False)),
    "d": lambda pair: pair.step("A", True, ("a", 0, True)),
    "e": lambda pair: pair.edit("a", 0),
    "u": lambda pair: pair.undo(),
    "k": lambda pair: pair.undo("skip"),
    "f": lambda pair: pair.undo("force"),
    "n": lambda pair: pair.undo(turn=1) if 1 in pair.turns else None,
    "p": lambda pair: pair.undo(paths="a"),
    "r": lambda pair: pair.redo(),
    "R": lambda pair: pair.restore(1),
}


def every(pair: Pair, acts: str, length: int, done: str = "") -> int:
    """Walk every sequence of these acts up to this length; how many there were."""
    if len(done) == length:
        return 1
    count = 1
    for act in acts:
        if not done and act not in "tTe":
            continue
        here = pair.copy()
        try:
            SHORT[act](here)
        except AssertionError as e:
            raise AssertionError(f"{done + act}: {e}") from e
        count += every(here, acts, length, done + act)
    return count


@pytest.mark.parametrize(
    ("acts", "length", "at_least"), [("tTsdeukfnprR", 4, 4000), ("tTeukr", 6, 10000), ("tdsunrR", 6, 10000)]
)
def test_all_short_sequences_end_as_the_model_says(acts: str, length: int, at_least: int) -> None:
    assert every(Pair(), acts, length) > at_least
