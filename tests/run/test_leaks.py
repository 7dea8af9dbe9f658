"""A text that leaked is found wherever it stands in a run, and is gone afterwards, whatever was killed in between."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from harness.crashing import killed_everywhere

from checkpointer.errors import Busy
from checkpointer.log import JsonlLog, catch_up
from checkpointer.run import keeper, leaks
from checkpointer.testing.script import Script

TEXT = 'the "code"\nis 4711'


def bytes_below(place: Path) -> list[Path]:
    wanted = leaks.needles(TEXT)
    return [path for path in place.rglob("*") if path.is_file() and leaks.holds(path.read_bytes(), wanted)]


def planted(directory: Path) -> JsonlLog:
    log = JsonlLog(str(directory / "r1"))
    script = Script(log)
    script.user("nothing")
    script.user(f"well, {TEXT}")
    script.model(content={"large": "x" * 70_000, TEXT: [1]})
    script.user("named", slot=TEXT)
    keeper.of(log).save(script.pen.state, script.pen.folded.position.sum, script.pen.folded.position.offset)
    script.pen.release("ended")
    log.post("late", "letter", TEXT.encode())
    log.set_aside(3, TEXT.encode())
    (directory / "r1" / "events.1234.old.jsonl").write_text(TEXT)
    log.close()
    return log


def test_it_is_found_and_taken_out(tmp_path: Path) -> None:
    log = planted(tmp_path)
    found = leaks.look(log, TEXT)
    assert (found.seqs, found.facts) == ([3, 4], [5])
    assert found.letters == [("late", "letter")]
    assert len(found.files) == 3  # snapshot, torn, old log
    before = catch_up(log).state
    leaks.take_out(log, found, "leaked")
    assert bytes_below(tmp_path) == [Path(log.path)]  # where it is a name
    after = leaks.look(log, TEXT)
    assert (after.seqs, after.letters, after.files, after.facts) == ([], [], [], [5])
    assert catch_up(log).state.messages == before.messages
    assert not leaks.look(log, "something else")


def test_a_kill_anywhere_leaves_what_the_next_one_finishes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    planted(source)

    def take(place: Path) -> None:
        log = JsonlLog(str(place / "r1"))
        leaks.take_out(log, leaks.look(log, TEXT), "leaked")

    def check(place: Path) -> None:
        log = JsonlLog(str(place / "r1"))
        catch_up(log)
        take(place)
        assert bytes_below(place) == [place / "r1" / "events.jsonl"]
        assert leaks.look(log, TEXT).seqs == []

    assert killed_everywhere(source, take, check) > 5


def test_not_under_an_owner_that_lives(tmp_path: Path) -> None:
    from checkpointer import machine
    from checkpointer.events import RunStarted
    from checkpointer.log import claim

    log = JsonlLog(str(tmp_path / "r1"))
    pen = claim(log, RunStarted(run="r1", owner=machine.holder(), mode="driven", command=[TEXT]))
    with pytest.raises(Busy):
        leaks.take_out(log, leaks.look(log, TEXT), "leaked")
    pen.release("ended")
    leaks.take_out(log, leaks.look(log, TEXT), "leaked")
    assert bytes_below(tmp_path) == []
    shutil.rmtree(tmp_path / "r1")
