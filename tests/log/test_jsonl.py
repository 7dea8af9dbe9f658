"""The file itself: who may read it, where it may lie, what its name means."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from checkpointer import machine
from checkpointer.errors import Behind, Busy, Damaged, Failed, LogDamaged, MissingObject, NoStore, Usage
from checkpointer.log import JsonlLog, JsonlRuns, MemoryLog, catch_up, claim, glance, open_log, open_runs
from checkpointer.log.rewrite import redact
from checkpointer.testing.ground import contents, said
from checkpointer.testing.script import Script, begin
from checkpointer.testing.world import FixedWorld


def script_in(directory: Path) -> Script:
    return Script(JsonlLog(str(directory)))


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_nobody_else_may_read_it_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        script = script_in(tmp_path / "runs" / "r1")
        script.user("x" * 100_000)
        script.log.post("inbox", "a", b"x")
    finally:
        os.umask(old)
    for path in [tmp_path / "runs", *(tmp_path / "runs").rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "smbfs"])
def test_a_network_file_system_is_refused_by_name(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "file_system", lambda path: kind)
    with pytest.raises(Failed, match=f"is on {kind}"):
        script_in(tmp_path / "r1")
    assert not (tmp_path / "r1" / "events.jsonl").exists()


@pytest.mark.parametrize("left", [None, 0, 40])
def test_a_log_that_was_begun_and_holds_no_event_is_damaged(tmp_path: Path, left: int | None) -> None:
    script_in(tmp_path / "r1")
    path = tmp_path / "r1" / "events.jsonl"
    if left is None:
        path.unlink()
    else:
        os.truncate(path, left)
    for read in (lambda: list(JsonlLog(str(path.parent)).read()), lambda: list(glance.look(str(path.parent)))):
        with pytest.raises(LogDamaged, match="at event 1"):
            read()
    assert glance.runs(str(tmp_path)) == ["r1"]
    if left is not None:
        (tmp_path / "r1" / "lease.json").unlink()  # a kill before the first event was whole: nobody was told of it
        assert list(JsonlLog(str(path.parent)).read()) == list(glance.look(str(path.parent))) == []


def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "r1").mkdir()
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    (tmp_path / "r1" / "events.jsonl").symlink_to(victim)
    with pytest.raises(Failed):
        script_in(tmp_path / "r1")
    assert victim.read_bytes() == b""


def test_urls(tmp_path: Path) -> None:
    made = script_in(tmp_path / "r1")
    for url in (f"jsonl:{tmp_path}/r1", f"{tmp_path}/r1"):
        log = open_log(url)
        assert isinstance(log, JsonlLog)
        assert catch_up(log) == made.pen.folded
    assert isinstance(open_log("memory:here/r1"), MemoryLog)
    assert open_log("memory:here/r1") is open_log("memory:here/r1")
    assert open_log("memory:here/r1") is not open_log("memory:there/r1")
    assert open_runs(str(tmp_path)).runs() == ["r1"]
    for bad in ("mysql:x/r1", "r1", "jsonl:x/", "x/.."):
        with pytest.raises((Usage, ValueError)):
            open_log(bad)


def test_a_log_that_was_written_anew_is_opened_anew(tmp_path: Path) -> None:
    script = script_in(tmp_path / "r1")
    script.user("secret")
    script.user("x" * 70_000)
    script.user("x" * 70_000)
    assert len(list((tmp_path / "r1" / "objects").iterdir())) == 1
    log = JsonlLog(str(tmp_path / "r1"))
    redact(log, [2, 3], "no longer wanted", world=script.world)
    assert len(list((tmp_path / "r1" / "objects").iterdir())) == 1
    with pytest.raises(Behind):
        script.user("behind the redaction")
    assert [r.redacted for r in log.read()] == [False, True, True, False, False]
    assert b"secret" not in Path(log.path).read_bytes()
    script.world.dead.add(100)
    script.again()
    script.user("goes on")
    with open(log.path, "ab") as f:
        f.write(b"half a secret")
    script.user("cuts it")
    assert (tmp_path / "r1" / "torn").is_dir()
    with open(log.path, "ab") as f:
        f.write(b"and another half")
    redact(log, [4], "nor this", world=script.world)
    assert not (tmp_path / "r1" / "torn").exists()
    assert list((tmp_path / "r1" / "objects").iterdir()) == []
    assert log.resolve(next(iter(log.read())).event.id) == 1
    for none in ([], [99], [0]):
        with pytest.raises(Usage):
            redact(log, none, "x", world=script.world)


def test_a_finished_run_can_still_be_redacted(tmp_path: Path) -> None:
    script = script_in(tmp_path / "r1")
    script.user("secret")
    script.pen.finish("done")
    redact(JsonlLog(str(tmp_path / "r1")), [2], "secret", world=script.world)
    state = catch_up(script.log).state
    assert (state.status, state.outcome, state.seq) == ("finished", "done", 4)


def test_contents_that_are_gone_or_damaged_are_named(tmp_path: Path) -> None:
    script = script_in(tmp_path / "r1")
    script.user("y" * 70_000)
    script.user("small")
    (path,) = (tmp_path / "r1" / "objects").iterdir()
    path.write_bytes(b"other")
    record = script.log.at([2])[0]
    with pytest.raises(Damaged, match=path.name[:12]):
        record.load(script.log.fetch)
    path.unlink()
    with pytest.raises(MissingObject, match=path.name[:12]):
        record.load(script.log.fetch)
    assert catch_up(script.log) == script.pen.folded
    assert script.log.at([3])[0].load(script.log.fetch).content == "small"  # type: ignore[union-attr]


def test_names_of_letters_and_runs_are_no_paths(tmp_path: Path) -> None:
    script = script_in(tmp_path / "r1")
    for bad in ("../x", "a/b", "", ".", "x" * 200):
        with pytest.raises(ValueError, match="not a"):
            script.log.post("inbox", bad, b"x") if bad else JsonlRuns(str(tmp_path)).log(bad)
    with pytest.raises(ValueError, match="outbox"):
        script.log.post("outbox", "a", b"x")
    Path(tmp_path / "r1" / "inbox").mkdir()
    Path(tmp_path / "r1" / "inbox" / "x.tmp").write_bytes(b"half a letter")
    assert script.log.letters("inbox") == []


def test_deleting_a_run_that_is_being_written(tmp_path: Path) -> None:
    runs = JsonlRuns(str(tmp_path / "runs"))
    script = Script(runs.log("r1"))
    log = script.log
    assert isinstance(log, JsonlLog)
    with log._held(), pytest.raises(Busy):
        runs.delete("r1")
    runs.delete("r1")
    assert runs.runs() == []
    assert list((tmp_path / "runs").iterdir()) == []
    with pytest.raises(NoStore):
        script.user("to whom")
    again = claim(runs.log("r1"), begin(FixedWorld()), world=FixedWorld())
    again.append(said("a new one"))
    assert contents(runs.log("r1")) == ["a new one"]


def test_a_closed_log_opens_again(tmp_path: Path) -> None:
    script = script_in(tmp_path / "r1")
    assert isinstance(script.log, JsonlLog)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(50):
        script.user("x")
        script.log.close()
        list(script.log.read())
    script.log.close()
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after <= before
