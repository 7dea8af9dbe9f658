"""A snapshot that fits saves time; every other one is a counted miss; without any, all is the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from checkpointer import events as E
from checkpointer.log import Folded, JsonlLog, catch_up
from checkpointer.log.rewrite import redact
from checkpointer.replay import Counters, check, replay, save
from checkpointer.snapshot import Snapshots
from checkpointer.testing.script import Script, asked, payment


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """A run with something of everything that a state holds."""
    made = Script(JsonlLog(str(tmp_path / "r1")), tools=(E.Declared(name="pay", digest="d"),))
    made.user("hello", slot="task", turn=1)
    made.model(payment(), asked("k1"), asked("k2"))
    made.start("pay-1", "pay", "external", signature="sig", terms=E.Terms(keys_kept_s=5, offers=("keys",)))
    made.uncertain("pay-1", number=1)
    made.start("k1")
    made.done("k1")
    made.ask("k2")
    made.user("there", context="sub")
    return made


@pytest.fixture
def kept(tmp_path: Path) -> Snapshots:
    return Snapshots(str(tmp_path / "r1" / "snapshots"))


def file_of(kept: Snapshots, seq: int) -> Path:
    return Path(kept._directory) / f"{seq}.json"


def rewritten(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    """Another body under a digest that fits."""
    body = json.loads(path.read_bytes().partition(b"\n")[2])
    change(body)
    data = json.dumps(body).encode()
    path.write_bytes(sha256(data).hexdigest().encode() + b"\n" + data + b"\n")


def test_snapshot_and_tail_come_to_the_full_replay(script: Script, kept: Snapshots) -> None:
    save(kept, script.pen.folded)
    script.decide("k2")
    script.user("more")
    counters = Counters()
    assert replay(script.log, kept, counters) == catch_up(script.log) == script.pen.folded
    assert (counters.events_replayed, counters.snapshot_seq_gap) == (2, 2)
    assert counters.snapshot_load_ms > 0
    assert counters.replay_duration_ms > 0
    assert check(script.log, kept, counters)
    assert counters.full_replay_equivalence_failures == 0


def test_without_any_all_is_the_same(script: Script, kept: Snapshots, tmp_path: Path) -> None:
    counters = Counters()
    save(kept, script.pen.folded, counters)
    assert counters.snapshot_write_ms > 0
    shutil.rmtree(tmp_path / "r1" / "snapshots")
    counters = Counters()
    assert replay(script.log, kept, counters) == script.pen.folded == replay(script.log)
    assert counters.events_replayed == script.pen.state.seq
    assert counters.snapshot_misses == {}


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda p: p.write_bytes(b""), "corrupt"),
    "zeros": (lambda p: p.write_bytes(b"\0" * p.stat().st_size), "corrupt"),
    "garbage": (lambda p: p.write_bytes(b"garbage"), "corrupt"),
    "cut": (lambda p: p.write_bytes(p.read_bytes()[:-20]), "corrupt"),
    "a bit": (lambda p: p.write_bytes(p.read_bytes().replace(b'"seq":', b'"seQ":', 1)), "corrupt"),
    "a list": (lambda p: p.write_bytes(sha256(b"[1]").hexdigest().encode() + b"\n[1]\n"), "corrupt"),
    "other schema": (lambda p: rewritten(p, lambda b: b.update(schema=99)), "version"),
    "other fold": (lambda p: rewritten(p, lambda b: b.update(fold="x")), "version"),
    "other seq": (lambda p: rewritten(p, lambda b: b.update(seq=3)), "discontinuous"),
    "other log": (lambda p: rewritten(p, lambda b: b.update(sum="0" * 64)), "foreign"),
    "other state": (lambda p: rewritten(p, lambda b: b["state"].pop("live")), "corrupt"),  # type: ignore[attr-defined]
    "wrong rows": (lambda p: rewritten(p, lambda b: b["state"].update(doubts=[1])), "corrupt"),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("how", sorted(SPOILT))
def test_every_misfit_is_a_counted_miss(script: Script, kept: Snapshots, how: str) -> None:
    spoil, name = SPOILT[how]
    save(kept, script.pen.folded)
    script.user("more")
    spoil(file_of(kept, script.pen.state.seq - 1))
    counters = Counters()
    assert replay(script.log, kept, counters) == script.pen.folded
    assert counters.snapshot_misses == {name: 1}
    assert counters.events_replayed == script.pen.state.seq


def test_an_older_one_is_taken_where_the_newest_does_not_fit(script: Script, kept: Snapshots) -> None:
    save(kept, script.pen.folded)
    script.user("more")
    save(kept, script.pen.folded)
    file_of(kept, script.pen.state.seq).write_bytes(b"")
    counters = Counters()
    assert replay(script.log, kept, counters) == script.pen.folded
    assert (counters.events_replayed, counters.snapshot_misses) == (1, {"corrupt": 1})


def test_one_that_is_ahead_of_the_log_is_none(script: Script, kept: Snapshots) -> None:
    before = script.log.head()
    script.user("will be lost")
    save(kept, script.pen.folded)
    path = Path(script.log.path)  # type: ignore[attr-defined]
    path.write_bytes(path.read_bytes()[: before.offset])
    counters = Counters()
    assert replay(script.log, kept, counters).position == before
    assert counters.snapshot_misses == {"ahead": 1}


def test_one_of_another_run_is_none(script: Script, kept: Snapshots, tmp_path: Path) -> None:
    other = Script(JsonlLog(str(tmp_path / "r2")))
    while other.pen.state.seq < script.pen.state.seq:
        other.user("x")
    save(kept, other.pen.folded)
    counters = Counters()
    assert replay(script.log, kept, counters) == script.pen.folded
    assert sum(counters.snapshot_misses.values()) == 1


def test_a_wrong_state_is_found_and_all_are_set_aside(script: Script, kept: Snapshots) -> None:
    save(kept, script.pen.folded)
    rewritten(file_of(kept, script.pen.state.seq), lambda b: b["state"].update(turn=99))  # type: ignore[attr-defined]
    script.user("more")
    counters = Counters()
    assert not check(script.log, kept, counters)
    assert counters.full_replay_equivalence_failures == 1
    assert kept.seqs() == []
    assert replay(script.log, kept) == script.pen.folded
    assert check(script.log, kept, counters)


def test_a_snapshot_holds_no_contents_and_outlives_a_redaction(script: Script, kept: Snapshots) -> None:
    script.user("the password is hunter2")
    save(kept, script.pen.folded)
    written = file_of(kept, script.pen.state.seq).read_bytes()
    for words in (b"hunter2", b"hello", b"there", b'"n"'):
        assert words not in written
    redact(script.log, [script.pen.state.seq], "secret", world=script.world)  # type: ignore[arg-type]
    counters = Counters()
    assert replay(script.log, kept, counters) == catch_up(script.log)
    assert b"hunter2" not in Path(script.log.path).read_bytes()  # type: ignore[attr-defined]


def test_old_ones_can_go(script: Script, kept: Snapshots) -> None:
    for n in range(4):
        script.user(str(n))
        save(kept, script.pen.folded)
    seqs = kept.seqs()
    kept.drop(keep=2)
    assert kept.seqs() == seqs[:2]
    kept.drop()
    assert kept.seqs() == []


def test_nothing_is_known_of_an_empty_place(tmp_path: Path) -> None:
    assert Snapshots(str(tmp_path / "none")).load(lambda *place: True) is None
    assert Folded().state.seq == 0
    assert set(Counters().as_json()) == {
        "events_replayed",
        "replay_duration_ms",
        "snapshot_load_ms",
        "snapshot_write_ms",
        "snapshot_seq_gap",
        "full_replay_equivalence_failures",
        "snapshot_misses",
    }
