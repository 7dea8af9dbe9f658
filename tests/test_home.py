"""Which store a directory has: found upward, followed when moved, made only where a workspace may be."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.machine import needs_root, tmpfs
from harness.world import World

from checkpointer import disk, home
from checkpointer.errors import Busy, NewerFormat, ReadOnlyStore, RefusedRoot, Usage
from checkpointer.lock import Lock
from checkpointer.workspace import facts, guard


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for projects, with a home and stores of its own."""
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CKPT_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CKPT_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path / "work"


def project(root: Path, name: str = "p", files: int = 4) -> Path:
    path = root / name
    path.mkdir(parents=True)
    for i in range(files):
        (path / f"f{i}").write_text(f"{name} {i}\n")
    (path / "sub").mkdir()
    (path / "sub" / "x").write_text("x\n")
    return path


def saved(path: Path) -> Path:
    """Make a store and one checkpoint; the store's directory."""
    workspace = home.make(os.fsencode(path))
    workspace.save()
    return workspace.directory


def place(path: Path) -> home.Place:
    found = home.locate(os.fsencode(path))
    assert found is not None
    return found


def test_nothing_is_made_by_looking(root: Path) -> None:
    path = project(root)
    assert home.locate(os.fsencode(path)) is None
    assert home.find(os.fsencode(path)) is None
    assert home.places() == []
    assert not home.home_directory().exists()


def test_a_store_is_private_whatever_the_umask(root: Path) -> None:
    for mask in (0o000, 0o077, 0o777):
        path = project(root, f"p{mask}")
        old = os.umask(mask)
        try:
            saved(path)
        finally:
            os.umask(old)
    for where, directories, files in os.walk(home.home_directory()):
        for name in directories:
            assert stat.S_IMODE(os.lstat(os.path.join(where, name)).st_mode) == 0o700, name
        for name in files:
            assert stat.S_IMODE(os.lstat(os.path.join(where, name)).st_mode) & 0o077 == 0, name


def test_a_store_is_found_from_below_and_in_every_spelling(root: Path) -> None:
    path = project(root)
    (root / "link").symlink_to(path)
    directory = saved(path)
    for spelling in (path, path / "sub", root / "link", root / "link" / "sub" / "..", Path(f"//{path}")):
        assert place(spelling)[:3] == (os.fsencode(path), directory, "here")
    assert home.locate(os.fsencode(root)) is None


def test_making_twice_is_one_store(root: Path) -> None:
    path = project(root)
    (root / "link").symlink_to(path)
    assert saved(path) == saved(root / "link")
    assert len(home.places()) == 1


def test_a_search_ends_at_a_git(root: Path) -> None:
    outer = project(root)
    saved(outer)
    inner = project(outer, "inner")
    (inner / ".git").mkdir()
    assert home.locate(os.fsencode(inner / "sub")) is None
    (inner / ".git").rmdir()
    (inner / ".git").write_text("gitdir: elsewhere\n")
    assert home.locate(os.fsencode(inner)) is None
    (inner / ".git").unlink()
    assert place(inner).root == os.fsencode(outer)
    (outer / ".git").mkdir()
    assert place(outer / "sub").root == os.fsencode(outer)


def test_a_search_never_takes_the_home(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = root.parent / "home"
    home.make(os.fsencode(base), force_root=True)
    below = base / "plain"
    below.mkdir()
    assert home.locate(os.fsencode(below)) is None
    assert place(base).root == os.fsencode(base)
    assert [p.root for p in home.nearby(os.fsencode(below))] == [os.fsencode(base)]


@needs_root
def test_a_search_ends_at_a_mount(root: Path) -> None:
    outer = project(root)
    saved(outer)
    with tmpfs(outer / "mounted", "1m") as mounted:
        (mounted / "d").mkdir()
        assert home.locate(os.fsencode(mounted / "d")) is None


def test_refused_roots_make_nothing(root: Path) -> None:
    with pytest.raises(RefusedRoot):
        home.make(os.fsencode(root.parent / "home"))
    with pytest.raises(Usage):
        home.make(os.fsencode(root / "nosuch"))
    (root / "file").touch()
    with pytest.raises(Usage):
        home.make(os.fsencode(root / "file"))
    assert not home.home_directory().exists()


def test_a_workspace_that_is_gone_still_has_its_store(root: Path) -> None:
    path = project(root)
    directory = saved(path)
    shutil.rmtree(path)
    assert place(path)[:3] == (os.fsencode(path), directory, "gone")
    assert place(path / "sub").root == os.fsencode(path)


def test_a_directory_made_anew_keeps_the_store_and_says_so(root: Path) -> None:
    path = project(root)
    directory = saved(path)
    shutil.rmtree(path)
    project(root)
    assert place(path)[:3] == (os.fsencode(path), directory, "remade")
    home.accept(home.open_place(place(path)))
    assert place(path).state == "here"


def test_an_emptied_directory_is_the_same_one(root: Path) -> None:
    path = project(root)
    saved(path)
    subprocess.run("rm -rf ./* && echo new > f0", shell=True, cwd=path, check=True)
    assert place(path).state == "here"


def test_a_store_follows_a_moved_workspace(root: Path) -> None:
    path = project(root)
    directory = saved(path)
    moved = root / "elsewhere" / "q"
    moved.parent.mkdir()
    path.rename(moved)
    found = place(moved / "sub")
    assert found == (os.fsencode(moved), directory, "moved", os.fsencode(path))
    assert home.open_place(found, read_only=True).store.tip() is not None
    assert directory.exists()  # looking moves nothing
    workspace = home.open_place(found)
    assert workspace.directory.name == home.store_name(os.fsencode(moved))
    assert place(moved)[:3] == (os.fsencode(moved), workspace.directory, "here")
    assert len(home.places()) == 1
    assert not workspace.save().created
    assert home.make(os.fsencode(project(root))).store.tip() is None  # the old path is free again


def test_making_follows_too(root: Path) -> None:
    path = project(root)
    saved(path)
    path.rename(root / "q")
    assert home.make(os.fsencode(root / "q")).store.tip() is not None


def test_a_store_does_not_follow_on_a_hint_alone(root: Path) -> None:
    path = project(root)
    directory = saved(path)
    known = facts.load(directory)
    other = project(root, "other")
    st = other.stat()
    known.dev, known.ino, known.born = st.st_dev, st.st_ino, 0  # as if the inode had been given away at once
    facts.save(directory, known)
    shutil.rmtree(path)
    assert home.locate(os.fsencode(other)) is None
    workspace = home.make(os.fsencode(other))
    assert workspace.directory != directory
    assert any(str(path) in n for n in workspace.notices)


def test_a_store_does_not_follow_a_copy(root: Path) -> None:
    path = project(root)
    saved(path)
    shutil.copytree(path, root / "copy")
    shutil.rmtree(path)
    assert home.locate(os.fsencode(root / "copy")) is None


def test_a_store_does_not_follow_while_the_old_path_stands(root: Path) -> None:
    path = project(root)
    saved(path)
    path.rename(root / "q")
    project(root)
    assert home.locate(os.fsencode(root / "q")) is None


def test_a_store_is_found_although_its_facts_are_damaged(root: Path) -> None:
    path = project(root)
    directory = saved(path)
    for data in (b"", b"\0" * 50, b"garbage = [", None):
        if data is None:
            (directory / "workspace.toml").unlink()
        else:
            (directory / "workspace.toml").write_bytes(data)
        assert place(path).directory == directory
        assert home.open_place(place(path)).store.tip() is not None


def test_a_store_of_a_newer_format_is_named(root: Path) -> None:
    path = project(root)
    directory = saved(path)
    known = facts.load(directory)
    known.format = 99
    facts.save(directory, known)
    with pytest.raises(NewerFormat):
        home.find(os.fsencode(path))


def test_a_store_that_a_kill_left_half_made_is_taken_up(root: Path) -> None:
    path = project(root)

    class Killed(BaseException):
        pass

    for n in range(1, 60):
        seen = 0

        def probe(verb: str, at: object, n: int = n) -> None:
            nonlocal seen
            seen += 1
            if seen == n:
                raise Killed

        disk.probe = probe
        try:
            home.make(os.fsencode(path))
        except Killed:
            pass
        else:
            break
        finally:
            disk.probe = None
        assert home.make(os.fsencode(path)).store.tip() is None
        assert len(home.places()) == 1
        shutil.rmtree(home.home_directory())
    assert n > 5


def test_forget_deletes_the_store_and_nothing_else(root: Path) -> None:
    one, two = project(root, "one"), project(root, "two")
    kept, gone = saved(one), saved(two)
    (gone / "runs" / "r").mkdir(parents=True)
    (gone / "runs" / "r" / "link").symlink_to(one)
    found = home.exactly(os.fsencode(two))
    assert found is not None
    home.forget(found)
    assert not gone.exists()
    assert kept.exists()
    assert (one / "f0").exists()
    assert (two / "f0").exists()
    assert home.exactly(os.fsencode(two / "sub")) is None


def test_forget_waits_for_nobody_alive(root: Path) -> None:
    directory = saved(project(root))
    (directory / "runs" / "r").mkdir(parents=True)
    with Lock(directory / "runs" / "r" / "lock").held("a run"), pytest.raises(Busy):
        home.forget(home.places()[0])
    assert directory.exists()


def test_a_deletion_cut_short_is_finished(root: Path) -> None:
    directory = saved(project(root))

    class Killed(BaseException):
        pass

    def probe(verb: str, at: object) -> None:
        if verb == "remove":
            raise Killed

    disk.probe = probe
    try:
        with pytest.raises(Killed):
            home.forget(home.places()[0])
    finally:
        disk.probe = None
    assert not directory.exists()
    assert home.places() == []
    assert list(home.stores().iterdir())
    home.sweep()
    assert not list(home.stores().iterdir())


def test_where_nothing_may_be_written(
    nobody: World, as_nobody: Callable[[Callable[[], None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(nobody.home))
    monkeypatch.setenv("CKPT_HOME", str(nobody.base / "theirs"))
    (nobody.base / "theirs").mkdir(mode=0o555)

    def act() -> None:
        with pytest.raises(ReadOnlyStore):
            home.make(os.fsencode(nobody.root))
        assert home.places() == []

    as_nobody(act)


def test_without_a_home_the_store_is_beside_the_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "CKPT_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(guard, "home_directories", lambda environ=None: [])
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert home.home_directory() == tmp_path / f"ckpt-{os.getuid()}" / "state" / "ckpt"


def test_names_of_stores() -> None:
    assert home.store_name(b"/a/shop").startswith("shop-")
    assert home.store_name(b"/a/shop") != home.store_name(b"/b/shop")
    for odd in (b"/", b"/a/caf\xe9 bar\n", b"/" + b"x" * 300, "/能".encode()):
        name = home.store_name(odd)
        assert name.isascii()
        assert len(name) < 80
        assert "/" not in name
