"""One new pack: what a checkpoint adds, undeltified, durable when it has its name."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from checkpointer import disk
from checkpointer.errors import Failed
from checkpointer.workspace.odb import deflate
from checkpointer.workspace.odb.objects import ObjectType, Reopen, file_chunks, new_hash, oid_of, read_small
from checkpointer.workspace.odb.packindex import encode_index

if TYPE_CHECKING:
    from checkpointer.workspace.odb.packs import PackedObjects

TYPE_NUMBERS: dict[ObjectType, int] = {"commit": 1, "tree": 2, "blob": 3}
HEADER = 12
_HELD = 4 << 20
SUFFIX = ".ckpt-tmp"
"""Of files being written. Not git's `tmp_` prefix: a user's `git gc --prune=now` removes those even while in use."""


def entry_header(type: ObjectType, size: int) -> bytes:
    """The bytes before an entry's zlib stream."""
    byte = (TYPE_NUMBERS[type] << 4) | (size & 15)
    if 16 <= size < 2048:  # most are: two bytes
        return bytes((byte | 0x80, size >> 4))
    size >>= 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte = size & 0x7F
        size >>= 7
    out.append(byte)
    return bytes(out)


class PackWriter:
    """A sink that writes one pack in the store. What it is given is durable, and seen by readers, after `finish`.

    Small packs stay in memory until then; larger ones go to a temporary file beside the other packs. Every pack has a
    `.keep` file, made before it has its name, so that a user's own `git gc` leaves it alone; it holds the `token`.
    Without `keep` there is none: for packs of objects that refs lead to already.
    `with` aborts what was not finished. Raises `NoSpace`, `ReadOnlyStore`, `Failed`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        objects: PackedObjects,
        token: str | None = None,
        *,
        keep: bool = True,
    ) -> None:
        self.keep = keep
        self.directory = os.path.join(directory, "pack")
        self.objects = objects
        self.token = token if token is not None else os.urandom(8).hex()
        self.relied: set[bytes] = set()
        """Ids that were asked for and stored already: this pack is worth nothing without them."""
        self.packs: list[str] = []
        """Names of finished packs."""
        self._reset()

    def _reset(self) -> None:
        self._placed: list[tuple[bytes, int, int]] = []
        self._added: set[bytes] = set()
        self._held: list[bytes] = [b"PACK\0\0\0\2\0\0\0\0"]
        self._held_bytes = HEADER
        self._written = 0
        self._longest = 0
        self._fd: int | None = None
        self._temporary = ""

    def fork(self) -> PackWriter:
        """A fresh writer into the same store, for a forked worker: call it in the child, and finish it there."""
        return PackWriter(os.path.dirname(self.directory), self.objects, self.token)

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    def __contains__(self, oid: bytes) -> bool:
        return oid in self._added or oid in self.objects

    @property
    def length(self) -> int:
        """Size of the pack so far."""
        return self._written + self._held_bytes

    def _known(self, oid: bytes) -> bool:
        if oid in self._added:
            return True
        if oid in self.objects:
            self.relied.add(oid)
            return True
        return False

    def add(self, type: ObjectType, data: bytes) -> bytes:
        oid = oid_of(type, data)
        if self._known(oid):
            return oid
        entry = entry_header(type, len(data)) + deflate.compress(data)
        self._placed.append((oid, deflate.crc32(entry), self.length))
        self._added.add(oid)
        self._put(entry)
        return oid

    def has(self, oid: bytes) -> bool:
        """Was the object added to the pack being written?"""
        return oid in self._added

    def add_parts(self, oid: bytes, parts: Iterable[bytes]) -> None:
        """Add a whole pack entry (header and zlib stream, no delta), whether or not the object is stored elsewhere.

        Where `parts` raises, nothing was added.
        """
        mark = self._mark()
        start, crc = self.length, 0
        try:
            for part in parts:
                crc = deflate.crc32(part, crc)
                self._put(part)
        except BaseException:
            self._back_to(mark)
            raise
        self._placed.append((oid, crc, start))
        self._added.add(oid)

    def add_entries(self, entries: Iterable[tuple[bytes, int, bytes]]) -> None:
        """Add whole pack entries, each with its id and CRC-32, proven already; those added before are passed over."""
        placed, added, held, at = self._placed, self._added, self._held, self.length
        for oid, crc, entry in entries:
            if oid not in added:
                added.add(oid)
                placed.append((oid, crc, at))
                held.append(entry)
                at += len(entry)
                if at - self._written > _HELD:
                    self._held_bytes = at - self._written
                    self._spill()
        self._held_bytes = at - self._written

    def _name(self) -> str:
        """Of a file to be written: whose it is can be told when it was left behind."""
        return os.path.join(self.directory, f"{os.getpid()}-{os.urandom(6).hex()}{SUFFIX}")

    def _mark(self) -> tuple[int, int, int]:
        return self._written, len(self._held), self._held_bytes

    def _back_to(self, mark: tuple[int, int, int]) -> None:
        """Forget what was put since the mark; what reached the file behind it is overwritten, or cut off at the end."""
        written, held, held_bytes = mark
        if self._written == written:
            del self._held[held:]
            self._held_bytes = held_bytes
        else:
            self._held.clear()
            self._held_bytes = 0
            self._written = written + held_bytes

    def _put(self, data: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > _HELD:
            self._spill()

    def _spill(self) -> None:
        with disk.plain_errors("the store"):
            if self._fd is None:
                self._temporary = self._name()
                self._fd = disk.create(self._temporary)
            os.lseek(self._fd, self._written, os.SEEK_SET)
            disk.write_all(self._fd, b"".join(self._held))
        self._written += self._held_bytes
        self._longest = max(self._longest, self._written)
        self._held.clear()
        self._held_bytes = 0

    def add_stream(self, fd: int, size: int, reopen: Reopen | None = None) -> tuple[bytes, int]:
        data = read_small(fd, size)
        if data is not None:
            return self.add("blob", data), len(data)
        size = max(size, os.fstat(fd).st_size)
        oid = self._stream(fd, size)
        if oid is not None:
            return oid, size
        # It became shorter while it was read. A header stands before the content and names its size: take a copy.
        with self._copy(fd, size) as (copy, length):
            oid = self._stream(copy, length)
        if oid is None:
            raise Failed("a copy in the store became shorter while it was read")
        return oid, length

    def _stream(self, fd: int, size: int) -> bytes | None:
        mark, start = self._mark(), self.length
        worth = deflate.worth_it(size, lambda at: os.pread(fd, deflate.SAMPLE, at))
        packer = deflate.compressor(worth)
        h = new_hash("blob", size)
        head = entry_header("blob", size)
        crc = deflate.crc32(head)
        self._put(head)
        read = 0
        for chunk in file_chunks(fd, size):
            h.update(chunk)
            read += len(chunk)
            piece = packer.compress(chunk)
            crc = deflate.crc32(piece, crc)
            self._put(piece)
        piece = packer.flush()
        crc = deflate.crc32(piece, crc)
        self._put(piece)
        oid = h.digest()
        if read != size or self._known(oid):
            self._back_to(mark)
            return oid if read == size else None
        self._placed.append((oid, crc, start))
        self._added.add(oid)
        return oid

    @contextlib.contextmanager
    def _copy(self, fd: int, size: int) -> Iterator[tuple[int, int]]:
        name = self._name()
        with disk.plain_errors("the store"):
            copy = disk.create(name)
            try:
                length = 0
                for chunk in file_chunks(fd, size):
                    disk.write_all(copy, chunk)
                    length += len(chunk)
                yield copy, length
            finally:
                os.close(copy)
                disk.remove(name)

    def finish(self) -> str | None:
        """Make the pack durable and give it its name, which is returned; None, and nothing written, when empty."""
        if not self._placed:
            self.abort()
            return None
        try:
            with disk.plain_errors("the store"):
                name = self._finish()
        except BaseException:
            self.abort()
            raise
        self.packs.append(name)
        return name

    def _finish(self) -> str:
        placed = self._placed
        header = b"PACK\0\0\0\2" + len(placed).to_bytes(4, "big")
        if self._fd is None:
            self._held[0] = header
            body = b"".join(self._held)
            digest = hashlib.sha1(body, usedforsecurity=False).digest()
            self._held = [body, digest]
            self._held_bytes = len(body) + len(digest)
            self._spill()
        else:
            self._spill()
            os.pwrite(self._fd, header, 0)
            h = hashlib.sha1(usedforsecurity=False)
            for chunk in file_chunks(self._fd, self._written):
                h.update(chunk)
            digest = h.digest()
            self._put(digest)
            self._spill()
        assert self._fd is not None
        if self._longest > self._written:
            disk.truncate(self._fd, self._written, self._temporary)
        name = f"pack-{digest.hex()}"
        target = os.path.join(self.directory, name)
        if self.keep:
            self._keep(f"{target}.keep")
        disk.sync(self._fd, self._temporary)
        os.close(self._fd)
        self._fd = None
        disk.rename(self._temporary, f"{target}.pack")
        index = encode_index(placed, digest)
        self._temporary = self._name()
        fd = disk.create(self._temporary)
        try:
            disk.write_all(fd, index)
            disk.sync(fd, self._temporary)
        finally:
            os.close(fd)
        disk.rename(self._temporary, f"{target}.idx")
        disk.sync_directory(self.directory)
        self._reset()
        self.objects.learn(name, index)
        return name

    def _keep(self, path: str) -> None:
        """The `.keep` file, before there is anything to keep. It needs no sync: no other machine's git is at work."""
        try:
            fd = disk.create(path)
        except FileExistsError:  # of the same bytes, written and left by a process that was killed
            disk.remove(path)
            fd = disk.create(path)
        try:
            disk.write_all(fd, f"ckpt {self.token}\n".encode())
        finally:
            os.close(fd)

    def abort(self) -> None:
        """Forget what was added since the last `finish`. Without effect when nothing was."""
        fd, temporary = self._fd, self._temporary
        self._reset()
        if fd is not None:
            os.close(fd)
        if temporary:
            with contextlib.suppress(OSError):
                disk.remove(temporary, missing_ok=True)
