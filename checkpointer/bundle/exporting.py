"""A run written as one file: its log, what is kept beside it, and every checkpoint it names with all between them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from checkpointer import disk, machine
from checkpointer.bundle import archive, manifest
from checkpointer.bundle.manifest import Kept, Manifest
from checkpointer.errors import Usage
from checkpointer.log import JsonlLog
from checkpointer.log.place import Position
from checkpointer.record import OBJECTS
from checkpointer.release import VERSION
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.entry import show
from checkpointer.workspace.shadow import pins
from checkpointer.workspace.shadow.history import History
from checkpointer.workspace.shadow.stretch import cut_at, named, write_pack


class Exported(NamedTuple):
    """What was written: `size` bytes, which say what `manifest` does."""

    path: bytes
    size: int
    manifest: Manifest


class _Told(NamedTuple):
    """What a log says that a bundle needs: its end, the checkpoints it names (number -> ids), its contents' names."""

    end: Position
    commits: dict[int, set[str]]
    objects: dict[str, int]


def export(history: History, workspace: bytes, log: JsonlLog, handle: str, target: bytes) -> Exported:
    """Write the bundle of a run to `target`, a new file, whole and durable or not at all. Nothing is locked.

    What the run does meanwhile is not in it. Raises `Usage` where `target` is there already or lies in a `.git`,
    `LogDamaged`, `Damaged` where something that belongs to it cannot be read, `NoSpace`, `Failed`.
    """
    target = os.path.abspath(target)
    if os.path.lexists(target):
        raise Usage(f"{show(target)} is there already", kept="nothing was written", next=("another name",))
    if b".git" in target.split(b"/"):
        raise Usage(f"{show(target)} is in a .git: nothing is ever written there", kept="nothing was written")
    told = read(log)
    stretch = named(history, told.commits, (handle, log.run))
    with disk.plain_errors(show(target)), _beside(target) as place:
        pack = write_pack(history, stretch.all, os.fspath(place))
        members: dict[str, tuple[int, str]] = {manifest.EVENTS: _log_digest(log, told.end)}
        for name, size in sorted(told.objects.items()):
            log.fetch(name)  # verified, or it says what is wrong
            members[manifest.OBJECTS + name] = (size, name)
        if pack is not None:
            members[manifest.PACK] = archive.digest_of(pack)
        labels = pins.load(history.directory)
        rewritten = {
            oid: new for ids in told.commits.values() for oid in sorted(ids) if (new := history.rewritten(oid))
        }
        said = Manifest(
            run=log.run,
            handle=handle,
            workspace=workspace,
            at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            writer=VERSION,
            events=told.end.seq,
            sum=told.end.sum,
            chain=_kept(stretch.chain, labels),
            alone=_kept(stretch.alone, labels),
            shallow=tuple(cut_at(history.objects, stretch)),
            missing=stretch.missing,
            rewritten=rewritten,
            members=members,
        )
        manifest.decode(said.encode())  # what could not be read again is not written
        size = _write(place / "bundle", said, log, pack)
        _name(place / "bundle", target)
        disk.sync_directory(os.path.dirname(target))
    return Exported(target, size, said)


def read(log: JsonlLog) -> _Told:
    """Look a whole log through. Raises `LogDamaged`, `NoStore`, and `NeedsMigration` or `NewerFormat` for a log that
    an import could not read either.
    """
    commits: dict[int, set[str]] = {}
    objects: dict[str, int] = {}
    scan = log.read()
    mark = f'"{OBJECTS}":'.encode()
    for record in scan:
        commit = record.event.commit
        if commit is not None and commit.kind == "shadow" and commit.number is not None:
            commits.setdefault(commit.number, set()).add(commit.id)
        if mark in record.line:
            objects.update(record.objects().values())
    return _Told(scan.position, commits, objects)


def _kept(checkpoints: tuple[Checkpoint, ...], labels: dict[int, tuple[str, ...]]) -> tuple[Kept, ...]:
    return tuple(Kept(one.number, one.id, labels.get(one.number, ())) for one in checkpoints)


def _log_digest(log: JsonlLog, end: Position) -> tuple[int, str]:
    h = hashlib.sha256()
    for chunk in archive.chunks_of(log.path, end.offset):
        h.update(chunk)
    return end.offset, h.hexdigest()


def _write(path: Path, said: Manifest, log: JsonlLog, pack: str | None) -> int:
    head = said.encode()
    fd = disk.create(path)
    try:
        for name, data in ((manifest.NAME, head), (manifest.SUM, manifest.sum_of(head))):
            for part in archive.member(name, len(data), [data]):
                disk.write_all(fd, part)
        for name, (size, _) in said.members.items():
            where = pack if name == manifest.PACK else os.path.join(log.directory, name)
            assert where is not None
            for part in archive.member(name, size, archive.chunks_of(where, size)):
                disk.write_all(fd, part)
        disk.write_all(fd, archive.END)
        disk.sync(fd, path)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _name(made: Path, target: bytes) -> None:
    """Give the file its name, unless something has it."""
    try:
        disk.link(made, target)
    except OSError as e:
        if e.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS) or os.path.lexists(target):
            raise
        disk.rename(made, target)  # a file system without second names


@contextlib.contextmanager
def _beside(target: bytes) -> Iterator[Path]:
    """A directory next to the target for what is being written, which goes at the end. What exports to the same name
    left there when they were killed goes too.
    """
    directory, name = os.path.split(os.fsdecode(target))
    for entry in os.listdir(directory):
        left = re.fullmatch(re.escape(f".{name}.") + r"(\d+)\.ckpt-tmp", entry)
        if left and machine.started(int(left[1])) == machine.GONE:
            disk.remove_tree(os.path.join(directory, entry))
    place = Path(directory) / f".{name}.{os.getpid()}.ckpt-tmp"
    disk.make_directory(place)
    try:
        yield place
    finally:
        disk.remove_tree(place)


def same_log(log: JsonlLog, said: Manifest) -> bool:
    """Does this log hold just the events of a bundle? Raises `LogDamaged`."""
    end = log.head()
    return (end.seq, end.sum) == (said.events, said.sum)
