"""What is left of a damaged log is shown, and what is not is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkpointer.errors import LogDamaged
from checkpointer.log import JsonlLog, catch_up
from checkpointer.log.salvage import Damage, salvage
from checkpointer.testing.script import Script


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of 200 events."""
    script = Script(JsonlLog(str(tmp_path / "r1")))
    script.pen.append(*(script.user_event(str(n)) for n in range(199)))
    return tmp_path / "r1" / "events.jsonl"


def found(path: Path) -> tuple[list[int], list[Damage]]:
    parts = list(salvage(JsonlLog(str(path.parent))))
    return [p.seq for p in parts if not isinstance(p, Damage)], [p for p in parts if isinstance(p, Damage)]


def test_a_whole_log(path: Path) -> None:
    assert found(path) == (list(range(1, 201)), [])


def test_a_line_of_garbage_costs_one_event(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[49] = b"garbage\n"
    path.write_bytes(b"".join(lines))
    seqs, damage = found(path)
    assert seqs == [*range(1, 50), *range(51, 201)]
    assert damage == [Damage(50, 50, "no record", tail=False)]


def test_a_line_that_is_gone_is_noticed(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[49]
    path.write_bytes(b"".join(lines))
    seqs, damage = found(path)
    assert seqs == [*range(1, 50), *range(51, 201)]
    assert damage == [Damage(50, 50, "it does not follow the event before it", tail=False)]


def test_a_torn_tail(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-10])
    seqs, damage = found(path)
    assert seqs == list(range(1, 200))
    assert damage == [Damage(200, 200, "its line does not end", tail=True)]


def test_what_is_only_shown_is_not_folded(tmp_path: Path) -> None:
    script = Script(JsonlLog(str(tmp_path / "r1")))
    for n in range(5):
        script.user(str(n))
    path = tmp_path / "r1" / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[3:]]))
    with pytest.raises(LogDamaged) as e:
        catch_up(JsonlLog(str(tmp_path / "r1")))
    assert e.value.seq == 3
    assert found(path)[0] == [1, 2, 4, 5, 6]
