"""Lines in, verified records out: what is whole, what is a torn tail, what is damage.

At most one write is unsynced at a time, and a write is kept or cut whole. So a line that cannot be right is a torn
tail if no later write follows it, and damage if one does: that one was written when this one was durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from checkpointer.errors import LogDamaged
from checkpointer.line import BadLine, peek
from checkpointer.log.place import Position

if TYPE_CHECKING:
    from checkpointer.line import Raw
    from checkpointer.log.glance import Glance
    from checkpointer.record import Record

R = TypeVar("R", "Record", "Raw", "Glance")
_NEWLINE = ord("\n")


def lost(why: str) -> LogDamaged:
    """Nothing is left of a log that was begun."""
    return LogDamaged(f"the log is damaged at event 1: {why}", seq=1, kept="no event is whole", next=("ckpt verify",))


class Scan(Iterable[R]):
    """Iterate for the records that `decode` makes of `lines`, which begin at `after` and keep their newlines.

    A write's records come only when all of them are there. When the iteration has ended, `position` is the end of the
    last whole write, and `torn` says why it ended before the lines did; empty if it did not. `begun`: a first event
    was durable before `lines` were looked at, so that none at all is damage.
    """

    def __init__(
        self, lines: Iterable[bytes], after: Position, decode: Callable[[bytes, str, int], R], *, begun: bool = False
    ) -> None:
        self._decode: Callable[[bytes, str, int], R] = decode
        self._lines = iter(lines)
        self._line = b""
        self._begun = begun
        self._seq, self._sum, self._offset = after
        self.torn = ""

    @property
    def position(self) -> Position:
        return Position(self._seq, self._sum, self._offset)

    def __iter__(self) -> Iterator[R]:
        for line in self._lines:
            self._line = line
            try:
                if line[-1] != _NEWLINE:
                    raise BadLine("its line does not end")
                record = self._decode(line[:-1], self._sum, self._seq + 1)
                event = record.event
                if event.w != event.seq:
                    raise BadLine("it belongs to a write whose beginning is not here")
                if event.n == 1:
                    self._seq, self._sum = event.seq, record.sum
                    self._offset += len(line)
                    yield record
                    continue
                records = self._rest(record)
            except BadLine as e:
                self._judge(self._seq + 1, str(e))
                break
            self._seq, self._sum = records[-1].seq, records[-1].sum
            self._offset += sum(len(record.line) + 1 for record in records)
            yield from records
        if self._begun and not self._seq:
            raise lost(self.torn or "it is empty")

    def _rest(self, first: R) -> tuple[R, ...]:
        """The records of a write of several lines. Raises `BadLine` if one is not there or not right."""
        records, record = [first], first
        w, n = first.event.seq, first.event.n
        for seq in range(w + 1, w + n):
            self._line = line = next(self._lines, b"")
            if line[-1:] != b"\n":
                raise BadLine("its write does not end")
            record = self._decode(line[:-1], record.sum, seq)
            event = record.event
            if event.w != w or event.n != n:
                raise BadLine("it belongs to another write")
            records.append(record)
        return tuple(records)

    def _judge(self, seq: int, why: str) -> None:
        """The write that begins with event `seq` is not whole. Raises `LogDamaged` if another write follows it."""
        head = peek(self._line.removesuffix(b"\n"))
        follows = head is not None and head.w > seq
        for line in self._lines:
            head = peek(line.removesuffix(b"\n"))
            follows = follows or (head is not None and (head.w > seq or (head.w == seq and head.n == 1)))
        if follows:
            raise LogDamaged(
                f"the log is damaged at event {seq}: {why}",
                seq=seq,
                kept=f"events 1 to {seq - 1} are whole",
                next=("ckpt verify",),
            )
        self.torn = why
