"""The stat table: what each directory looked like when it was captured, and the git tree that it made.

It only saves work. A table that is lost, damaged, of another Python or of another workspace is an empty one, and the
next capture reads everything. What it says is never taken for what is on disk: a record counts only while the names
and `lstat` signatures of its directory are byte for byte the ones it holds.

The file is a line naming its format, then segments: length, digest, marshalled content. The first segment holds every
record, each later one what a capture changed, so that one changed file does not rewrite the whole table. A segment that
does not fit its digest ends the reading.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from checkpointer import disk
from checkpointer.collector import uncollected

Stat = tuple[int, int, int, int, int]
"""`st_mode`, `st_ino`, `st_size`, `st_mtime_ns`, `st_ctime_ns`: the fields of `entry.Signature`."""

Own = dict[str, dict[str, Any]]
"""What one directory adds to the extras: `modes`, `fifos`, `uncovered`, `torn`, each by name; `""` is the directory."""


class Record(NamedTuple):
    """One directory as it was captured. Names are `str` as the file system gives them; a directory's ends with `/`
    in `matched` and `kept`.

    `seen` is the marshalled list `[Stat of the directory, name of a sub-directory | (name, Stat) | (name, Stat, why)]`
    in the order of the listing; an entry with a `why` is never trusted later. `rules` identifies the ignore rules it
    was matched with; `matched` are the names that they ignore and that are not ours, `kept` those that are ours all the
    same. `inside` means that the directory itself is ignored: then `kept` lists all that is ours in it.
    `repository` says that it holds a `.git`. `tree` is the git tree, `b""` where no file is below. `files` counts what
    is ours in it, `below` that and what is ours in the directories below.
    """

    seen: bytes
    rules: bytes
    matched: tuple[str, ...]
    kept: tuple[str, ...]
    inside: bool
    repository: bool
    subs: tuple[str, ...]
    tree: bytes
    files: int
    below: int
    own: Own


SEEN, RULES, MATCHED, KEPT_NAMES, INSIDE, REPOSITORY, SUBS, TREE, FILES, BELOW, OWN = range(11)


def is_leaf(record: Record) -> bool:
    """Does it hold no directory of ours and no repository, and is it not ignored itself?"""
    return not (record[SUBS] or record[INSIDE] or record[REPOSITORY])


class Header(NamedTuple):
    """What all records depend on. `root` is the tree of the checkpoint they belong to, `b""` where there is none."""

    root: bytes = b""
    usual: tuple[int, int, int] = (0o644, 0o755, 0o755)
    tracked: bytes = b""
    started_ns: int = 0


_VERSION = 2  # of marshal: without references, so that equal values give equal bytes
_FORMAT = f"ckpt scan table 1 {sys.implementation.cache_tag} {sys.getfilesystemencoding()}\n".encode()
_DIGEST = 20
_LENGTH = 8


def pack(value: object) -> bytes:
    """Equal values give equal bytes."""
    return marshal.dumps(value, _VERSION)  # type: ignore[arg-type]


def unpack_seen(seen: bytes) -> list[Any]:
    value = marshal.loads(seen)
    assert isinstance(value, list)
    return value


def _digest(payload: bytes) -> bytes:
    return hashlib.sha1(payload, usedforsecurity=False).digest()


def _segment(payload: bytes) -> bytes:
    return len(payload).to_bytes(_LENGTH, "big") + _digest(payload) + payload


class Table:
    """Records by directory (`str`, the root is `""`), with the header that they depend on.

    `capture` changes it in memory; `save` writes it. Save only after the checkpoint it belongs to is durable, and only
    while holding the workspace lock.
    """

    def __init__(self, path: disk.AnyPath | None = None) -> None:
        self.path = path
        self.header = Header()
        self.records: dict[str, Record] = {}
        self._changed: set[str] = set()
        self._removed: set[str] = set()
        self._whole = True
        self._dirty = False
        self._on_disk = (0, 0)  # bytes of the first segment, of the whole file
        self._inode = 0

    @classmethod
    def load(cls, path: disk.AnyPath) -> Table:
        """Read a table; whatever does not fit is left out. Never raises for what the file holds."""
        table = cls(path)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return table
        try:
            with contextlib.suppress(OSError), open(fd, "rb", closefd=False) as f, uncollected():
                table._inode = os.fstat(fd).st_ino
                table._read(f.read())
        finally:
            os.close(fd)
        return table

    def _read(self, data: bytes) -> None:
        if not data.startswith(_FORMAT):
            return
        at = len(_FORMAT)
        view = memoryview(data)
        first = 0
        while at + _LENGTH + _DIGEST <= len(data):
            start = at + _LENGTH + _DIGEST
            end = start + int.from_bytes(view[at : at + _LENGTH], "big")
            payload = view[start:end]
            if end > len(data) or hashlib.sha1(payload, usedforsecurity=False).digest() != view[at + _LENGTH : start]:
                break
            header, changed, removed = marshal.loads(payload)
            self.header = Header(*header)
            for name in removed:
                self.records.pop(name, None)
            if first:
                self.records.update(changed)
            else:
                self.records = changed
            at = end
            first = first or end
        self._on_disk = (first, at)
        self._whole = at != len(data) or not first

    def forget(self) -> None:
        """Drop every record: the next capture reads everything."""
        if self.records or self.header != Header():
            self.header, self.records = Header(), {}
            self._whole = self._dirty = True

    def update(self, header: Header, changed: dict[str, Record], removed: Iterable[str]) -> None:
        """Take over what a capture found."""
        for name in removed:
            if self.records.pop(name, None) is not None:
                self._removed.add(name)
                self._changed.discard(name)
                self._dirty = True
        if changed:
            self.records.update(changed)
            self._changed.update(changed)
            self._removed.difference_update(changed)
            self._dirty = True
        if header._replace(started_ns=0) != self.header._replace(started_ns=0):
            self._dirty = True
        self.header = header

    def save(self) -> None:
        """Write what changed since it was loaded or saved; nothing where nothing did. Raises OSError.

        Not synced: after a power loss the table may be lost, which costs time only.
        """
        if self.path is None or not self._dirty:
            return
        first, size = self._on_disk
        if not self._whole:
            changed = {name: tuple(self.records[name]) for name in self._changed}
            segment = _segment(pack((tuple(self.header), changed, sorted(self._removed))))
            self._whole = size + len(segment) > 2 * first + (1 << 16) or not self._append(segment, size)
            if not self._whole:
                self._on_disk = (first, size + len(segment))
        if self._whole:
            payload = pack((tuple(self.header), {name: tuple(r) for name, r in self.records.items()}, []))
            data = _FORMAT + _segment(payload)
            disk.replace(self.path, data, durable=False)
            self._inode = os.stat(self.path).st_ino
            self._on_disk = (len(data), len(data))
        self._whole = self._dirty = False
        self._changed.clear()
        self._removed.clear()

    def _append(self, segment: bytes, size: int) -> bool:
        """Add a segment to the file that was loaded; False where it is not that file any more."""
        assert self.path is not None
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            st = os.fstat(fd)
            if st.st_size != size or st.st_ino != self._inode:
                return False
            disk.append(fd, segment, path=self.path, durable=False)
            return True
        finally:
            os.close(fd)
