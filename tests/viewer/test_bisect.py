"""The turn that broke it is found, in directories of their own, against a history whose answer is known."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from harness.world import World
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.viewer.bisect import Found, Verdict, search

HISTORIES = st.integers(3, 60).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(1, n - 1), st.sets(st.integers(1, n - 2)))
)


@given(HISTORIES)
def test_the_search(given_: tuple[int, int, set[int]]) -> None:
    count, broke, silent = given_
    asked: list[int] = []

    def ask(i: int) -> Verdict:
        assert 0 < i < count - 1
        asked.append(i)
        return "skip" if i in silent else "good" if i < broke else "bad"

    found = search(count, ask)
    assert found.good < broke <= found.bad
    assert all(i in silent for i in range(found.good + 1, found.bad)), "nothing that could be told is left open"
    assert found.skipped == tuple(range(found.good + 1, found.bad))
    assert len(asked) == len(set(asked))
    if not silent:
        assert len(asked) <= (count - 1).bit_length()
        assert found == Found(broke - 1, broke, ())


@pytest.fixture
def broken(world: World) -> World:
    """Seven turns write their number; turns that close a directory are in the way of tidying up."""
    world.write("n", "0\n")
    world.ckpt("save")
    for turn in range(1, 8):
        world.ckpt("run", "--", "sh", "-c", f"echo {turn} > n; mkdir -p d; echo > d/x; chmod 500 d")
    return world


def test_a_turn_is_found_and_nothing_is_left(broken: World) -> None:
    before = broken.files()
    places = set(os.listdir("/tmp"))
    done = broken.ckpt("bisect", "--", "sh", "-c", "test $(cat n) -lt 5")
    assert done.out.splitlines()[0].startswith("t5.1 broke it: sh")
    assert done.out.splitlines()[1:] == ["last good: checkpoint 5 (t4.1)", "next: ckpt diff 5 6   ckpt undo t5"]
    assert broken.files() == before
    assert not [name for name in set(os.listdir("/tmp")) - places if name.startswith("ckpt-bisect-")]
    told = broken.ckpt("bisect", "--json", "--good", "t2", "--bad", "t6", "--", "sh", "-c", "test $(cat n) -lt 5").json
    assert (told["good"], told["bad"], told["turn"]) == (5, 6, "t5")
    assert {t["checkpoint"] for t in told["tried"]} <= {3, 4, 5, 6, 7}


def test_what_tells_nothing_may_be_it(broken: World) -> None:
    done = broken.ckpt("bisect", "--", "sh", "-c", "n=$(cat n); [ $n = 4 ] && exit 125; test $n -lt 5")
    assert "or one before it, where nothing could be told: checkpoint 5 (t4.1)" in done.out


def test_where_it_cannot_be_told(broken: World) -> None:
    assert "said to be bad, it works" in broken.ckpt("bisect", "--", "true", ok=1).err
    assert "said to be good, it is broken" in broken.ckpt("bisect", "--", "false", ok=1).err
    assert "cannot be started" in broken.ckpt("bisect", "--", "/nope", ok=1).err
    assert "SIGKILL" in broken.ckpt("bisect", "--", "sh", "-c", "kill -9 $$", ok=1).err
    assert "not older" in broken.ckpt("bisect", "--good", "3", "--bad", "3", "--", "true", ok=2).err
    assert "no checkpoint yet" in broken.ckpt("bisect", "--bad", "now", "--", "true", ok=2).err
    assert "takes a command" in broken.ckpt("bisect", ok=2).err


def test_the_directory_is_told(broken: World, tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f'echo "$CKPT_WORKSPACE $CKPT_CHECKPOINT $(pwd)" >> {told}; test $(cat n) -lt 7'
    broken.ckpt("bisect", "--good", "t6", "--bad", "t7", "--", "sh", "-c", script)
    lines = [line.split() for line in told.read_text().splitlines()]
    assert [(w, n) for w, n, _ in lines] == [(str(broken.root), "7"), (str(broken.root), "8")]
    assert not any(os.path.exists(place) or place == str(broken.root) for _, _, place in lines)


def test_a_store_that_the_command_makes_goes_with_its_directory(broken: World) -> None:
    def stores() -> list[object]:
        return [line["workspace"] for line in broken.ckpt("workspaces", "--json").lines]

    before = stores()
    script = f'"{sys.executable}" -P -m checkpointer save -q; test $(cat n) -lt 7'
    broken.ckpt("bisect", "--good", "t6", "--bad", "t7", "--", "sh", "-c", script)
    assert stores() == before
