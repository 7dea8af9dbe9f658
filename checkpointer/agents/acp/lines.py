"""A stream of lines whose lengths nobody promised: whole lines up to a limit, longer ones in pieces. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LIMIT: Final = 8 << 20
"""A line of more bytes than this is passed on in pieces as it comes, and only its beginning is looked at."""


@dataclass(frozen=True)
class Piece:
    """`first` and `last` say whether it begins and ends a line; a whole line is both. The line's end belongs to it."""

    data: bytes
    first: bool = True
    last: bool = True

    @property
    def whole(self) -> bool:
        return self.first and self.last


class Lines:
    """Takes bytes as they are read, gives pieces whose bytes joined are exactly those. Holds at most `limit` bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._searched = 0
        self._inside = False

    def feed(self, data: bytes) -> Iterator[Piece]:
        self._kept += data
        while True:
            end = self._kept.find(b"\n", self._searched) + 1
            if end:
                yield self._cut(end, last=True)
            elif len(self._kept) > self._limit or (self._inside and self._kept):
                yield self._cut(len(self._kept), last=False)
            else:
                self._searched = len(self._kept)
                return

    def rest(self) -> Iterator[Piece]:
        """What is left when the stream has ended: a last line without an end."""
        if self._kept:
            yield self._cut(len(self._kept), last=True)

    def _cut(self, end: int, *, last: bool) -> Piece:
        piece = Piece(bytes(self._kept[:end]), first=not self._inside, last=last)
        del self._kept[:end]
        self._searched, self._inside = 0, not last
        return piece
