"""What a typed word names, and what is said about one that names nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.cli.handle import Points, Turns, reads_as_handle, turns
from checkpointer.errors import CheckpointerError, TooOld, Usage
from checkpointer.workspace.checkpoint import Checkpoint, CheckpointKind, Meta

NOW = datetime(2026, 12, 1, 14, 30, tzinfo=UTC).astimezone()


def point(
    n: int, minutes: int, kind: CheckpointKind = "outside", steps: tuple[str, ...] = (), label: str | None = None
) -> Checkpoint:
    at = NOW - timedelta(minutes=minutes)
    return Checkpoint(n, f"{n:040x}"[::-1], "0" * 40, None, Meta(kind, at, (), steps, label))


TIMELINE = [
    point(5, 60, "base"),
    point(6, 50, "step", ("t2.1",)),
    point(7, 45, "step", ("t2.2", "t2.3")),
    point(8, 30),
    point(9, 25, "turn", ("t3",)),
    point(10, 20, "save", label="before refactor"),
    point(11, 10, "step", ("t30.1",)),
]
OLDER = [point(2, 600, "save", label="first")]
POINTS = Points(TIMELINE, OLDER, now=NOW)


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("5", 5), ("011", 11), ("2", 2), ("first", 2), ("before refactor", 10), ("t2", 7), ("t2-", 5), ("t2.1", 6),
        ("t2.2-", 6),
        ("t2.3", 7), ("t3", 9), ("t3-", 8), ("t30", 11), ("@30m", 8), ("@31m", 7), ("@1h", 5), ("@0s", 11),
        (f"@{NOW - timedelta(minutes=25):%H:%M}", 9), (f"@{NOW:%H:%M}", 11),
        ((NOW - timedelta(minutes=24)).strftime("@%Y-%m-%dT%H:%M:%S"), 9),
        (TIMELINE[2].id[:10], 7),
    ],
)  # fmt: skip
def test_points(word: str, number: int) -> None:
    found = POINTS.resolve(word)
    assert found is not None
    assert found.number == number


def test_an_empty_first_turn_changed_nothing_where_everything_is_kept() -> None:
    points = Points([point(1, 60, "base"), point(2, 50, "step", ("t2.1",))], now=NOW)
    with pytest.raises(Usage, match="t1 changed nothing"):
        points.resolve("t1")
    with pytest.raises(Usage, match="there is no t0"):
        points.resolve("t0")


def test_now_is_no_checkpoint() -> None:
    assert POINTS.resolve("now") is None


@pytest.mark.parametrize(
    ("word", "error", "text"),
    [
        ("12", Usage, "newest is 11"),
        ("3", TooOld, "no longer kept"),
        ("0", Usage, "no checkpoint 0"),
        ("9999999999999999999999", Usage, "no checkpoint"),
        ("t1", TooOld, "no longer kept"),
        ("t2-x", Usage, "no checkpoint"),
        ("t4", Usage, "changed nothing"),
        ("t31", Usage, "newest turn that changed anything is t30"),
        ("t2.9", Usage, "no step"),
        ("@2d", TooOld, "as old as"),
        ("@25:99", Usage, "is no time"),
        ("@", Usage, "is no time"),
        ("@tomorrow", Usage, "is no time"),
        ("@999999w", TooOld, "as old as"),
        ("r7", Usage, "is a run"),
        ("u1", Usage, "uncertain call"),
        ("before refacto", Usage, "did you mean before refactor"),
        ("HEAD", Usage, "no checkpoint"),
        ("--all", Usage, "no checkpoint"),
        ("deadbeef", Usage, "no checkpoint"),
        ("٣", Usage, "no checkpoint"),
        ("", Usage, "no checkpoint"),
    ],
)
def test_what_names_nothing(word: str, error: type[CheckpointerError], text: str) -> None:
    with pytest.raises(error) as caught:
        POINTS.resolve(word)
    assert text in caught.value.message
    assert caught.value.next


@given(st.text(max_size=12))
def test_any_word_resolves_or_says_why(word: str) -> None:
    try:
        found = POINTS.resolve(word)
    except CheckpointerError as e:
        said = e.message
        assert said
    else:
        assert found is None or found in POINTS.all


def test_without_a_checkpoint() -> None:
    for word in ("1", "@1m", "t1", "x"):
        with pytest.raises(CheckpointerError):
            Points([]).resolve(word)


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("t3", Turns(3, 3)),
        ("t3.2", Turns(3, 3, 2)),
        ("t3..", Turns(3, None)),
        ("t3..t5", Turns(3, 5)),
        ("t3..t3", Turns(3, 3)),
    ],
)
def test_turns(word: str, wanted: Turns) -> None:
    assert turns(word) == wanted
    assert reads_as_handle(word)


@pytest.mark.parametrize("word", ["3", "t5..t3", "r7", "now", "@5m", "t3-", "u1", "x", "t", "..t3", "t3..5", "T3", ""])
def test_what_is_no_turn(word: str) -> None:
    with pytest.raises(Usage) as caught:
        turns(word)
    assert caught.value.exit == 2
    assert caught.value.next


def test_a_number_names_both_commands() -> None:
    with pytest.raises(Usage) as caught:
        turns("3")
    assert "ckpt undo t3" in " ".join(caught.value.next)
    assert "ckpt restore 3" in " ".join(caught.value.next)
