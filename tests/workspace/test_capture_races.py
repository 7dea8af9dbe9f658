"""What happens to files while they are captured ends in a whole capture or in an error, never in a smaller tree."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.captures import Place, same, standing, told

from checkpointer.errors import CaptureFailed, NoSpace
from checkpointer.workspace.odb.objects import MemorySink, Reopen
from checkpointer.workspace.reading.reader import Moved, read_file, read_link
from checkpointer.workspace.reading.table import Table


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


class Meddling(MemorySink):
    """Does something to the workspace while the n-th file is being read, and at every later one with `again`."""

    def __init__(self, place: Place, at: int, meddle: Callable[[int], None], again: bool = False) -> None:
        super().__init__(place.store.objects)
        self.left = at
        self.again = again
        self.meddle = meddle
        self.calls = 0

    def add_stream(self, fd: int, size: int, reopen: Reopen | None = None) -> tuple[bytes, int]:
        added = super().add_stream(fd, size, reopen)
        self.calls += 1
        if self.calls == self.left or (self.again and self.calls > self.left):
            self.meddle(self.calls)
        return added


def _tree(place: Place) -> None:
    for name in ("a/1", "a/2", "a/in/3", "b/4", "b/5", "c/deep/er/6", "c/side/7", "top"):
        place.write(name, name.encode())


MEDDLERS: dict[str, Callable[[bytes, int], None]] = {
    "a file is deleted": lambda root, n: _try(os.unlink, root + b"/a/2"),
    "a file is renamed": lambda root, n: _try(os.rename, root + b"/b/4", root + b"/b/0"),
    "a directory is deleted": lambda root, n: [_try(os.unlink, root + b"/a/in/3"), _try(os.rmdir, root + b"/a/in")],
    "a directory is renamed": lambda root, n: _try(os.rename, root + b"/c/deep", root + b"/c/other"),
    "another directory is renamed": lambda root, n: _try(os.rename, root + b"/c/side", root + b"/c/tidy"),
    "a directory moves up": lambda root, n: _try(os.rename, root + b"/a/in", root + b"/a-in"),
    "a file becomes a directory": lambda root, n: [_try(os.unlink, root + b"/b/5"), _try(os.mkdir, root + b"/b/5")],
    "a file becomes a fifo": lambda root, n: [_try(os.unlink, root + b"/b/5"), _try(os.mkfifo, root + b"/b/5")],
    "a directory becomes a file": lambda root, n: [
        _try(os.unlink, root + b"/a/in/3"),
        _try(os.rmdir, root + b"/a/in"),
        _try(_put, root + b"/a/in", b"now a file"),
    ],
    "a directory becomes a link": lambda root, n: [
        _try(os.rename, root + b"/a/in", root + b"/../in"),
        _try(os.mkdir, root + b"/../outside"),
        _try(_put, root + b"/../outside/secret", b"never ours"),
        _try(os.symlink, b"../../outside", root + b"/a/in"),
    ],
    "a file is replaced": lambda root, n: [
        _put(root + b"/new", b"new"),
        _try(os.replace, root + b"/new", root + b"/top"),
    ],
    "files come": lambda root, n: [_put(root + b"/a/%d-%d" % (d, n), b"come") for d in range(3)],
}


def _try(do: Callable[..., None], *arguments: object) -> None:
    with contextlib.suppress(OSError):
        do(*arguments)


def _put(path: bytes, data: bytes) -> None:
    with open(path, "wb") as f:
        f.write(data)


@pytest.mark.parametrize("what", MEDDLERS)
def test_the_workspace_changes_once_meanwhile(tmp_path: Path, what: str) -> None:
    for at in range(1, 9):
        place = Place(_fresh(tmp_path, at))
        _tree(place)
        before = standing(place.root)
        sink = Meddling(place, at, lambda n, root=place.root: MEDDLERS[what](root, n))  # type: ignore[misc]
        present = place.captured(table=Table(), sink=sink)
        after = standing(place.root)
        found = told(present.tree)
        for path in before.keys() & after.keys():
            if before[path] == after[path]:
                assert found.get(path) == before[path], f"{path!r} was there all the time"
        for path, node in found.items():
            assert node in (before.get(path), after.get(path)), path
        if what != "a directory moves up":  # what moves between directories may be met twice, or not at all
            contents = {node[2] for node in found.values() if node[0] == "file"}
            stayed = {n[2] for n in before.values() if n[0] == "file"} & {
                n[2] for n in after.values() if n[0] == "file"
            }
            assert stayed <= contents, "what stood there all the time, under whatever name"
        table = Table()
        place.captured(table=table, sink=Meddling(place, 1000, lambda n: None))
        same(place.save(table=table).tree, standing(place.root))
        place.close()


def _fresh(directory: Path, number: int) -> Path:
    made = directory / str(number)
    made.mkdir()
    return made


@pytest.mark.parametrize("what", MEDDLERS)
def test_the_workspace_goes_on_changing(place: Place, what: str) -> None:
    _tree(place)
    sink = Meddling(place, 1, lambda n: MEDDLERS[what](place.root, n), again=True)
    try:
        present = place.captured(table=Table(), sink=sink)
    except CaptureFailed:
        return
    found = told(present.tree)
    for path in (b"a/1", b"c", b"a"):
        assert path in found


@pytest.mark.parametrize("stays", [True, False])
def test_a_name_that_can_never_be_held_still(place: Place, stays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is something else each time it is opened: an error while it is there, and nothing when it is gone."""
    _tree(place)
    tries = 0

    def unsteady(name: str, *more: Any) -> Any:
        nonlocal tries
        if name != "4":
            return read_file(name, *more)
        tries += 1
        if tries == 5 and not stays:
            os.unlink(place.root + b"/b/4")
        raise Moved

    monkeypatch.setattr("checkpointer.workspace.reading.contents.read_file", unsteady)
    if stays:
        with pytest.raises(CaptureFailed, match="b/4 changes faster"):
            place.look()
    else:
        same(place.look().tree, standing(place.root))
    assert tries == 5


def test_a_file_that_is_written_to_all_the_time_is_torn(place: Place) -> None:
    path = place.write("log", b"begin\n")
    place.write("calm", b"1")

    def grow(n: int) -> None:
        with open(path, "ab") as f:
            f.write(b"line %d\n" % n)

    present = place.captured(table=Table(), sink=Meddling(place, 1, grow, again=True))
    assert present.torn == {b"log"}
    data = told(present.tree)[b"log"][2]
    assert data.startswith(b"begin\n")
    with open(path, "rb") as f:
        assert f.read().startswith(data)
    assert not present.uncovered
    table = Table()
    present = place.save(table=table)
    assert not present.torn
    same(present.tree, standing(place.root))


def test_a_file_that_calms_down_is_not_torn(place: Place) -> None:
    path = place.write("log", b"begin\n")
    calls = []

    def grow(n: int) -> None:
        calls.append(n)
        if len(calls) <= 2:
            _put(path, b"written %d times" % n)

    present = place.captured(table=Table(), sink=Meddling(place, 1, grow, again=True))
    assert not present.torn
    assert told(present.tree)[b"log"][2] == b"written 2 times"


def test_a_file_written_by_another_process(place: Place) -> None:
    path = place.write("busy", b"0" * 4096)
    place.write("calm", b"1")
    child = os.fork()
    if child == 0:
        with open(path, "r+b", buffering=0) as f:
            while True:
                for letter in b"abcdef":
                    f.seek(0)
                    f.write(bytes([letter]) * 4096)
    try:
        time.sleep(0.05)
        for _ in range(5):
            tree = place.save().tree
            assert len(told(tree)[b"busy"][2]) == 4096
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    same(place.save().tree, standing(place.root))


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EIO, CaptureFailed), (errno.ENOSPC, NoSpace), (errno.EMFILE, CaptureFailed)]
)
def test_an_error_of_the_disk_is_an_error_of_the_capture(place: Place, number: int, kind: type[Exception]) -> None:
    _tree(place)
    place.save()
    known = Table.load(place.table_path)
    before = (known.header, dict(known.records))
    place.write("a/new", b"new")

    def fail(n: int) -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(kind):
        place.captured(table=known, sink=Meddling(place, 1, fail))
    assert (known.header, known.records) == before


def test_nothing_that_could_block_is_opened(place: Place) -> None:
    os.mkfifo(place.root + b"/p")
    os.symlink(b"p", place.root + b"/l")
    place.write("regular")
    os.symlink(b"regular", place.root + b"/k")
    fd = os.open(place.root, os.O_RDONLY)
    sink = MemorySink(place.store.objects)
    try:
        for name in ("p", "l", "k", "missing", "."):
            with pytest.raises(Moved):
                read_file(name, fd, sink)
        for name in ("p", "missing"):
            with pytest.raises(Moved):
                read_link(name, fd, sink)
    finally:
        os.close(fd)


def test_what_was_looked_at_can_be_read_without_being_stored(place: Place) -> None:
    data = os.urandom(3 << 20)
    place.write("big", data)
    place.write("small", b"s")
    packs = sorted(os.listdir(place.keeping / "shadow.git" / "objects" / "pack"))
    present = place.look()
    assert b"".join(present.tree.stream(b"big")) == data
    assert present.tree.read(b"small") == b"s"
    assert sorted(os.listdir(place.keeping / "shadow.git" / "objects" / "pack")) == packs
