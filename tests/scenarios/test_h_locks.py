"""Scenarios 84-91: locking, concurrency, stale locks."""

from __future__ import annotations

import fcntl
import os
import time

import pytest
from harness import gitrepo
from harness.world import World


def stale(world: World, name: str) -> str:
    path = world.store / "shadow.git" / name
    path.touch()
    os.utime(path, (time.time() - 3600, time.time() - 3600))
    return str(path)


LOCKS = [
    "refs/heads/timeline.lock",
    "index.lock",
    "packed-refs.lock",
    "HEAD.lock",
    "config.lock",
    "gc.pid.lock",
    "gc.pid",
]


@pytest.mark.parametrize("name", LOCKS)
@pytest.mark.parametrize("age", ["old", "new"])
def test_s084_stale_locks_stop_nothing(world: World, name: str, age: str) -> None:
    world.write("a", "1")
    world.save()
    path = stale(world, name)
    if age == "new":
        os.utime(path)
    before = world.files()
    done = world.step("echo 2 > a")
    if name == "refs/heads/timeline.lock":
        assert done.err.count("lock") >= 1
        assert not os.path.exists(path)
    world.go("undo", to=before)


def test_s084_a_lock_of_pending_and_packed_refs(world: World) -> None:
    world.write("a", "1")
    world.save()
    world.write("a", "2")
    world.save()
    world.shadow("pack-refs", "--all")
    assert not (world.store / "shadow.git/refs/heads/timeline").exists()
    world.write("a", "3")
    assert world.save() == 3
    world.go("restore", "1")
    assert world.read("a") == b"1"


def test_s085_a_held_lock_is_waited_for_and_kept(world: World) -> None:
    world.write("a", "1")
    world.save()
    lock = world.store / "lock"
    inode = lock.stat().st_ino
    world.write("a", "2")
    before = world.files()
    with lock.open("rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        start = time.monotonic()
        busy = world.ckpt("save", "--json", ok=4)
        assert busy.error["code"] == "busy"
        assert time.monotonic() - start < 60
        world.ckpt("log")
        world.ckpt("status", ok=(0, 4))
    assert lock.stat().st_ino == inode
    assert before.told() == world.files().told()
    assert world.save() == 2


def test_s085_a_short_wait_is_just_a_wait(world: World) -> None:
    world.write("a", "1")
    world.save()
    world.write("a", "2")
    with (world.store / "lock").open("rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        with world.popen("save", "--json") as process:
            time.sleep(1.5)
            assert process.poll() is None
            fcntl.flock(f, fcntl.LOCK_UN)
            out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert b'"created": true' in out or b'"created":true' in out


def test_s087_two_runs_in_one_workspace(world: World) -> None:
    world.write("a.py", "a\n")
    world.write("b.py", "b\n")
    world.step("echo A > a.py")
    world.step("echo B > b.py")
    world.go("undo", "--run", "r1")
    assert world.read("a.py") == b"a\n"
    assert world.read("b.py") == b"B\n"


def test_s088_a_run_that_changed_nothing_undoes_nothing(world: World) -> None:
    world.write("z", "z")
    world.step("for i in 1 2 3 4 5; do echo $i > f$i; done")
    world.step("cat f1 > /dev/null")
    refused = world.go("undo", "--run", "r2", ok=1)
    assert refused.error["code"] == "nothing-to-undo"
    assert world.read("f5") == b"5\n"


def test_s090_an_edit_that_was_discarded_meanwhile(world: World) -> None:
    world.write("f", "".join(f"line {i}\n" for i in range(1, 41)))
    gitrepo.init(world)
    start = world.files()
    world.step("sed -i 's/^line 30$/THIRTY/' f")
    world.sh("git checkout -q f")
    world.step("sed -i 's/^line 5$/FIVE/' f")
    assert world.sh("GIT_OPTIONAL_LOCKS=0 git diff --numstat").split() == ["1", "1", "f"]
    after = world.files()
    world.go("undo", to=start)
    world.go("restore", "t2", to=after)


def test_s091_a_gc_at_work_elsewhere(world: World) -> None:
    world.write("a", "1")
    world.save()
    (world.store / "shadow.git/gc.pid").write_text(f"{os.getpid()} {os.uname().nodename}\n")
    (world.store / "shadow.git/gc.pid.lock").touch()
    before = world.files()
    world.step("echo 2 > a")
    world.go("undo", to=before)
