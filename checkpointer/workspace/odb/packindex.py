"""The index of one pack (git's idx version 2): which object stands where, read from bytes and written to bytes."""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from checkpointer.errors import Damaged

_MAGIC = b"\xfftOc\0\0\0\2"
_FANOUT = 8
_OIDS = _FANOUT + 1024
_FAR = 0x80000000
_DIGEST_ALWAYS = 1 << 20
_FEW = 3


class Placed(NamedTuple):
    """One object of a pack: id, CRC-32 of its entry's bytes, offset of its entry."""

    oid: bytes
    crc: int
    offset: int


Span = tuple[bytes, int, int, int]
"""One object of a pack: id, CRC-32 of its entry's bytes, where its entry begins and ends."""


def encode_index(placed: Iterable[Placed | tuple[bytes, int, int]], pack_digest: bytes) -> bytes:
    """The whole idx file; `pack_digest` is the pack's last 20 bytes."""
    listed = sorted(placed)
    counts = [0] * 256
    for item in listed:
        counts[item[0][0]] += 1
    total = 0
    for first, count in enumerate(counts):
        total += count
        counts[first] = total
    near: list[int] = []
    far: list[int] = []
    for item in listed:
        if item[2] < _FAR:
            near.append(item[2])
        else:
            near.append(_FAR | len(far))
            far.append(item[2])
    body = b"".join(
        (
            _MAGIC,
            struct.pack(">256I", *counts),
            b"".join([item[0] for item in listed]),
            _big_endian([item[1] for item in listed]),
            _big_endian(near),
            struct.pack(f">{len(far)}Q", *far),
            pack_digest,
        )
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _big_endian(values: Sequence[int]) -> bytes:
    words = array("I", values)
    if sys.byteorder == "little":
        words.byteswap()
    return words.tobytes()


class PackIndex:
    """An idx file in memory. Raises `Damaged` where its form or (of large ones: only by `check`) digest is wrong."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        """File name without suffix: `pack-<40 hex>`."""
        self._data = data
        if len(data) < _OIDS + 40 or data[:8] != _MAGIC:
            raise Damaged(f"{name}.idx is not a pack index")
        self._fanout = struct.unpack_from(">256I", data, _FANOUT)
        self.count = self._fanout[255]
        self._crcs = _OIDS + 20 * self.count
        self._near = self._crcs + 4 * self.count
        self._far = self._near + 4 * self.count
        if len(data) < self._far + 40 or list(self._fanout) != sorted(self._fanout):
            raise Damaged(f"{name}.idx is damaged")
        if len(data) <= _DIGEST_ALWAYS:
            self.check()

    @property
    def pack_digest(self) -> bytes:
        return self._data[-40:-20]

    def check(self) -> None:
        """Raises `Damaged` where the idx file's own digest is wrong."""
        if hashlib.sha1(self._data[:-20], usedforsecurity=False).digest() != self._data[-20:]:
            raise Damaged(f"{self.name}.idx is damaged: its digest is wrong")

    def _offset(self, n: int) -> int:
        (offset,) = struct.unpack_from(">I", self._data, self._near + 4 * n)
        if offset & _FAR:
            at = self._far + 8 * (offset & ~_FAR)
            if at + 8 > len(self._data) - 40:
                raise Damaged(f"{self.name}.idx is damaged")
            (offset,) = struct.unpack_from(">Q", self._data, at)
        return int(offset)

    def oid(self, n: int) -> bytes:
        at = _OIDS + 20 * n
        return self._data[at : at + 20]

    def find(self, oid: bytes) -> int | None:
        """Offset of an object's entry in the pack."""
        n = self._number(oid)
        return None if n is None else self._offset(n)

    def _number(self, oid: bytes) -> int | None:
        first = oid[0]
        low: int = self._fanout[first - 1] if first else 0
        high: int = self._fanout[first]
        data = self._data
        while low < high:
            middle = (low + high) >> 1
            at = _OIDS + 20 * middle
            found = data[at : at + 20]
            if found == oid:
                return middle
            if found < oid:
                low = middle + 1
            else:
                high = middle
        return None

    def crc(self, n: int) -> int:
        return int(struct.unpack_from(">I", self._data, self._crcs + 4 * n)[0])

    def spans(self, wanted: Set[bytes], length: int) -> list[Span]:
        """Those of the wanted objects that stand here, in the order of the pack; `length` is that of the pack file.

        Raises `Damaged` where the pack is too short for them.
        """
        starts: Sequence[int] = self._words(self._near)
        if max(starts, default=0) & _FAR:
            starts = [self._offset(n) for n in range(self.count)]
        crcs = self._words(self._crcs)
        if max(starts, default=0) >= length - 20:
            raise Damaged(f"{self.name}.pack is cut short")
        data = self._data
        if self.count < _FEW * len(wanted):
            oids = [data[i : i + 20] for i in range(_OIDS, self._crcs, 20)]
            order = sorted(range(self.count), key=starts.__getitem__)
            ends = [starts[n] for n in order[1:]]
            ends.append(length - 20)
            return [(oids[n], crcs[n], starts[n], end) for n, end in zip(order, ends, strict=True) if oids[n] in wanted]
        ordered = sorted(starts)
        ordered.append(length - 20)
        found = [(starts[n], oid, crcs[n]) for oid in wanted if (n := self._number(oid)) is not None]
        return [(oid, crc, at, ordered[bisect_right(ordered, at)]) for at, oid, crc in sorted(found)]

    def _words(self, at: int) -> array[int]:
        words = array("I", self._data[at : at + 4 * self.count])
        if sys.byteorder == "little":
            words.byteswap()
        return words

    def __iter__(self) -> Iterator[Placed]:
        """Every object, ordered by id."""
        return (Placed(self.oid(n), self.crc(n), self._offset(n)) for n in range(self.count))

    def places(self) -> Iterator[tuple[bytes, int]]:
        """Id and offset of every object: as iterating, but quick."""
        near = struct.unpack_from(f">{self.count}I", self._data, self._near)
        data = self._data
        at = _OIDS
        for n, offset in enumerate(near):
            yield data[at : at + 20], self._offset(n) if offset & _FAR else offset
            at += 20

    def by_offset(self) -> list[Placed]:
        """Every object in the order of the pack."""
        return sorted(self, key=lambda placed: placed.offset)
