"""A file of lines: reading it, and finding a place in it again."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from checkpointer.line import BadLine
from checkpointer.log.place import Position
from checkpointer.record import decode

CHUNK = 1 << 20


def lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines from where the file stands, newlines kept; the file is closed at the end."""
    with file:
        yield from file


def line_before(file: BinaryIO, offset: int) -> bytes | None:
    """The line that ends, newline and all, at `offset`; None if none does."""
    if offset <= 0 or os.fstat(file.fileno()).st_size < offset:
        return None
    start, found = offset, b""
    while start > 0 and found.count(b"\n", 0, -1) == 0:
        step = min(4096 + len(found), start)
        start -= step
        found = os.pread(file.fileno(), offset - start, start)
    if not found.endswith(b"\n"):
        return None
    return found[found.rfind(b"\n", 0, -1) + 1 :]


def ends_at(file: BinaryIO, place: Position) -> bool:
    """Does the record of this seq and sum end at this offset?"""
    if place.seq == 0:
        return place == Position()
    line = line_before(file, place.offset)
    try:
        return line is not None and decode(line[:-1], None, place.seq).sum == place.sum
    except BadLine:
        return False


class Starts:
    """Where the lines of a file begin: looked for once, then remembered while the file is the same one."""

    def __init__(self) -> None:
        self._starts = array("Q", [0])
        self._inode = 0

    def read(self, file: BinaryIO, seqs: Sequence[int]) -> list[bytes]:
        """These lines, without newlines, empty where there is none. Line 1 is the first."""
        st = os.fstat(file.fileno())
        if st.st_ino != self._inode or st.st_size < self._starts[-1]:
            self._starts, self._inode = array("Q", [0]), st.st_ino
        if seqs and max(seqs) >= len(self._starts):
            self._look(file)
        found = []
        for seq in seqs:
            if not 0 < seq < len(self._starts):
                found.append(b"")
                continue
            start, end = self._starts[seq - 1], self._starts[seq]
            found.append(os.pread(file.fileno(), end - start, start)[:-1])
        return found

    def _look(self, file: BinaryIO) -> None:
        offset = self._starts[-1]
        file.seek(offset)
        for line in file:
            if line.endswith(b"\n"):
                offset += len(line)
                self._starts.append(offset)
