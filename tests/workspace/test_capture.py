"""Whatever stands in a workspace is in its capture, byte for byte and mode for mode."""

from __future__ import annotations

import gc
import os
import resource
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.captures import Place, is_root, permissions, same, standing, told
from harness.machine import descriptors, tmpfs

from checkpointer.errors import CaptureFailed


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def _deep(root: bytes, levels: int) -> int:
    """A directory whose path is longer than any system call takes; returns the length of its path."""
    fd = os.open(root, os.O_RDONLY)
    name = b"d" * 100
    for level in range(levels):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
        if level % 10 == 0:
            os.mkdir(b"side", dir_fd=fd)
            os.close(os.open(b"side/f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(os.open(b"bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    return levels * (len(name) + 1)


def test_an_empty_workspace_has_a_tree(place: Place) -> None:
    present = place.save()
    assert told(present.tree) == {b"": ("dir", permissions(place.root), b"")}
    assert present.files == 0


def test_everything_there_can_be(place: Place) -> None:
    for name in (
        b" lead",
        b"tab\there",
        b"new\nline",
        b"caf\xe9",
        b"-n",
        b":(top)x",
        b"a*b",
        b'q"q',
        b"\xff\xfe",
        b"n" * 255,
    ):
        place.write(name, name)
    for name in (
        b"Foo.py",
        b"foo.py",
        b".gitmodules",
        b".GIT",
        b"git~1",
        b"sub/.gitattributes",
        b"ckpt%2Egit",
        b"\\",
        b"...",
    ):
        place.write(name, name + b"!")
    place.write("run.sh", b"#!/bin/sh\n", 0o755)
    place.write("odd", b"", 0o7711 if is_root() else 0o711)
    place.write("private/key", b"secret", 0o400)
    os.chmod(place.root + b"/private", 0o700)
    place.write("data", bytes(range(256)) * 9000)
    os.link(place.root + b"/data", place.root + b"/data2")
    os.symlink(b"no/such\xff", place.root + b"/link")
    os.symlink(b"private", place.root + b"/dirlink")
    os.makedirs(place.root + b"/empty/inner")
    os.chmod(place.root + b"/empty/inner", 0o711)
    os.makedirs(place.root + b"/pipes")
    os.mkfifo(place.root + b"/pipes/p", 0o640)
    with open(place.root + b"/sparse", "wb") as f:
        f.truncate(5 << 20)
    expected = standing(place.root)
    present = place.save()
    same(present.tree, expected)
    assert not present.uncovered
    assert not present.torn
    for path in (b"data", b"link", b"pipes/p", b"private", b"empty/inner", b""):
        st = os.lstat(os.path.join(place.root, path)) if path else os.stat(place.root)
        seen = present.signature(path)
        assert seen is not None
        assert seen == (st.st_mode, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    assert present.signature(b"missing") is None


def test_paths_longer_than_the_system_takes(place: Place) -> None:
    length = _deep(place.root, 120)
    assert length > 2 * 4096
    with descriptors(96):
        present = place.save()
        again = place.save()
        fresh = place.look()
    assert again.bytes_read == 0
    assert again.root == fresh.root == present.root
    same(present.tree, standing(place.root))


def test_few_descriptors_for_many_directories(place: Place) -> None:
    for i in range(300):
        place.write(f"a{i % 7}/b{i % 31}/c{i}/f", str(i).encode())
    with descriptors(60):
        present = place.save(jobs=3)
        gc.collect()  # what other tests left open is closed now, and not while it is counted
        opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        place.look()
        if opened:
            assert len(os.listdir("/proc/self/fd")) == opened
    same(present.tree, standing(place.root))


def test_git_directories_of_every_form_are_left_alone(place: Place) -> None:
    subprocess.run(["git", "init", "-q", place.path / "repo"], check=True)
    place.write("repo/file", b"mine")
    place.write("other/deep/file", b"mine")
    place.write("other/.git", b"gitdir: /somewhere/else\n")
    os.makedirs(place.root + b"/linked")
    os.symlink(b"../repo/.git", place.root + b"/linked/.git")
    place.write("linked/file", b"mine")
    place.write("plain/.git", b"just a file of this name\n")
    place.write("bare.git/HEAD", b"ref: refs/heads/main\n")
    for present in (place.save(), place.save(), place.look()):
        paths = set(told(present.tree))
        assert {b"repo/file", b"other/deep/file", b"linked/file", b"plain/.git", b"bare.git/HEAD"} <= paths
        assert not any(p.startswith((b"repo/.git", b"other/.git", b"linked/.git")) for p in paths)
    place.write("plain/.git", b"gitdir: x\n")
    assert b"plain/.git" not in told(place.save().tree)
    place.write("plain/.git", b"a file again\n")
    assert b"plain/.git" in told(place.save().tree)


def test_the_store_inside_the_workspace_is_never_captured(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.root = os.fsencode(tmp_path)
    place.path = tmp_path
    place.write("w/mine", b"1")
    for _ in range(3):
        present = place.save()
        assert set(told(present.tree)) == {b"", b"w", b"w/mine"}
        assert not present.uncovered
    place.close()


def test_what_cannot_be_covered_is_listed(place: Place) -> None:
    place.write("a", b"1")
    with socket.socket(socket.AF_UNIX) as s:
        here = os.getcwd()
        os.chdir(place.root)
        s.bind("app.sock")
        os.chdir(here)
        place.write("big", b"b" * 2000)
        if is_root():
            os.mknod(place.root + b"/null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        present = place.save(limit=1000)
    expected = {b"app.sock": "socket", b"big": "too-large"} | ({b"null": "device"} if is_root() else {})
    assert dict(present.uncovered) == expected
    assert b"big" not in told(present.tree)
    assert place.save(limit=1000).root == present.root
    assert b"big" in told(place.save(limit=1000, must_cover=[b"big"]).tree)
    place.write("big", b"c" * 3000)
    assert told(place.save(limit=1000).tree)[b"big"][2] == b"c" * 3000, "what was covered once stays covered"


def test_another_file_system_is_listed_and_not_entered(place: Place) -> None:
    place.write("keep", b"1")
    place.write("mnt/below", b"2")
    first = place.save()
    done = subprocess.run(["mount", "-t", "tmpfs", "none", place.path / "mnt"], capture_output=True)
    if done.returncode:
        pytest.skip("may not mount here")
    try:
        place.write("mnt/other", b"3")
        second = place.save()
        fresh = place.look()
    finally:
        subprocess.run(["umount", place.path / "mnt"], check=True)
    assert dict(second.uncovered) == {b"mnt": "other-filesystem"}
    assert told(second.tree)[b"mnt/below"] == told(first.tree)[b"mnt/below"], "what was covered stays as it was"
    assert b"mnt/other" not in told(second.tree)
    assert fresh.root == second.root
    assert not place.save().uncovered


def test_layers_of_one_overlay_are_one_file_system(place: Place) -> None:
    """Without inode numbers to spare an overlay tells other devices for files of its lower layers."""
    lower = place.keeping / "lower"
    with tmpfs(lower, "4m"):
        for name in ("a", "d/b", "d/c"):
            (lower / name).parent.mkdir(exist_ok=True)
            (lower / name).write_text(name)
        (place.keeping / "upper").mkdir()
        (place.keeping / "work").mkdir()
        options = f"lowerdir={lower},upperdir={place.keeping}/upper,workdir={place.keeping}/work,xino=off"
        done = subprocess.run(["mount", "-t", "overlay", "-o", options, "none", place.path], capture_output=True)
        if done.returncode:
            pytest.skip("may not mount an overlay here")
        try:
            place.write("d/new", b"upper")
            assert len({os.lstat(place.path / "d" / n).st_dev for n in ("b", "new")}) > 1, "the test needs two devices"
            for _ in range(2):
                present = place.save()
                same(present.tree, standing(place.root))
                assert not present.uncovered
            time.sleep(0.15)
            place.save()
            assert place.save().bytes_read == 0
            (place.keeping / "single").write_text("of another file system")
            one = place.write("d/mounted", b"")
            subprocess.run(["mount", "--bind", place.keeping / "single", one], check=True)
            try:
                assert dict(place.save().uncovered) == {b"d/mounted": "other-filesystem"}
            finally:
                subprocess.run(["umount", one], check=True)
        finally:
            place.close()
            subprocess.run(["umount", place.path], check=True)


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A directory that every user may write in; not below pytest's own, which is root's alone."""
    with tempfile.TemporaryDirectory(prefix="ckpt-test-") as directory:
        os.chmod(directory, 0o777)
        yield Path(directory)


def test_unreadable_things(everybodys: Path, as_nobody: Callable[[Callable[[], Any]], None]) -> None:
    def run() -> None:
        place = Place(everybodys)
        place.write("a", b"1")
        place.write("never", b"no", 0)
        place.write("d/in/f", b"2", 0o640)
        os.mkdir(place.root + b"/d/empty")
        os.chmod(place.root + b"/d/empty", 0o700)
        os.mkfifo(place.root + b"/d/p")
        place.write("half/f", b"3")
        place.write("other/g", b"4")
        first = place.save()
        before = told(first.tree)
        assert dict(first.uncovered) == {b"never": "unreadable"}
        assert b"never" not in before
        os.chmod(place.root + b"/a", 0)
        os.chmod(place.root + b"/d", 0)
        os.chmod(place.root + b"/half", 0o400)  # its names can be listed, nothing else
        place.write("new", b"5")
        os.mkdir(place.root + b"/shut")
        os.chmod(place.root + b"/shut", 0)
        for second in (place.save(), place.save(), place.look()):
            now = told(second.tree)
            assert set(now) == set(before) | {b"new"}
            for path, node in before.items():
                changed = {b"a": 0, b"d": 0, b"half": 0o400}.get(path)
                assert now[path] == (node if changed is None else (node[0], changed, node[2])), path
            unreadable = {b"never", b"a", b"d", b"half", b"shut"}
            assert dict(second.uncovered) == dict.fromkeys(unreadable, "unreadable")
        must = place.save(must_cover=[b"d/in/f", b"never", b"a", b"half/f"])
        now = told(must.tree)
        assert now[b"never"] == ("file", 0, b"no")
        assert now[b"d/in/f"] == before[b"d/in/f"]
        assert permissions(place.root + b"/never") == 0
        assert permissions(place.root + b"/d") == 0
        assert permissions(place.root + b"/half") == 0o400
        assert dict(must.uncovered) == {b"shut": "unreadable"}
        signature = must.signature(b"never")
        assert signature is not None
        assert signature.ctime_ns == os.lstat(place.root + b"/never").st_ctime_ns
        os.chmod(place.root + b"/d", 0o755)
        os.chmod(place.root + b"/half", 0o755)
        os.chmod(place.root + b"/shut", 0o755)
        third = place.save()
        assert set(told(third.tree)) >= set(now)
        assert not third.uncovered or dict(third.uncovered) == {b"never": "unreadable", b"a": "unreadable"}

    as_nobody(run)


def test_a_file_of_somebody_else_that_must_be_covered(
    everybodys: Path, as_nobody: Callable[[Callable[[], Any]], None]
) -> None:
    if not is_root():
        pytest.skip("needs a file of another user")
    place = Place(everybodys)
    place.write("theirs", b"1", 0o600)
    place.save()
    for where, _, files in os.walk(everybodys):
        os.chown(where, 65534, 65534)
        for name in files:
            os.chown(os.path.join(where, name), 65534, 65534)
    os.chown(place.root + b"/theirs", 0, 0)
    place.close()

    def run() -> None:
        mine = Place.__new__(Place)
        mine.__dict__.update(place.__dict__)
        from checkpointer.workspace.shadow.store import Store

        mine.store = Store(place.keeping / "shadow.git")
        kept = mine.save()
        assert dict(kept.uncovered) == {b"theirs": "unreadable"}
        assert told(kept.tree)[b"theirs"] == ("file", 0o600, b"1")
        with pytest.raises(CaptureFailed, match="theirs"):
            mine.save(must_cover=[b"theirs"])

    as_nobody(run)


def test_large_files_are_streamed(place: Place) -> None:
    size = 300 << 20
    with open(place.root + b"/large", "wb") as f:
        f.truncate(size)
        f.seek(100 << 20)
        f.write(os.urandom(1 << 20))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            present = place.save()
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            unit = 1024 if os.uname().sysname == "Linux" else 1
            status = 0 if present.bytes_read == size and grown * unit < 48 << 20 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    tree = place.base()
    assert tree is not None
    assert sum(len(chunk) for chunk in tree.stream(b"large")) == size


def test_a_missing_workspace_is_an_error(place: Place) -> None:
    place.save()
    os.rmdir(place.root)
    with pytest.raises(CaptureFailed):
        place.save()


def test_usual_modes_are_chosen_once(place: Place) -> None:
    for i in range(5):
        place.write(f"d{i}/f{i}", b"1", 0o640)
        place.write(f"d{i}/x", b"1", 0o750)
        os.chmod(place.root + b"/d%d" % i, 0o750)
    place.write("plain", b"1", 0o644)
    first = place.save()
    assert first.tree.extras.usual_modes() == (0o640, 0o750, 0o750)
    assert set(first.tree.extras.modes) == {b"plain", b""} - ({b""} if permissions(place.root) == 0o750 else set())
    for i in range(5):
        os.chmod(place.root + b"/d%d/f%d" % (i, i), 0o600)
    second = place.save()
    assert second.tree.extras.usual_modes() == (0o640, 0o750, 0o750)
    same(second.tree, standing(place.root))
    assert place.look().root == second.root
