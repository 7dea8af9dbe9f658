"""`ckpt bench`: what it reckons is right, what it measures is the run's own, and no byte of the store changes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from harness.machine import wait_until
from harness.manifest import Manifest, same, untouched
from harness.world import World

from checkpointer.bench import figure, interval
from checkpointer.bench.interval import Costs, Line
from checkpointer.bench.lengthening import lengthen
from checkpointer.bench.report import deaths
from checkpointer.bench.sample import MARKS, Sample
from checkpointer.log import JsonlLog, catch_up
from checkpointer.run import claims
from checkpointer.testing.long import lines
from checkpointer.testing.script import Script, asked

COSTS = Costs(event=0.001, load=Line(0.0, 0.0001), write=Line(0.0, 0.0002))
"""A millisecond an event; loading what 1,000 events left takes 100 ms, writing it 200 ms."""


@pytest.fixture
def place(world: World) -> World:
    world.write("a", "1")
    world.ckpt("save")
    return world


def long_run(place: World, events: int) -> None:
    directory = place.store / "runs" / "long"
    directory.mkdir(parents=True)
    (directory / "events.jsonl").write_bytes(b"".join(lines(events)))


def short_run(place: Path, turns: int = 3) -> Script:
    """A run with a call that is cut off at its end; what was said in it is a secret."""
    script = Script(JsonlLog(str(place)))
    for n in range(turns):
        script.user("hunter2", turn=n + 1)
        turn = script.model(asked(f"k{n}"), content="hunter2")
        script.start(f"k{n}", arguments={"say": "hunter2"}, turn=n + 1, step=1)
        script.done(f"k{n}", "hunter2 " * n)
        assert turn.calls
    script.model(asked("last"))
    script.start("last")
    return script


def test_the_worst_case_and_the_interval_that_keeps_it() -> None:
    assert interval.longest(COSTS, 0, 1000) == pytest.approx(1.0)
    assert interval.longest(COSTS, 300, 1000) == pytest.approx(0.1 + 0.3)
    assert interval.longest(COSTS, 1000, 1000) == pytest.approx(1.0)  # the first would come when all is over
    assert interval.reach(COSTS, 0.5) == 500
    assert interval.wanted(COSTS, 1.0, 1000) == 0
    assert interval.wanted(COSTS, 0.5, 1000) == 400
    assert interval.wanted(COSTS, 0.5, 4567) is None  # loading takes 457 ms by then, and 43 events are too few
    for target in (0.3, 0.55, 1.7):
        every = interval.wanted(COSTS, target, 2000)
        assert every
        assert interval.longest(COSTS, every, 2000) <= target < interval.longest(COSTS, every * 1.15, 2000)  # type: ignore[arg-type]


def test_when_snapshots_pay() -> None:
    # Two are written, after 400 and 800 of 1,000 events: 80 and 160 ms. A death in the second stretch (0.4 of all) then
    # saves 400 events less 40 ms, one in the third (0.2) 800 events less 80 ms.
    assert interval.break_even(COSTS, 400, 1000) == pytest.approx(0.24 / (0.4 * 0.36 + 0.2 * 0.72))
    assert interval.break_even(COSTS, 0, 1000) is None
    assert interval.break_even(COSTS._replace(load=Line(0, 0.001)), 400, 1000) is None
    assert interval.pays(0.5, (5, 5_000), 1000) is True
    assert interval.pays(1.5, (5, 5_000), 1000) is False
    assert interval.pays(0.5, (0, 100_000), 1000) is False  # three at most would be 0.03 a run
    assert interval.pays(0.5, (1, 1_000), 1000) is None
    assert interval.pays(0.5, (0, 0), 1000) is None


def test_a_line_is_told_from_a_bend() -> None:
    at = (10, 20, 30, 40)
    assert figure.bend((1, 2, 3, 4), at) == pytest.approx(1)
    assert figure.bend((1, 2, 4, 6), at) == pytest.approx(2)
    shapes = {(1.0, 1.0, 1.05): "a line", (1.5, 1.6, 1.7): "bends up", (0.5, 0.5, 0.6): "bends down"}
    for bends, shape in shapes.items():
        assert figure.shape(figure.figure(bends)) == shape
    assert figure.shape(figure.figure((0.7, 1.0, 1.6, 1.5))) == "unclear"
    assert figure.shape(figure.figure((1.0, 1.0))) == "unclear"
    assert figure.figure((3.0, 1.0, 2.0, 9.0)) == (2.5, 2.0, 3.0, 9.0, 4)


def test_claims_are_counted_by_what_came_before_them(tmp_path: Path) -> None:
    script = short_run(tmp_path / "r1")
    script.world.dead.add(script.world.pid)
    before = script.pen.state.seq
    script.again()
    script.pen.release("ended")
    script.again()
    script.world.host = "another"
    script.world.pass_time(10**6)
    script.again(take_over=True)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "events.jsonl").write_bytes(b"{}\n")
    (life,) = claims.lives(str(tmp_path))
    assert [claim.after for claim in life.claims] == ["begun", "crash", "released", "takeover"]
    assert life.events == script.pen.state.seq
    assert [claim.seq for claim in life.recoveries] == [before + 1, life.events]
    told = deaths([life, life._replace(mode="observed")])
    assert (told.runs, told.claims, told.released, told.crashes, told.takeovers) == (1, 4, 1, 1, 1)
    assert (told.most, told.since) == (life.events - 1, life.claims[0].at)


def test_a_short_log_is_made_longer_without_what_was_said(tmp_path: Path) -> None:
    script = short_run(tmp_path / "r1")
    assert b"hunter2" in Path(script.log.path).read_bytes()  # type: ignore[attr-defined]
    (tmp_path / "longer").mkdir()
    path = tmp_path / "longer" / "events.jsonl"
    made = lengthen(list(script.log.read()), str(path), 200, float("inf"))
    assert made is not None
    assert made.refused == 0
    state = catch_up(JsonlLog(str(path.parent))).state
    assert state.seq == made.events == 200
    assert state.model_turns > 40
    assert b"hunter2" not in path.read_bytes()
    assert lengthen(list(Script(JsonlLog(str(tmp_path / "r2"))).log.read()), str(path), 200, float("inf")) is None


def test_every_line_is_timed_as_it_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines(100)) + b"torn")
    sample = Sample(str(tmp_path / "events.jsonl"), 80)
    (tmp_path / "events.jsonl").unlink()  # written anew meanwhile
    assert (sample.events, sample.half.seq, sample.whole.seq) == (80, 40, 80)
    assert len(sample.marks) == MARKS
    assert sum(sample.kinds.values()) == 80
    assert sample.bytes[-1] == sum(len(line) for line in lines(80))
    took = sample.replay()
    assert list(took.at) == sorted(took.at)
    assert sum(took.by_kind) == pytest.approx(took.at[-1], rel=0.2)
    sample.close()


@pytest.mark.parametrize("copied", [False, True])
def test_no_byte_of_the_store_changes_and_nothing_stays(place: World, copied: bool) -> None:
    if copied:
        short_run(place.store / "runs" / "short")
    else:
        long_run(place, 2_100)
        place.ckpt("config", "run.snapshot_every", "2000")
    left = place.state / "workspaces" / ".bench-killed"
    left.mkdir()
    (left / "lock").touch()
    os.utime(left, (1, 1))
    before = Manifest.of(place.store)
    found = place.ckpt("bench", "--seconds", "0.5", "--target-ms", "40", "--json").json
    after = Manifest.of(place.store)
    same(before, after)
    untouched(before, after, set())
    assert [p.name for p in (place.state / "workspaces").iterdir()] == [place.store.name]
    assert found["mode"] == "driven"
    assert found["measured"]["copied"] is copied
    assert found["measured"]["rounds"] >= 1
    assert found["measured"]["on_the_stores"] is True
    assert list(found["event_ms"]) == ["1"]
    assert found["replay"][-1]["events"] == found["measured"]["events"] == found["event_ms"]["1"]["events"]
    assert found["snapshot"]["write"]["median_ms"] > 0 < found["snapshot"]["load"]["median_ms"]
    assert found["recoveries"]["claims"] == 1
    assert found["now"]["every"] == (0 if copied else 2000)
    assert found["command"] in (None, f"ckpt config run.snapshot_every {found['every']}")


def test_a_person_reads_what_was_measured_and_what_to_type(place: World) -> None:
    assert place.ckpt("bench", ok=2).err.startswith("there are no runs yet")
    short_run(place.store / "runs" / "short")
    said = place.ckpt("bench", "--seconds", "0.5", "--target-ms", "20", "--events", "100000").out
    assert "too few to tell. Measured on a copy" in said
    assert said.count("#|") + said.count("# |") >= 1
    assert "no interval keeps it below 20 ms" in said or "\nnext: ckpt config run.snapshot_every " in said
    said = place.ckpt("bench", "short", "--seconds", "0.5", "--target-ms", "60000", "--events", "100").out
    assert "\nneeds none " in said
    assert "next:" not in said
    Script(JsonlLog(str(place.store / "runs" / "begun")))
    assert "only begun: there is nothing to measure" in place.ckpt("bench", "begun", ok=2).err
    assert place.ckpt("bench", "r99", ok=2).err.startswith("there is no run r99")


def test_a_damaged_log_is_refused(place: World) -> None:
    long_run(place, 2_100)
    log = place.store / "runs" / "long" / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"seq":700,', b'"seq":701,', 1))
    assert place.ckpt("bench", "--json", ok=5).error["code"] == "log-damaged"
    assert [p.name for p in (place.state / "workspaces").iterdir()] == [place.store.name]


def test_an_interrupt_leaves_nothing(place: World) -> None:
    long_run(place, 2_100)
    with place.popen("bench", "--seconds", "500") as process:
        wait_until(lambda: list((place.state / "workspaces").glob(".bench-*/runs/*/snapshots/*")), 60, "a round")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b"interrupted\n"
    assert [p.name for p in (place.state / "workspaces").iterdir()] == [place.store.name]
