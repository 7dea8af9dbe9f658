"""Content by its git id: what can be read (`Objects`) and what can be added to (`Sink`).

An id is the 20 raw bytes of `sha1(b"<type> <size>\\0" + data)`, exactly git's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from typing import IO, Literal, Protocol, runtime_checkable

from checkpointer.errors import Damaged, MissingObject

ObjectType = Literal["commit", "tree", "blob"]
Reopen = Callable[[], int]

_JOINED = 16 << 10

CHUNK = 1 << 20
"""Content above this many bytes is streamed, never held whole."""


@runtime_checkable
class Objects(Protocol):
    """Reading. Every method raises `MissingObject` or `Damaged` (which names the object); digests are verified."""

    def get(self, oid: bytes) -> tuple[ObjectType, bytes]:
        """Type and whole content."""
        ...

    def stream(self, oid: bytes) -> Iterator[bytes]:
        """A blob in chunks of at most `CHUNK` bytes. The digest is verified at the end: raises after the last chunk."""
        ...

    def size(self, oid: bytes) -> int:
        """Content size in bytes, without reading the content."""
        ...

    def __contains__(self, oid: bytes) -> bool: ...


class Sink(Protocol):
    """Writing. What is stored already, or was added already, is not written again."""

    def add(self, type: ObjectType, data: bytes) -> bytes:
        """Add one object and return its id."""
        ...

    def add_stream(self, fd: int, size: int, reopen: Reopen | None = None) -> tuple[bytes, int]:
        """Add a blob from an open file, from its beginning; returns its id and how many bytes were read.

        `size` is what the caller believes; where the file turns out shorter or longer, the content as really read is
        stored, once. The position of `fd` does not matter. `reopen` opens the same file again: a sink that writes
        nothing uses it to read large content later, instead of keeping a copy.
        """
        ...


_SHA1 = hashlib.sha1(usedforsecurity=False)
"""Never fed: a copy of it is made faster than a new one."""


def new_hash(type: str, size: int) -> hashlib._Hash:
    """A running digest for an object of this type and size."""
    h = _SHA1.copy()
    h.update(b"%s %d\0" % (type.encode(), size))
    return h


def oid_of(type: str, data: bytes) -> bytes:
    """The id of an object."""
    h = _SHA1.copy()
    if len(data) < _JOINED:  # one call instead of two
        h.update(b"%s %d\0%s" % (type.encode(), len(data), data))
    else:
        h.update(b"%s %d\0" % (type.encode(), len(data)))
        h.update(data)
    return h.digest()


def read_small(fd: int, size: int) -> bytes | None:
    """The whole file by `pread`, or None where it holds more than `CHUNK` bytes."""
    if size > CHUNK:
        return None
    data = os.pread(fd, size + 1, 0)
    if len(data) == size:
        return data
    parts = [data]
    at = len(data)
    while at <= CHUNK:
        more = os.pread(fd, CHUNK + 1 - at, at)
        if not more:
            return b"".join(parts)
        parts.append(more)
        at += len(more)
    return None


def file_chunks(fd: int, size: int) -> Iterator[bytes]:
    """The first `size` bytes of a file; ends early where the file does."""
    at = 0
    while at < size:
        data = os.pread(fd, min(CHUNK, size - at), at)
        if not data:
            return
        yield data
        at += len(data)


class MemorySink:
    """A sink that stores nothing: for looking without writing. It is also an `Objects` over what is stored.

    Small content is kept in memory up to `KEEP` bytes in all; beyond that, and for files above `CHUNK`, content is read
    again through `reopen`, or, without it, kept in an unnamed temporary file.
    """

    KEEP = 32 << 20

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._kept: dict[bytes, tuple[ObjectType, bytes]] = {}
        self._files: dict[bytes, tuple[Reopen, int]] = {}
        self._spooled: dict[bytes, tuple[int, int]] = {}
        self._spool: IO[bytes] | None = None
        self._bytes = 0

    def add(self, type: ObjectType, data: bytes) -> bytes:
        oid = oid_of(type, data)
        if oid not in self:
            self._kept[oid] = (type, data)
            self._bytes += len(data)
        return oid

    def add_stream(self, fd: int, size: int, reopen: Reopen | None = None) -> tuple[bytes, int]:
        data = read_small(fd, size)
        if data is not None:
            oid = oid_of("blob", data)
            if oid in self:
                return oid, len(data)
            if self._bytes + len(data) <= self.KEEP or (reopen is None and len(data) <= 4096):
                return self.add("blob", data), len(data)
        size = max(size, os.fstat(fd).st_size)
        h = new_hash("blob", size)
        read = 0
        for chunk in file_chunks(fd, size):
            h.update(chunk)
            read += len(chunk)
        if read == size and reopen is not None:
            oid = h.digest()
            if oid not in self:
                self._files[oid] = (reopen, size)
            return oid, size
        return self._keep_aside(fd, size)

    def _keep_aside(self, fd: int, size: int) -> tuple[bytes, int]:
        if self._spool is None:
            import tempfile

            self._spool = tempfile.TemporaryFile(prefix="ckpt-")  # noqa: SIM115
        start = self._spool.seek(0, os.SEEK_END)
        for chunk in file_chunks(fd, size):
            self._spool.write(chunk)
        self._spool.flush()
        length = self._spool.tell() - start
        h = new_hash("blob", length)
        at = start
        while at < start + length:
            chunk = os.pread(self._spool.fileno(), min(CHUNK, start + length - at), at)
            h.update(chunk)
            at += len(chunk)
        oid = h.digest()
        self._spooled.setdefault(oid, (start, length))
        return oid, length

    def get(self, oid: bytes) -> tuple[ObjectType, bytes]:
        if oid in self._kept:
            return self._kept[oid]
        if oid in self._files or oid in self._spooled:
            return "blob", b"".join(self.stream(oid))
        return self._objects.get(oid)

    def stream(self, oid: bytes) -> Iterator[bytes]:
        if oid in self._kept:
            data = self._kept[oid][1]
            yield from (data[at : at + CHUNK] for at in range(0, len(data), CHUNK))
        elif oid in self._spooled and self._spool is not None:
            start, length = self._spooled[oid]
            for at in range(start, start + length, CHUNK):
                yield os.pread(self._spool.fileno(), min(CHUNK, start + length - at), at)
        elif oid in self._files:
            yield from self._read_again(oid)
        else:
            yield from self._objects.stream(oid)

    def _read_again(self, oid: bytes) -> Iterator[bytes]:
        reopen, size = self._files[oid]
        try:
            fd = reopen()
        except OSError as e:
            raise MissingObject(f"a file changed while it was looked at: {e.strerror or e}") from e
        try:
            h = new_hash("blob", size)
            for chunk in file_chunks(fd, size):
                h.update(chunk)
                yield chunk
        finally:
            os.close(fd)
        if h.digest() != oid:
            raise Damaged("a file changed while it was looked at")

    def size(self, oid: bytes) -> int:
        if oid in self._kept:
            return len(self._kept[oid][1])
        if oid in self._files:
            return self._files[oid][1]
        if oid in self._spooled:
            return self._spooled[oid][1]
        return self._objects.size(oid)

    def __contains__(self, oid: bytes) -> bool:
        return oid in self._kept or oid in self._files or oid in self._spooled or oid in self._objects
