"""The packs of a project's own git: their entries found, proven by their checksums, and copied as they are.

Nothing is linked: who cuts a pack short would cut a link of it too. Nothing is mapped into memory: a pack may be cut
short at any moment. Packs stay open from the first look to the copying, so that a `git gc` takes nothing away.

An idx file whose own digest is right says of each object what git computed when it hashed it: its id, and the CRC-32 of
its entry. So an entry with that checksum is the object, as far as anything but forgery goes, and need not be inflated.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Set

from checkpointer.errors import Damaged
from checkpointer.workspace.odb import deflate
from checkpointer.workspace.odb.objects import CHUNK
from checkpointer.workspace.odb.packindex import PackIndex, Span
from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.project.plainfile import read_plain

_NAME = re.compile(rb"pack-[0-9a-f]{40}\.idx")
_BLOB = 3
_HEADER = 32
_GAP = 64 << 10
_MOST_PACKS = 64
_HELD = 16 << 20
_LARGEST_INDEX = 32 << 20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


Part = tuple[Span, bytes]
"""An entry with its bytes, or with its beginning only where it has more than `CHUNK` bytes."""


class _Pack:
    """One open pack and what is wanted of it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.spans: list[Span] = []

    def read(self, spans: list[Span]) -> Iterator[list[Part]]:
        """These entries, but for those that are not what they should be, some at a time.

        Those near each other are read together.
        """
        at, count = 0, len(spans)
        while at < count:
            start = end = spans[at][2]
            stop = at
            while stop < count and spans[stop][3] <= start + CHUNK and spans[stop][2] <= end + _GAP:
                end = spans[stop][3]
                stop += 1
            if stop == at:
                stop = at + 1
                if self._is_sound(spans[at]):
                    yield [(spans[at], os.pread(self.fd, _HEADER, start))]
            else:
                yield _proven(spans[at:stop], start, os.pread(self.fd, end - start, start))
            at = stop

    def _is_sound(self, span: Span) -> bool:
        try:
            return all(self.chunks(span))
        except Damaged:
            return False

    def chunks(self, span: Span) -> Iterator[bytes]:
        """The bytes of an entry. Raises `Damaged` after the last where they are not what they should be."""
        oid, right, at, end = span
        crc = 0
        while at < end:
            chunk = os.pread(self.fd, min(CHUNK, end - at), at)
            if not chunk:
                break
            crc = deflate.crc32(chunk, crc)
            yield chunk
            at += len(chunk)
        if crc != right or at != end:
            raise Damaged(f"object {oid.hex()} is damaged: its checksum is wrong", object=oid.hex())


def _proven(spans: list[Span], start: int, data: bytes) -> list[Part]:
    """Those of these entries that are what they should be; `data` was read from `start` on."""
    crc32 = deflate.crc32
    found = []
    for span in spans:
        _, crc, begin, end = span
        entry = data[begin - start : end - start]
        if crc32(entry) == crc and len(entry) == end - begin:
            found.append((span, entry))
    return found


class ProjectPacks:
    """The packs in an `objects/pack` directory that hold any of the wanted blobs. Close it at the end.

    `sizes` has the size in bytes of each blob that was found sound. What cannot be opened, is too large to be handled
    in little memory, or is not what it should be, is passed over.
    """

    def __init__(self, directory: bytes, wanted: Set[bytes]) -> None:
        self.sizes: dict[bytes, int] = {}
        self._packs: list[_Pack] = []
        self._held: dict[bytes, bytes] = {}
        self._room = _HELD
        try:
            with contextlib.suppress(OSError):
                paths = [os.path.join(directory, name) for name in os.listdir(directory) if _NAME.fullmatch(name)]
                for path in sorted(paths, key=os.path.getsize, reverse=True)[:_MOST_PACKS]:
                    with contextlib.suppress(OSError, Damaged):
                        self._look(path, wanted)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for pack in self._packs:
            os.close(pack.fd)
        self._packs.clear()
        self._held.clear()

    def _look(self, path: bytes, wanted: Set[bytes]) -> None:
        data = read_plain(path, limit=_LARGEST_INDEX)
        if data is None:
            return
        index = PackIndex(os.fsdecode(os.path.basename(path)[:-4]), data)
        index.check()
        fd = os.open(path[:-3] + b"pack", _FLAGS | os.O_NOFOLLOW)
        kept = False
        try:
            pack = _Pack(fd)
            for parts in pack.read(self._spans(index, fd, wanted)):
                self._take(pack, parts)
            if pack.spans:
                self._packs.append(pack)
                kept = True
        finally:
            if not kept:
                os.close(fd)

    def _take(self, pack: _Pack, parts: list[Part]) -> None:
        """Remember the blobs among these entries, and their bytes while there is room."""
        sizes, held = self.sizes, self._held
        room = self._room - sum(len(entry) for _, entry in parts)
        for span, entry in parts:
            oid = span[0]
            size = _blob_size(entry)
            if size is not None and oid not in sizes:
                sizes[oid] = size
                pack.spans.append(span)
                if room >= 0 and len(entry) == span[3] - span[2]:
                    held[oid] = entry
        self._room = max(room, 0)

    def _spans(self, index: PackIndex, fd: int, wanted: Set[bytes]) -> list[Span]:
        st = os.fstat(fd)
        head = os.pread(fd, 12, 0) if stat.S_ISREG(st.st_mode) else b""
        if head != b"PACK\0\0\0\2" + index.count.to_bytes(4, "big"):
            return []
        if os.pread(fd, 20, st.st_size - 20) != index.pack_digest:
            return []
        return index.spans(wanted, st.st_size)

    def copy(self, wanted: Set[bytes], writer: PackWriter) -> bool:
        """Add these blobs (of those in `sizes`) to the writer. False where one of them is not what it was any more."""
        left = set(wanted)
        held = self._held
        try:
            for pack in self._packs:
                spans = [span for span in pack.spans if span[0] in left]
                at_hand = [(oid, crc, held[oid]) for oid, crc, _, _ in spans if oid in held]
                writer.add_entries(at_hand)
                left.difference_update([oid for oid, _, _ in at_hand])
                for parts in pack.read([span for span in spans if span[0] in left]):
                    writer.add_entries([(s[0], s[1], entry) for s, entry in parts if len(entry) == s[3] - s[2]])
                    for span, entry in parts:
                        if len(entry) < span[3] - span[2]:
                            writer.add_parts(span[0], pack.chunks(span))
                        left.discard(span[0])
        except (Damaged, OSError):
            return False
        return not left


def _blob_size(entry: bytes) -> int | None:
    """Size of a blob's content by the beginning of its entry; None for anything else, deltas too."""
    byte = entry[0] if entry else 0
    if byte & 0x70 != _BLOB << 4:
        return None
    size = byte & 15
    at, shift = 1, 4
    while byte & 0x80:
        if at >= min(len(entry), _HEADER):
            return None
        byte = entry[at]
        size |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return size
