"""The repository's directory: private, made whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from harness.shadow import checkpoint, git, sound

from checkpointer import disk
from checkpointer.workspace.shadow import repository
from checkpointer.workspace.shadow.store import Store

HARNESS = Path(__file__).parents[1]


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        store = Store.create(tmp_path / "shadow.git")
        checkpoint(store, {"a": b"1"})
        store.pin(1, "x")
        store.set_pending(checkpoint(store, {"a": b"2"}, move=False))
        store.drop_pending()
        if umask == 0:
            git(store, "gc", "-q")
    finally:
        os.umask(old)
    checked = 0
    for place, directories, names in os.walk(tmp_path):
        for name in (*directories, *names):
            st = os.lstat(os.path.join(place, name))
            usual = {0o700} if stat.S_ISDIR(st.st_mode) else {0o600, 0o400}
            assert stat.S_IMODE(st.st_mode) in usual, (name, oct(st.st_mode))
            checked += 1
    assert checked > 20


def test_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def stop(verb: str, path: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt

    for n in range(200):
        left = n
        target = tmp_path / f"{n}" / "shadow.git"
        target.parent.mkdir()
        monkeypatch.setattr(disk, "probe", stop)
        try:
            Store.create(target)
        except KeyboardInterrupt:
            count += 1
        else:
            break
        finally:
            monkeypatch.setattr(disk, "probe", None)
        if target.exists():
            checkpoint(Store(target), {"a": b"1"})
            sound(target)
        assert not [p for p in target.parent.iterdir() if p.name.endswith(".tmp")]
    assert count > 10
    assert Store.create(target).tip() is None, "an existing one is only opened"


def test_two_may_make_it_at_once(tmp_path: Path) -> None:
    for _ in range(20):
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                repository.make(str(tmp_path / "shadow.git"))
                os._exit(0)
            children.append(child)
        assert [os.waitpid(c, 0)[1] for c in children] == [0] * 4
        sound_path = tmp_path / "shadow.git"
        assert os.listdir(tmp_path) == ["shadow.git"]
        assert (sound_path / "HEAD").read_bytes() == repository.HEAD
        shutil.rmtree(sound_path)
