"""A longer log in the manner of a short one: its own events over and over, under new keys, in a file of our own.

What was said in them is not copied: as many bytes of filling stand in its place. Nothing but the fold decides what may
follow what; an event that it refuses at its place is left out.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from checkpointer import record
from checkpointer.errors import IllegalEvent
from checkpointer.events import AcceptedCall, AnyEvent, TurnSlot
from checkpointer.line import NO_SUM, digest, parts
from checkpointer.record import Record
from checkpointer.state import EMPTY, RunState, apply

_SALT = "0" * 32
_KEYS = ("key", "parent", "compensates", "signature")
_SEQS = ("from_seq", "to_seq")


class Lengthened(NamedTuple):
    """How many events were written, and which share of those that were to be repeated the fold refused."""

    events: int
    refused: float


def lengthen(records: Sequence[Record], path: str, count: int, until: float) -> Lengthened | None:
    """Write about `count` events, or as many as there is time for `until` the monotonic clock says. None where there
    is nothing to repeat: the log holds only its beginning.
    """
    body = _whole(records)
    if not body:
        return None
    tried = 0
    with open(path, "wb") as f:
        state, total = _put(f, EMPTY, NO_SUM, records[0].event, _filling(records[0]))
        for turn in itertools.count():
            seqs: dict[int, int] = {}
            before = state.seq
            for one in body:
                tried += 1
                with contextlib.suppress(IllegalEvent):
                    state, total = _put(f, state, total, _renamed(one.event, turn, seqs), _filling(one))
                    seqs[one.seq] = state.seq
                if state.seq >= count or time.monotonic() >= until:
                    return Lengthened(state.seq, 1 - (state.seq - 1) / tried)
            if state.seq == before:
                return None
    raise AssertionError


def _whole(records: Sequence[Record]) -> list[Record]:
    """What can be repeated: up to the last place at which no call was open, if there is one."""
    state, quiet = EMPTY, 0
    for n, one in enumerate(records, 1):
        state = apply(state, one.event)
        quiet = quiet if state.live else n
    body = [one for one in records[:quiet] if one.event.group != "run"]
    return body or [one for one in records if one.event.group != "run"]


def _put(file: Any, state: RunState, total: str, event: AnyEvent, filling: bytes) -> tuple[RunState, str]:
    """Write one event where the fold takes it. Raises `IllegalEvent`."""
    seq = state.seq + 1
    event = event.model_copy(update={"seq": seq, "w": seq, "n": 1, "v": event.version, "id": f"{seq:032x}", "epoch": 1})
    state = apply(state, event)
    line = record.encode_redacted(event, total, digest(_SALT.encode() + filling))
    file.write(line.line[:-2] + b',"salt":"%b","d":%b}\n' % (_SALT.encode(), filling))
    return state, line.sum


def _filling(one: Record) -> bytes:
    """As many bytes as the contents have: a replay only ever takes their digest."""
    at = parts(one.line)[2]
    size = len(one.line) - at - 1 if at else 0
    return b'{"x":"%b"}' % (b"x" * (size - 8)) if size > 8 else b"{}"


def _renamed(event: AnyEvent, turn: int, seqs: Mapping[int, int]) -> AnyEvent:
    """The event as one of another time round: other names, other places."""
    more: dict[str, Any] = {}
    for name in _KEYS:
        if isinstance(known := getattr(event, name, None), str):
            more[name] = f"{known}/{turn}"
    for name in _SEQS:
        if isinstance(seq := getattr(event, name, None), int):
            more[name] = seqs.get(seq, 0)
    slot = getattr(event, "slot", None)
    if isinstance(slot, str):
        more["slot"] = f"{slot}/{turn}"
    elif isinstance(slot, TurnSlot):
        more["slot"] = TurnSlot(seq=seqs.get(slot.seq, 0), index=slot.index)
    calls = getattr(event, "calls", None)
    if calls:
        more["calls"] = tuple(_call(one, turn) for one in calls)
    return event.model_copy(update=more)


def _call(one: AcceptedCall, turn: int) -> AcceptedCall:
    signature = f"{one.signature}/{turn}" if one.signature is not None else None
    return one.model_copy(update={"key": f"{one.key}/{turn}", "signature": signature})
