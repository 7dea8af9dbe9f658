"""One pack file, read raw: entries, their headers, deltas on top of other entries."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from checkpointer.errors import Damaged
from checkpointer.workspace.odb import deflate
from checkpointer.workspace.odb.objects import CHUNK, ObjectType

TYPES: dict[int, ObjectType] = {1: "commit", 2: "tree", 3: "blob"}
OFFSET_DELTA = 6
ID_DELTA = 7
_READ = 64 << 10
_HEADER = 64
_DEPTH = 5000


class Header(NamedTuple):
    """What stands before an entry's zlib stream. `number` is git's type; `size` is of the content or of the delta."""

    number: int
    size: int
    start: int
    """Offset of the zlib stream."""
    base_offset: int | None
    base_oid: bytes | None


class PackFile:
    """An open pack. Raises `Damaged` where bytes are not what they must be, OSError where they cannot be read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.length = os.fstat(self.fd).st_size

    def close(self) -> None:
        """Close it; without effect when it is. Also done when nobody has it any more."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "fd", -1) >= 0:
            self.close()

    def header(self, offset: int) -> Header:
        raw = os.pread(self.fd, _HEADER, offset)
        try:
            return self._header(raw, offset)
        except IndexError:
            raise Damaged(f"{self.name} is damaged: it ends at {self.length} bytes, before an entry does") from None

    def _header(self, raw: bytes, offset: int) -> Header:
        byte = raw[0]
        number = (byte >> 4) & 7
        size = byte & 15
        at, shift = 1, 4
        while byte & 0x80:
            byte = raw[at]
            size |= (byte & 0x7F) << shift
            shift += 7
            at += 1
        base_offset = base_oid = None
        if number == OFFSET_DELTA:
            byte = raw[at]
            at += 1
            back = byte & 0x7F
            while byte & 0x80:
                byte = raw[at]
                at += 1
                back = ((back + 1) << 7) | (byte & 0x7F)
            base_offset = offset - back
            if not 0 < base_offset < offset:
                raise Damaged(f"{self.name} is damaged: a delta without a base at {offset}")
        elif number == ID_DELTA:
            base_oid = raw[at : at + 20]
            at += 20
        elif number not in TYPES and number != 4:
            raise Damaged(f"{self.name} is damaged: no entry at {offset}")
        return Header(number, size, offset + at, base_offset, base_oid)

    def inflate(self, header: Header) -> bytes:
        """The content (or delta) of an entry."""
        guess = min(header.size + (header.size >> 10) + 64, 4 * CHUNK)
        raw = os.pread(self.fd, guess, header.start)
        unpacker = deflate.decompressor()
        try:
            out = unpacker.decompress(raw, header.size + 1)
            if unpacker.eof and len(out) == header.size:
                return out  # type: ignore[no-any-return]
        except deflate.ERRORS as e:
            raise Damaged(f"{self.name} is damaged: {e}") from None
        return b"".join(self.inflate_chunks(header))

    def inflate_chunks(self, header: Header) -> Iterator[bytes]:
        """As `inflate`, in chunks of at most `CHUNK` bytes."""
        return (chunk for chunk, _ in self.inflate_with_end(header))

    def inflate_with_end(self, header: Header) -> Iterator[tuple[bytes, int]]:
        """Chunks of content, each with how many bytes of the zlib stream were surely not needed beyond it so far."""
        unpacker = deflate.decompressor()
        at = header.start
        left = header.size
        pending = b""
        try:
            while not unpacker.eof:
                ended = False
                if not pending:
                    pending = os.pread(self.fd, _READ, at)
                    at += len(pending)
                    ended = not pending
                out = unpacker.decompress(pending, min(CHUNK, left + 1))  # may have some left without new input
                pending = unpacker.unconsumed_tail
                if ended and not out and not unpacker.eof:
                    raise Damaged(f"{self.name} is damaged: it ends in the middle of an entry")
                left -= len(out)
                if left < 0:
                    break
                if out:
                    yield out, at
        except deflate.ERRORS as e:
            raise Damaged(f"{self.name} is damaged: {e}") from None
        if left:
            raise Damaged(f"{self.name} is damaged: an entry is not as long as it says")
        yield b"", at - len(unpacker.unused_data)

    def resolve(self, offset: int, by_id: Callable[[bytes], tuple[ObjectType, bytes]]) -> tuple[ObjectType, bytes]:
        """Type and whole content of an entry, deltas applied; `by_id` gives bases that are named by their id."""
        deltas: list[bytes] = []
        header = self.header(offset)
        while header.number in (OFFSET_DELTA, ID_DELTA):
            deltas.append(self.inflate(header))
            if len(deltas) > _DEPTH:
                raise Damaged(f"{self.name} is damaged: deltas without an end")
            if header.base_oid is not None:
                kind, data = by_id(header.base_oid)
                break
            assert header.base_offset is not None
            header = self.header(header.base_offset)
        else:
            kind, data = self.kind(header), self.inflate(header)
        for delta in reversed(deltas):
            data = apply_delta(data, delta, self.name)
        return kind, data

    def kind(self, header: Header) -> ObjectType:
        """Type of an entry that is no delta."""
        if header.number not in TYPES:
            raise Damaged(f"{self.name} holds a tag, which no checkpoint has")
        return TYPES[header.number]

    def delta_size(self, header: Header) -> int:
        """Size of what a delta makes."""
        raw = os.pread(self.fd, 256, header.start)
        try:
            start = deflate.decompressor().decompress(raw, 32)
            _, at = _length(start, 0)
            return _length(start, at)[0]
        except IndexError:
            raise Damaged(f"{self.name} is damaged: a delta is cut short") from None
        except deflate.ERRORS as e:
            raise Damaged(f"{self.name} is damaged: {e}") from None

    def check_digest(self) -> bytes:
        """The pack's own digest, after comparing it with all its bytes."""
        h = hashlib.sha1(usedforsecurity=False)
        at, end = 0, self.length - 20
        while at < end:
            chunk = os.pread(self.fd, min(CHUNK, end - at), at)
            if not chunk:
                break
            h.update(chunk)
            at += len(chunk)
        stored = os.pread(self.fd, 20, max(end, 0))
        if h.digest() != stored:
            raise Damaged(f"{self.name} is damaged: its digest is wrong")
        return stored


def _length(data: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        byte = data[at]
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return size, at


def apply_delta(base: bytes, delta: bytes, name: str) -> bytes:
    """What a git delta makes of its base."""
    try:
        expected, at = _length(delta, 0)
        size, at = _length(delta, at)
        if expected != len(base):
            raise Damaged(f"{name} is damaged: a delta does not fit its base")
        out = bytearray()
        end = len(delta)
        while at < end:
            op = delta[at]
            at += 1
            if op & 0x80:
                start = length = 0
                for bit in range(4):
                    if op & (1 << bit):
                        start |= delta[at] << (8 * bit)
                        at += 1
                for bit in range(3):
                    if op & (0x10 << bit):
                        length |= delta[at] << (8 * bit)
                        at += 1
                out += base[start : start + (length or 0x10000)]
            else:
                out += delta[at : at + op]
                at += op
        if len(out) != size:
            raise Damaged(f"{name} is damaged: a delta makes {len(out)} bytes instead of {size}")
        return bytes(out)
    except IndexError:
        raise Damaged(f"{name} is damaged: a delta is cut short") from None


def chunks_of(path: str, header: Header) -> Iterator[bytes]:
    """Content of an entry in chunks, from a descriptor of its own: the reader may take its time."""
    pack = PackFile(path)
    try:
        yield from pack.inflate_chunks(header)
    finally:
        pack.close()
