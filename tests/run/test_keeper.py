"""Snapshots of a driven run: written when it is let go and while it works, never in its way, and given up if wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from driving import living_in
from harness.crashing import killed_everywhere
from harness.world import World

from checkpointer import open_run
from checkpointer.log import JsonlLog, catch_up
from checkpointer.replay import Counters, check, replay
from checkpointer.run import keeper


@pytest.fixture
def place(world: World) -> Iterator[World]:
    with living_in(world):
        yield world


def log_of(place: World, run: str = "x") -> JsonlLog:
    return JsonlLog(str(place.store / "runs" / run))


def talk(place: World, words: int, run: str = "x", **options: object) -> None:
    with open_run(".", run_id=run, **options) as opened:  # type: ignore[arg-type]
        for n in range(words):
            opened.memory("m", n)


def counters_of(log: JsonlLog) -> Counters:
    counters = Counters()
    assert replay(log, keeper.of(log), counters) == catch_up(log)
    return counters


def test_only_a_long_run_leaves_one_when_it_is_let_go(place: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "TAIL", 10)
    talk(place, 5)
    log = log_of(place)
    assert keeper.of(log).seqs() == []
    talk(place, 5)
    assert len(keeper.of(log).seqs()) == 1
    talk(place, 1)
    assert len(keeper.of(log).seqs()) == 1  # the tail after it is short
    counters = counters_of(log)
    assert counters.events_replayed == counters.snapshot_seq_gap == 3  # resumed, one word, released
    status = place.ckpt("status", "--json").json
    assert status["snapshot_seq_gap"] == 3
    assert status["snapshot_write_ms"] > 0
    assert status["snapshot_load_ms"] > 0
    shutil.rmtree(Path(log.directory) / "snapshots")
    assert counters_of(log).events_replayed == catch_up(log).state.seq


def test_one_is_written_after_so_many_events(place: World) -> None:
    seen = []
    with open_run(".", run_id="x", snapshot_every=4) as run:
        for n in range(12):
            run.memory("m", n)
            seen.append(next(iter(keeper.of(log_of(place)).seqs()), 0))
    assert sorted(set(seen)) == [0, 4, 8, 12]
    assert len(keeper.of(log_of(place)).seqs()) == 2  # older ones go
    place.ckpt("config", "run.snapshot_every", "3")
    talk(place, 4, run="y")
    assert keeper.of(log_of(place, "y")).seqs() == [3]


def test_one_that_cannot_be_written_is_in_nobodys_way(place: World) -> None:
    talk(place, 1)
    snapshots = Path(log_of(place).directory) / "snapshots"
    snapshots.write_bytes(b"in the way")
    talk(place, 5, snapshot_every=1)
    snapshots.unlink()
    assert catch_up(log_of(place)).state.status == "released"


def test_a_version_that_was_wrong_once_is_trusted_nowhere(place: World, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(place, 4, snapshot_every=2)
    talk(place, 4, run="y", snapshot_every=2)
    other, log = log_of(place, "y"), log_of(place)
    file = max((Path(log.directory) / "snapshots").glob("[0-9]*.json"), key=lambda p: int(p.stem))
    body = file.read_bytes().partition(b"\n")[2].replace(b'"model_turns":0', b'"model_turns":7').removesuffix(b"\n")
    file.write_bytes(sha256(body).hexdigest().encode() + b"\n" + body + b"\n")
    assert not check(log, keeper.of(log), Counters())
    found = counters_of(other)
    assert found.snapshot_misses == {"quarantined": len(keeper.of(other).seqs())}
    assert found.events_replayed == catch_up(other).state.seq
    assert place.ckpt("status", "--json").json["full_replay_equivalence_failures"] == 1
    talk(place, 4, run="z", snapshot_every=1)
    assert keeper.of(log_of(place, "z")).seqs() == []
    (place.store / "runs" / "quarantined-snapshots").unlink()
    assert counters_of(other).snapshot_misses == {}


def test_a_kill_at_every_step_of_writing_one_costs_time_at_most(place: World, tmp_path: Path) -> None:
    talk(place, 3)
    source = tmp_path / "source"
    shutil.copytree(place.store / "runs", source)

    def write(copy: Path) -> None:
        log = JsonlLog(str(copy / "x"))
        keeper.Keeper(log, 1).wrote(catch_up(log))

    assert killed_everywhere(source, write, lambda copy: counters_of(JsonlLog(str(copy / "x"))) and None) > 4
