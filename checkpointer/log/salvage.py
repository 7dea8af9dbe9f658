"""Reading on past damage: to show what is left, never to act on it.

A log that is damaged in the middle is refused by everything that folds it. For a person who wants to see what is
still there, this gives every line that is whole in itself, and names the stretches that are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from checkpointer.errors import CheckpointerError
from checkpointer.line import BadLine, peek
from checkpointer.log.jsonl import JsonlLog
from checkpointer.record import Record, decode


class Damage(NamedTuple):
    """Lines (from 1) that cannot be trusted, and why. `tail`: nothing whole follows, as after a torn write."""

    first: int
    last: int
    why: str
    tail: bool


def salvage(log: JsonlLog) -> Iterator[Record | Damage]:
    """The records that are whole in themselves, in the order of the file, and the damage between them.

    A record after damage is given although nothing proves that it belongs there; one that does not follow the record
    before it is preceded by a `Damage` of its own line. Raises `NoStore`.
    """
    bad: list[tuple[int, str]] = []
    total: str | None = ""
    number = 0
    with log.open() as file:
        for number, line in enumerate(file, 1):
            found, why = _whole(line, total)
            if why:
                bad.append((number, why))
            if found is None:
                total = None
                continue
            if bad:
                yield Damage(bad[0][0], bad[-1][0], bad[0][1], tail=False)
                bad = []
            total = found.sum
            yield found
    if bad:
        yield Damage(bad[0][0], number, bad[0][1], tail=True)


def _whole(line: bytes, total: str | None) -> tuple[Record | None, str]:
    """The record of a line, if it is whole, and what is wrong with it."""
    body = line.removesuffix(b"\n")
    head = peek(body)
    if head is None or body == line:
        return None, "no record" if body != line else "its line does not end"
    try:
        return decode(body, total, head.seq), ""
    except BadLine as e:
        return decode(body, None, head.seq), str(e)
    except CheckpointerError as e:
        return None, e.message
