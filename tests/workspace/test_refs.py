"""Refs, loose and packed, and the locks that git and killed processes leave beside them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness.shadow import checkpoint, git, sound

from checkpointer import disk
from checkpointer.errors import Busy
from checkpointer.workspace.shadow import repository
from checkpointer.workspace.shadow.refs import Refs
from checkpointer.workspace.shadow.store import Store

HARNESS = Path(__file__).parents[1]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "shadow.git")


def keeps(store: Store) -> list[str]:
    return [n for n in os.listdir(store.objects.pack_directory) if n.endswith(".keep")]


def test_packed_refs_are_understood(store: Store) -> None:
    first = checkpoint(store, {"a": b"1"})
    store.pin(1, "one")
    git(store, "pack-refs", "--all", "--prune")
    assert not os.path.exists(os.path.join(store.path, repository.TIMELINE))
    again = Store(store.path)
    assert again.tip() is not None
    assert again.pinned() == {1: "one"}
    second = checkpoint(again, {"a": b"2"})
    assert Store(store.path).checkpoints()[-1].id == second.id
    again.unpin(1)
    assert Store(store.path).pinned() == {}
    git(store, "pack-refs", "--all", "--prune")
    assert [c.id for c in Store(store.path).checkpoints()] == [first.id, second.id]
    sound(store)


LOCKS = ["refs/heads/timeline.lock", "index.lock", "HEAD.lock", "packed-refs.lock", "config.lock", "shallow.lock"]


@pytest.mark.parametrize("name", LOCKS)
def test_stale_locks_are_broken_with_one_notice(store: Store, name: str) -> None:
    checkpoint(store, {"a": b"1"})
    lock = Path(store.path, name)
    lock.touch()
    os.utime(lock, (time.time() - 60,) * 2)
    again = Store(store.path)
    checkpoint(again, {"a": b"2"})
    assert len(again.notices) == 1
    assert name in again.notices[0]
    assert not lock.exists()
    assert [c.number for c in again.checkpoints()] == [1, 2]


def test_a_fresh_lock_is_watched_for_two_seconds(store: Store) -> None:
    checkpoint(store, {"a": b"1"})
    lock = Path(store.path, "refs/heads/timeline.lock")
    lock.touch()
    start = time.monotonic()
    checkpoint(store, {"a": b"2"})
    assert 1.5 < time.monotonic() - start < 60
    assert len(store.notices) == 1
    lock.touch()
    os.utime(lock, (time.time() + 3600,) * 2)  # made by a clock that was wrong
    checkpoint(store, {"a": b"3"})
    assert len(store.notices) == 2


def test_a_lock_that_is_alive_is_left_alone(store: Store) -> None:
    checkpoint(store, {"a": b"1"})
    lock = os.path.join(store.path, "refs/heads/timeline.lock")
    over = os.path.join(os.path.dirname(store.path), "over")
    code = f"""
import os, time
with open({lock!r}, "x") as f:
    for n in range(35):
        f.write(str(n)); f.flush(); time.sleep(0.1)
open({over!r}, "x").close()
os.unlink({lock!r})
"""
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        while not os.path.exists(lock):
            time.sleep(0.01)
        notices: list[str] = []
        from checkpointer.workspace.shadow.refs import break_if_stale

        assert not break_if_stale(lock, notices, wait=False)
        assert break_if_stale(lock, notices, wait=True)
        assert os.path.exists(over)
        assert notices == [], "it went by itself"
        process.wait()


def test_a_foreign_directory_is_never_taken_for_ours(store: Store) -> None:
    refs = Refs(store.path, [])
    os.makedirs(os.path.join(store.path, "refs/ckpt/pending/x"))
    assert refs.read("refs/ckpt/pending") is None
    checkpoint(store, {"a": b"1"})
    with pytest.raises(Exception, match="refs/ckpt/pending"):
        store.set_pending(checkpoint(store, {"a": b"2"}, move=False))
    shutil.rmtree(os.path.join(store.path, "refs/ckpt/pending"))


def test_busy_names_what_is_in_the_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(store, {"a": b"1"})
    lock = Path(store.path, "refs/heads/timeline.lock")

    def back_again(verb: str, path: object) -> None:
        if verb == "create" and str(path).endswith("timeline.lock"):
            lock.touch()
            os.utime(lock, (time.time() - 60,) * 2)

    monkeypatch.setattr(disk, "probe", back_again)
    with pytest.raises(Busy, match=r"timeline\.lock"):
        checkpoint(store, {"a": b"2"})
