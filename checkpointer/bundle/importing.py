"""A bundle verified and made into a store of its own, in one step: before it there is nothing, after it all of it.

The run keeps its names and numbers, so it cannot come to stand among others: its store is that of a directory which
need not exist, and in which nothing is ever written. Such a store can be looked at, and nothing more.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from checkpointer import disk, home, places
from checkpointer.bundle import archive, manifest
from checkpointer.bundle.exporting import same_log
from checkpointer.bundle.manifest import Manifest
from checkpointer.bundle.proving import prove
from checkpointer.errors import Damaged, IllegalEvent, NewerFormat, NoSpace, Usage
from checkpointer.events import AnyEvent
from checkpointer.log import JsonlLog, JsonlRuns
from checkpointer.places import IMPORTED, Place, imported
from checkpointer.record import OBJECTS, Record
from checkpointer.state import fold
from checkpointer.workspace import guard
from checkpointer.workspace.entry import show, to_json
from checkpointer.workspace.facts import Facts
from checkpointer.workspace.shadow.stretch import begin, lead_to

_MARGIN = 1 << 20


class Imported(NamedTuple):
    """`made` is False where the very same run stood there already."""

    place: Place
    manifest: Manifest
    made: bool


def bring(source: bytes, root: bytes) -> Imported:
    """Verify a bundle, and make the store of the directory `root` of it.

    Raises `Usage` where `root` has another store, or may not be a workspace, `Damaged` where the bundle is not whole or
    not what an export writes, `NewerFormat`, `NoSpace`, `Failed`; then nothing was written.
    """
    root = guard.real(root)
    with _opened(source) as file, _refusals(source):
        reader = archive.Reader(file)
        head = _manifest(reader)
        said = manifest.decode(head)
        sizes = [len(head), len(manifest.sum_of(head)), *(size for size, _ in said.members.values())]
        if archive.length(sizes) != os.fstat(file.fileno()).st_size:
            raise Damaged(f"it is not as long as its {manifest.NAME} says: cut short, or something was added")
        there = _standing(root, said)
        if there is not None:
            return Imported(there, said, made=False)
        _must_be_free(root)
        with home.planting(root) as directory:
            _room(directory, sum(sizes))
            _unpack(reader, said, directory)
            _make(directory, root, said, hashlib.sha256(head).hexdigest())
            directory = home.planted(directory, root)
    return Imported(Place(root, directory, "imported"), said, made=True)


@contextlib.contextmanager
def _opened(source: bytes) -> Iterator[BinaryIO]:
    try:
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as e:
        raise Usage(f"{show(source)} cannot be read: {e.strerror}", kept="nothing was written") from e
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Usage(f"{show(source)} is not a file", kept="nothing was written")
    with io.FileIO(fd, "rb") as raw:
        yield io.BufferedReader(raw, archive.CHUNK)


@contextlib.contextmanager
def _refusals(source: bytes) -> Iterator[None]:
    """What is wrong with a bundle, said of the file."""
    try:
        yield
    except IllegalEvent as e:
        raise Damaged(
            f"{show(source)} is refused: its log makes no sense: {e.message}", kept="nothing was written"
        ) from e
    except NewerFormat:
        raise
    except Damaged as e:
        raise Damaged(f"{show(source)} is refused: {e.message}", kept="nothing was written", **e.details) from e
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as e:
        # What was made to look like ours, and is not: no reader of a store has to expect that.
        raise Damaged(f"{show(source)} is refused: no export writes this: {e}", kept="nothing was written") from e


def _manifest(reader: archive.Reader) -> bytes:
    name, size = reader.head()
    if name != manifest.NAME:
        raise Damaged(f"it does not begin with {manifest.NAME}")
    if size > manifest.LIMIT:
        raise Damaged(f"its {manifest.NAME} is larger than any that we write")
    head = b"".join(reader.contents(size))
    if reader.head() != (manifest.SUM, len(manifest.sum_of(head))):
        raise Damaged(f"{manifest.SUM} does not follow its {manifest.NAME}")
    if b"".join(reader.contents(len(manifest.sum_of(head)))) != manifest.sum_of(head):
        raise Damaged(f"{manifest.NAME} is not what its digest says")
    return head


def _standing(root: bytes, said: Manifest) -> Place | None:
    """The store of `root`, where it holds just this run. Raises `Usage` where it is another one."""
    place = home.exactly(root)
    if place is None:
        return None
    runs = JsonlRuns(os.fspath(place.directory / "runs"))
    if imported(place.directory) is not None and runs.runs() == [said.run] and same_log(runs.log(said.run), said):
        return place
    raise Usage(
        f"{show(root)} has a store already, which holds something else",
        kept="nothing was written",
        next=("ckpt import FILE DIR with another DIR, which need not exist", f"ckpt -C {show(root)} runs"),
    )


def _must_be_free(root: bytes) -> None:
    """Raises `Usage` where something stands at `root`: it would look like the run's files, and they are not."""
    guard.refuse(root, os.fsencode(places.stores()))
    if os.path.lexists(root) and not (os.path.isdir(root) and not os.listdir(root)):
        raise Usage(
            f"{show(root)} is there and is not empty: the run's files were never in it",
            kept="nothing was written",
            next=("ckpt import FILE DIR with a DIR that is not there",),
        )


def _room(directory: Path, size: int) -> None:
    found = os.statvfs(directory)
    if found.f_bavail * found.f_frsize < size + _MARGIN:
        raise NoSpace(f"this needs {size:,} bytes where stores lie, and there are fewer", kept="nothing was written")


def _unpack(reader: archive.Reader, said: Manifest, directory: Path) -> None:
    run = directory / "runs" / said.run
    for made in (directory / "runs", run, run / "objects", directory / "packs"):
        disk.make_directory(made)
    for name, (size, digest) in said.members.items():
        found = reader.head()
        if found != (name, size):
            raise Damaged(f"{found[0]} stands where {name} must, or has another size")
        # A pack is named by its content, which is verified further on.
        target = directory / "packs" / f"pack-{digest[:40]}.pack" if name == manifest.PACK else run / name
        _write(target, reader.contents(size), name, digest)
    reader.end()
    for made in (run / "objects", run, directory / "runs"):
        disk.sync_directory(made)


def _write(path: Path, chunks: Iterator[bytes], name: str, digest: str) -> None:
    h = hashlib.sha256()
    fd = disk.create(path)
    try:
        for chunk in chunks:
            h.update(chunk)
            disk.write_all(fd, chunk)
        disk.sync(fd, path)
    finally:
        os.close(fd)
    if h.hexdigest() != digest:
        raise Damaged(f"{name} is not what its digest says")


def _make(directory: Path, root: bytes, said: Manifest, digest: str) -> None:
    """All that makes a store of what was unpacked. Raises `Damaged`, `IllegalEvent`."""
    turn = _check_log(JsonlLog(os.fspath(directory / "runs" / said.run)), said)
    number = int(said.handle[1:]) if re.fullmatch(r"r[0-9]{1,12}", said.handle) else 0
    try:
        history = begin(os.fspath(directory), lambda into: _bring(directory, into))
    except Damaged as e:
        raise Damaged(re.sub(r"pack-[0-9a-f]{40}(\.pack)?", manifest.PACK, e.message)) from e
    stretch = prove(history.objects, said)
    labels = {one.number: one.labels for one in (*said.alone, *said.chain) if one.labels}
    lead_to(history, Facts(root, last_turn=turn, last_run=number, had_run=True), stretch, said.shallow, labels)
    if said.rewritten:
        disk.replace(directory / "rewritten", "".join(f"{a} {b}\n" for a, b in said.rewritten.items()).encode())
    note = {
        "run": said.run,
        "handle": said.handle,
        "workspace": to_json(said.workspace),
        "exported": said.at,
        "manifest": digest,
    }
    disk.replace(directory / IMPORTED, json.dumps(note, indent=1).encode() + b"\n")


def _bring(directory: Path, into: str) -> None:
    for pack in sorted((directory / "packs").iterdir()):
        disk.rename(pack, os.path.join(into, pack.name))
    disk.sync_directory(into)
    disk.remove_directory(directory / "packs")


def _check_log(log: JsonlLog, said: Manifest) -> int:
    """Is this log whole, and does it fit the manifest? Its highest number of a turn."""
    needed: dict[str, int] = {}
    known = {one.number: one.commit for one in (*said.alone, *said.chain)}
    turn = 0
    records = log.read()

    def each() -> Iterator[AnyEvent]:
        nonlocal turn
        for record in records:
            needed.update(_beside(record))
            turn = max(turn, getattr(record.event, "turn", None) or 0)
            commit = record.event.commit
            if commit is not None and commit.kind == "shadow" and commit.number is not None:
                there = known.get(commit.number)
                if there is None and commit.number not in said.missing:
                    raise Damaged(f"its log names checkpoint {commit.number}, which is not in it")
                if there is not None and said.rewritten.get(commit.id, commit.id) != there:
                    raise Damaged(f"its log names another checkpoint {commit.number} than it holds")
            yield record.event

    state = fold(each())
    end = records.position
    if records.torn or end.offset != os.path.getsize(log.path):
        raise Damaged("its log ends in the middle of a write")
    if (end.seq, end.sum) != (said.events, said.sum):
        raise Damaged("its log does not end where its manifest says")
    handle = f"r{state.number}" if state.number is not None else state.run
    if (state.run, handle) != (said.run, said.handle):
        raise Damaged(f"its log is that of {state.run}")
    given = {
        n.removeprefix(manifest.OBJECTS): s for n, (s, _) in said.members.items() if n.startswith(manifest.OBJECTS)
    }
    if given != needed:
        raise Damaged("what lies beside its log is not what its log names")
    return turn


def _beside(record: Record) -> dict[str, int]:
    if f'"{OBJECTS}":'.encode() not in record.line:
        return {}
    try:
        return {str(name): int(size) for name, size in record.objects().values()}
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise Damaged(f"event {record.seq} of its log names contents in no way that we know") from e
