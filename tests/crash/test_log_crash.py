"""A log through kills, torn writes and full disks: whole records stay, nothing else is taken for one."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cutting import without_syncs
from harness.machine import fill, tmpfs

from checkpointer import disk
from checkpointer.errors import CheckpointerError, Failed, NoSpace, OutcomeUnknown
from checkpointer.events import ApprovalDecided
from checkpointer.log import Cut, JsonlLog, catch_up, claim
from checkpointer.log.pen import letter
from checkpointer.log.rewrite import redact
from checkpointer.replay import replay, save
from checkpointer.snapshot import Snapshots
from checkpointer.testing.ground import contents, said
from checkpointer.testing.script import Script, begin, payment
from checkpointer.testing.world import FixedWorld


class Killed(BaseException):
    """The machine stops here."""


@pytest.fixture
def probe() -> Iterator[Callable[[Callable[[str, object], None]], None]]:
    def put(f: Callable[[str, object], None]) -> None:
        disk.probe = f

    yield put
    disk.probe = None


def after_death(path: Path) -> FixedWorld:
    world = FixedWorld(900, start_ms=1_800_000_000_000)
    world.dead.update(range(100, 200))
    return world


# Torn writes


def _three_writes(path: Path) -> tuple[bytes, int, int]:
    """A log's bytes, and where its last single and its last group begin."""
    script = Script(JsonlLog(str(path)))
    script.user("one")
    before_single = script.log.head().offset
    script.user("two \u2028 \r")
    before_group = script.log.head().offset
    script.pen.append(said("a"), said("b"), said("c"))
    return Path(path, "events.jsonl").read_bytes(), before_single, before_group


def test_a_write_torn_at_every_byte(tmp_path: Path) -> None:
    data, single, group = _three_writes(tmp_path / "made")
    target = tmp_path / "torn" / "events.jsonl"
    target.parent.mkdir()
    log = JsonlLog(str(target.parent))
    for size in range(single, len(data)):
        target.write_bytes(data[:size] + b"\0" * (size % 3))
        assert log.head().offset == (group if size >= group else single)


@pytest.mark.parametrize("part", range(12))
def test_a_torn_write_is_set_aside_and_the_next_one_is_read(tmp_path: Path, part: int) -> None:
    data, single, _ = _three_writes(tmp_path / "made")
    size = single + (len(data) - single) * part // 12
    target = tmp_path / "torn"
    target.mkdir()
    Path(target, "events.jsonl").write_bytes(data[:size])
    log = JsonlLog(str(target))
    whole = log.head()
    pen = claim(log, begin(FixedWorld()), world=after_death(target))
    pen.append(said("after the repair"))
    assert contents(log)[-1] == "after the repair"
    assert catch_up(log) == pen.folded
    torn = data[whole.offset : size]
    kept = [p.read_bytes() for p in Path(target, "torn").iterdir()] if torn else []
    assert kept == ([torn] if torn else [])


def test_whoever_writes_next_cuts_the_tail_not_only_a_claim(tmp_path: Path) -> None:
    script = Script(JsonlLog(str(tmp_path / "r1")))
    for torn in (b'{"e":{"seq":3,', b"\0" * 99, b"\n\n"):
        with open(tmp_path / "r1" / "events.jsonl", "ab") as f:
            f.write(torn)
        script.user("goes on")
    assert contents(script.log) == ["goes on"] * 3
    assert len(list((tmp_path / "r1" / "torn").iterdir())) == 3


def test_a_follower_hears_of_a_cut(tmp_path: Path) -> None:
    script = Script(JsonlLog(str(tmp_path / "r1")))
    path = tmp_path / "r1" / "events.jsonl"
    script.user("stays")
    whole = path.read_bytes()
    script.user("will be lost")
    script.user("too")

    def lose() -> None:
        path.write_bytes(whole)
        with pytest.raises(CheckpointerError):
            script.user("its pen is done with")
        world = after_death(tmp_path)
        claim(JsonlLog(script.log.directory), begin(FixedWorld()), world=world).append(said("new"))  # type: ignore[attr-defined]

    todo: list[Callable[[], None] | None] = [lose, lambda: None, None]

    def wait() -> bool:
        step = todo.pop(0)
        if step is not None:
            step()
        return step is not None

    seen = [one if isinstance(one, Cut) else one.seq for one in script.log.follow(wait=wait)]
    assert seen == [1, 2, 3, 4, Cut(2), 3, 4]


def test_a_follower_does_not_mind_a_redaction(tmp_path: Path) -> None:
    script = Script(JsonlLog(str(tmp_path / "r1")))
    script.user("secret")
    script.user("not secret")
    log = JsonlLog(str(tmp_path / "r1"))
    todo: list[Callable[[], object] | None] = [lambda: redact(log, [2], "x", world=script.world), None]

    def wait() -> bool:
        step = todo.pop(0)
        if step is not None:
            step()
        return step is not None

    assert [one if isinstance(one, Cut) else one.seq for one in log.follow(wait=wait)] == [1, 2, 3, 4]


# Kills at every durable verb


def _scene(directory: Path, told: list[int]) -> None:
    """Everything that writes. `told` gets the seq of each event that was said to be durable."""
    world = FixedWorld()
    log = JsonlLog(str(directory / "r1"))
    script = Script(log, world)
    told.append(1)
    told.append(script.user("x" * 70_000).seq)
    told.append(script.model(payment()).seq)
    told.extend(e.seq for e in script.pen.append(said("a"), said("b")))
    told.append(script.ask("pay-1").seq)
    event = ApprovalDecided(
        context="main", unprotected="x", key="pay-1", decision="approved", decided_by="person", id="a" * 32
    )
    log.post("inbox", "a" * 32, letter(event, world))
    assert script.pen.collect() == [("a" * 32, "appended")]
    told.append(script.pen.state.seq)
    script.pen.renew()
    save(Snapshots(str(directory / "r1" / "snapshots")), script.pen.folded)
    script.pen.release("paused")
    told.append(script.pen.folded.position.seq)
    told.append(script.again().state.seq)
    told.append(redact(log, [2], "it was secret", world=world).seq)


def _verbs(tmp_path: Path) -> list[tuple[str, str]]:
    """Every durable verb of the scene, in order: its name and its path."""
    seen: list[tuple[str, str]] = []
    disk.probe = lambda verb, path: seen.append((verb, str(path)))
    try:
        _scene(tmp_path / "count", [])
    finally:
        disk.probe = None
    return seen


def test_a_kill_at_every_durable_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_syncs(monkeypatch)
    verbs = _verbs(tmp_path)
    assert len(verbs) > 60
    assert {verb for verb, _ in verbs} >= {"append", "sync", "sync_directory", "rename", "create", "lock", "remove"}
    _scene(tmp_path / "whole", [])
    whole = [r.load() for r in JsonlLog(str(tmp_path / "whole" / "r1")).read()]
    for n in range(len(verbs)):
        for lost in (False, True):
            _kill_at(tmp_path / f"{n}-{lost}", n, lost, whole)
            shutil.rmtree(tmp_path / f"{n}-{lost}")


def _kill_at(directory: Path, n: int, lost: bool, whole: list[object]) -> None:
    """Die at verb `n`; with `lost`, what was written and not yet synced is half gone, as after a power loss."""
    count = 0
    synced: dict[str, int] = {}

    def kill(verb: str, path: object) -> None:
        nonlocal count
        name = str(path)
        if count == n:
            if lost and verb == "sync" and name.endswith("events.jsonl"):
                had = synced.get(name, 0)
                os.truncate(name, had + (os.path.getsize(name) - had) // 2)
            raise Killed
        count += 1
        if verb == "append":
            synced[name] = os.path.getsize(name)

    told: list[int] = []
    disk.probe = kill
    try:
        with pytest.raises(Killed):
            _scene(directory, told)
    finally:
        disk.probe = None
    log = JsonlLog(str(directory / "r1"))
    pen = claim(log, begin(FixedWorld()), world=after_death(directory))
    found = [r.load() for r in log.read()]
    assert found[-1].type == ("run_started" if len(found) == 1 else "run_resumed")
    assert {e.seq for e in found} >= set(told)
    texts = [(e.type, e.seq) for e in found[:-1]]
    assert texts == [(e.type, e.seq) for e in whole[: len(texts)]]  # type: ignore[attr-defined]
    pen.collect()
    pen.append(said("afterwards"))
    assert replay(log, Snapshots(str(directory / "r1" / "snapshots"))) == catch_up(log) == pen.folded
    assert log.letters("inbox") == []
    redacted = any(e.type == "log_redacted" for e in found)
    assert redacted == (b"[2]" in b"".join(r.line for r in log.read() if r.event.type == "log_redacted"))


# A real kill

_CHILD = """
import sys
from checkpointer.log import JsonlLog, claim
from checkpointer.machine import World, holder
from checkpointer.events import RunStarted
from checkpointer.testing.ground import said
world = World()
log = JsonlLog(sys.argv[1])
pen = claim(log, RunStarted(run="r1", owner=world.here(), command=None, directory=None, environment=None))
print(pen.state.seq, flush=True)
n = 0
while True:
    n += 1
    group = [said("y" * (n * 37 % 3000)) for _ in range(n % 4 + 1)]
    print(pen.append(*group)[-1].seq, flush=True)
"""


def test_a_real_kill_at_any_moment(tmp_path: Path) -> None:
    path = str(tmp_path / "r1")
    for round_ in range(8):
        child = subprocess.Popen([sys.executable, "-c", _CHILD, path], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        last = int(child.stdout.readline())
        deadline = time.monotonic() + 0.02 + 0.013 * round_
        while time.monotonic() < deadline:
            last = int(child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        rest = child.stdout.read().splitlines()
        last = int(rest[-1]) if rest and rest[-1].isdigit() else last
        state = catch_up(JsonlLog(path)).state
        assert state.seq >= last
        assert state.epoch == round_ + 1


# Disks that refuse


def test_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    with tmpfs(tmp_path / "small", "1m") as small:
        log = JsonlLog(str(small / "r1"))
        script = Script(log)
        script.user("one")
        fill(small / "filler", leave=20_000)
        head = log.head()
        refused = 0
        for _ in range(100):
            try:
                script.user("z" * 900)
                head = log.head()
            except NoSpace:
                refused += 1
        assert refused > 50
        assert script.pen.folded.position == log.head() == head
        assert os.path.getsize(log.path) == head.offset
        os.unlink(small / "filler")
        with pytest.raises(NoSpace, match="done with"):
            script.user("there is room, but this pen failed")
        pen = claim(log, begin(FixedWorld()), world=after_death(small))
        pen.append(said("there is room again"))
        assert contents(log)[-1] == "there is room again"
        fill(small / "filler")
        before = catch_up(log)
        with pytest.raises(NoSpace):
            pen.append(said("w" * 100_000))
        assert catch_up(log) == before


@pytest.mark.parametrize("verb", ["append", "sync"])
def test_a_disk_that_fails(tmp_path: Path, verb: str, probe: Callable[..., None]) -> None:
    script = Script(JsonlLog(str(tmp_path / "r1")))
    script.user("one")
    head = script.log.head()
    failed = False

    def fail(what: str, path: object) -> None:
        nonlocal failed
        if what == verb and str(path).endswith("events.jsonl") and not failed:
            failed = True
            raise OSError(errno.EIO, "I/O error")

    probe(fail)
    with pytest.raises(Failed, match="I/O error"):
        script.user("two")
    assert script.log.head() == head
    assert os.path.getsize(tmp_path / "r1" / "events.jsonl") == head.offset
    with pytest.raises(Failed, match="done with"):
        script.user("three")
    pen = claim(JsonlLog(str(tmp_path / "r1")), begin(FixedWorld()), world=after_death(tmp_path))
    pen.append(said("four"))
    assert contents(pen.log) == ["one", "four"]


def test_when_not_even_cutting_back_works_the_outcome_is_unknown(tmp_path: Path, probe: Callable[..., None]) -> None:
    script = Script(JsonlLog(str(tmp_path / "r1")))

    def fail(what: str, path: object) -> None:
        if what in ("sync", "truncate") and str(path).endswith("events.jsonl"):
            raise OSError(errno.EIO, "I/O error")

    probe(fail)
    event = said("written?").model_copy(update={"id": "d" * 32})
    with pytest.raises(OutcomeUnknown):
        script.put(event)
    disk.probe = None
    assert script.log.resolve("d" * 32) == 2
    with pytest.raises(OutcomeUnknown):
        script.user()


def test_a_refused_event_leaves_no_byte(tmp_path: Path, probe: Callable[..., None]) -> None:
    script = Script(JsonlLog(str(tmp_path / "r1")))
    probe(lambda verb, path: pytest.fail(f"{verb} {path}"))
    with pytest.raises(CheckpointerError):
        script.done("nothing is open")
