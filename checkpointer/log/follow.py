"""Records as they come, to a reader that must hear of it when some are taken back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from checkpointer.errors import LogDamaged
from checkpointer.log.place import START, Cut, EventLog, Position
from checkpointer.record import Record

REMEMBERED = 4096
"""How many places a follower knows to come back to; a cut beyond them begins anew at 0."""


def follow(log: EventLog, after: Position, wait: Callable[[], bool]) -> Iterator[Record | Cut]:
    """`EventLog.follow`, for any log that can `read` and `find`."""
    known: deque[Position] = deque((after,), maxlen=REMEMBERED)
    while True:
        place = known[-1]
        try:
            for record in log.read(place):
                place = Position(record.seq, record.sum, place.offset + len(record.line) + 1)
                known.append(place)
                yield record
        except LogDamaged as e:
            if log.find(*place) is not None or e.seq > place.seq:
                raise
            yield Cut(_fall_back(log, known).seq)
            continue
        if not wait():
            return


def _fall_back(log: EventLog, known: deque[Position]) -> Position:
    """Forget the places that the log has no more; the newest that it has stays."""
    while known and known[-1].seq and log.find(*known[-1]) is None:
        known.pop()
    if not known:
        known.append(START)
    return known[-1]
