"""Every version of the log that was ever written is still read, to the same states, and broken ones are told apart."""

from __future__ import annotations

import json
import os
import shutil
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from checkpointer import canon, snapshot
from checkpointer.errors import Busy, CheckpointerError, LogDamaged, NeedsMigration
from checkpointer.log import START, JsonlLog, Position, catch_up, claim
from checkpointer.log.rewrite import migrate
from checkpointer.state import EMPTY, RunState, apply, fold
from checkpointer.testing.script import begin
from checkpointer.testing.world import FixedWorld

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOGS = FIXTURES / "logs"
sys.path.insert(0, str(FIXTURES))

import damage  # noqa: E402
import make  # noqa: E402

READABLE = sorted(str(p.parent.relative_to(LOGS)) for p in LOGS.glob("v*/*/states.jsonl"))
DAMAGED = {**damage.DAMAGES, **damage.GROUP_DAMAGES}


def log_of(name: str) -> JsonlLog:
    return JsonlLog(str(LOGS / name))


def expected(name: str) -> list[dict[str, Any]]:
    return [dict(canon.loads(line)) for line in (LOGS / name / "states.jsonl").read_bytes().splitlines()]


def as_written(state: RunState) -> dict[str, Any]:
    return dict(canon.loads(canon.dumps(canon.freeze(snapshot.plain(state)))))


def assert_state(state: RunState, kept: dict[str, Any]) -> None:
    """The state is the kept one. A field that came later is not in those that were kept before."""
    now = as_written(state)
    assert {name: now[name] for name in kept} == kept


@pytest.mark.parametrize("name", READABLE)
def test_every_prefix_folds_to_the_state_that_was_kept(name: str) -> None:
    states = expected(name)
    state, count = EMPTY, 0
    for one in log_of(name).read():
        state = apply(state, one.event)
        assert_state(state, states[count])
        count += 1
    assert count == len(states)


@pytest.mark.parametrize("name", READABLE)
def test_folding_twice_in_one_go_or_from_anywhere_is_equal(name: str) -> None:
    events = [one.event for one in log_of(name).read()]
    whole = fold(events)
    assert fold(events) == whole
    assert hash(fold(events)) == hash(whole)
    for cut in range(len(events)):
        before = fold(events[:cut])
        kept = as_written(before)
        assert fold(events[cut:], before) == whole
        assert fold(events[cut:], before) == whole
        assert as_written(before) == kept


@pytest.mark.parametrize("name", READABLE)
def test_the_fold_never_reads_contents(name: str) -> None:
    """What is loaded, and what a purge left, fold to the same."""
    log = log_of(name)
    bare, loaded = EMPTY, EMPTY
    for one in log.read():
        bare = apply(bare, one.event)
        loaded = apply(loaded, one.load(log.fetch))
        assert bare == loaded


@pytest.mark.parametrize("name", READABLE)
def test_a_snapshot_is_the_state(name: str) -> None:
    for state in _states(name):
        assert snapshot.restored(json.loads(canon.dumps(canon.freeze(snapshot.plain(state))))) == state


def _states(name: str) -> list[RunState]:
    states = [EMPTY]
    for one in log_of(name).read():
        states.append(apply(states[-1], one.event))
    return states


@pytest.mark.parametrize("name", READABLE)
def test_every_place_can_be_read_from(name: str) -> None:
    log = log_of(name)
    place, places = START, [START]
    records = list(log.read())
    for one in records:
        place = Position(one.seq, one.sum, place.offset + len(one.line) + 1)
        if one.seq == one.event.w + one.event.n - 1:
            places.append(place)
    for start in places:
        assert [r.seq for r in log.read(start)] == [r.seq for r in records[start.seq :]]
        assert log.head(start) == places[-1]


def test_version_1_is_frozen() -> None:
    """If this fails, a released log would no longer be written (or kept) as it was."""
    found = {
        str(path.relative_to(LOGS)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(LOGS.glob("*/*/events.jsonl"))
    }
    lines = (FIXTURES / "frozen.sha256").read_text().splitlines()
    assert found == {path: digest for digest, path in (line.split("  ") for line in lines)}


def test_the_generator_writes_the_same_bytes(tmp_path: Path) -> None:
    make.write_all(str(tmp_path / "logs"))
    made = {p.relative_to(tmp_path / "logs"): p.read_bytes() for p in (tmp_path / "logs").rglob("*") if p.is_file()}
    kept = {p.relative_to(LOGS): p.read_bytes() for p in LOGS.rglob("*") if p.is_file()}
    assert sorted(made) == sorted(kept)
    assert [str(path) for path in made if made[path] != kept[path]] == []


@pytest.mark.parametrize("name", sorted(DAMAGED))
def test_damage_is_told_from_a_torn_tail(name: str, tmp_path: Path) -> None:
    _, kind, last = DAMAGED[name]
    shutil.copytree(LOGS / "damaged" / name, tmp_path / "r1")
    log = JsonlLog(str(tmp_path / "r1"))
    lines = (LOGS / "damaged" / name / "events.jsonl").read_bytes().count(b"\n")
    if kind != "torn":
        before = Path(log.path).read_bytes()
        with pytest.raises(CheckpointerError) as e:
            catch_up(log)
        assert e.value.code == {"damaged": "log-damaged", "refused": "log-damaged"}.get(kind, kind)
        if isinstance(e.value, LogDamaged) and last >= 0:
            assert e.value.seq == last + 1
        with pytest.raises(CheckpointerError):
            claim(log, begin(FixedWorld()), world=FixedWorld())
        assert Path(log.path).read_bytes() == before
        return
    assert lines
    whole = log.head()
    torn = Path(log.path).read_bytes()[whole.offset :]
    assert torn
    world = FixedWorld(200)
    world.dead.add(100)
    pen = claim(log, begin(world), world=world)
    assert pen.state.seq == whole.seq + 1
    pen.release("ended")
    assert catch_up(log).state == pen.state
    kept = list((tmp_path / "r1" / "torn").iterdir())
    assert [path.read_bytes() for path in kept] == [torn]


def test_a_changed_meaning_is_refused_until_it_is_migrated(tmp_path: Path) -> None:
    shutil.copytree(LOGS / "v0" / "changed-meaning", tmp_path / "r1")
    log = JsonlLog(str(tmp_path / "r1"))
    before = Path(log.path).read_bytes()
    for act in (lambda: catch_up(log), lambda: list(log.read()), lambda: claim(log, begin(FixedWorld()))):
        with pytest.raises(NeedsMigration):
            act()
    with pytest.raises(Busy):
        migrate(log, world=FixedWorld(200))
    planned = migrate(log, world=_later(), dry=True)
    assert (planned.changed, planned.kept) == ({"context_rewound": 2}, "")
    assert Path(log.path).read_bytes() == before
    old = migrate(log, world=_later()).kept
    assert Path(old).read_bytes() == before
    today = JsonlLog(str(LOGS / "v1" / "contexts"))
    assert catch_up(log).state == catch_up(today).state
    assert [r.load() for r in log.read()] == [r.load() for r in today.read()]
    with pytest.raises(CheckpointerError, match="already"):
        migrate(log, world=_later())
    claim(log, begin(FixedWorld()), take_over=True, world=_later())


def _later() -> FixedWorld:
    world = FixedWorld(200)
    world.dead.add(100)
    return world


@pytest.mark.parametrize("name", ["default-added", "other-form"])
def test_old_forms_are_read_in_todays_words(name: str) -> None:
    today = {"default-added": "groups", "other-form": "parallel-calls"}[name]
    old, new = log_of(f"v0/{name}"), log_of(f"v1/{today}")
    assert [r.load(old.fetch) for r in old.read()] == [r.load(new.fetch) for r in new.read()]
    assert catch_up(old).state == catch_up(new).state
    assert os.path.getsize(old.path) != os.path.getsize(new.path)
