"""A line of a log as bytes: where it says that it belongs, its parts, its digests; nothing of what it means.

The form stands in `record`, which knows the events. What only looks at logs (`ckpt log`, `ckpt status`) needs no more
than this, and loads in a tenth of the time.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any, Final, NamedTuple

from checkpointer import canon

NO_SUM: Final = ""
SALT_HEX: Final = 32

HEAD = re.compile(rb'\{"e":\{"seq":(\d+),"w":(\d+),(?:"n":(\d+),)?"v":(\d+),"type":"([a-z0-9_]+)",')
SEAM = b'"},"sum":"'
_SALT = b'","salt":"'
_D = b'","d":{'


class BadLine(ValueError):
    """These bytes are no record: torn, changed, or written by something else."""


class Head(NamedTuple):
    """Where a line says that it belongs, before anything is verified."""

    seq: int
    w: int
    n: int
    v: int
    type: str


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def head_of(line: bytes) -> Head:
    found = HEAD.match(line)
    if found is None:
        raise BadLine("no record")
    seq, w, n, v, name = found.groups()
    return Head(int(seq), int(w), int(n or 1), int(v), name.decode())


def peek(line: bytes) -> Head | None:
    """Where a line says it belongs, if it is whole in itself: its contents fit its `dd`. The chain is not checked."""
    try:
        head = head_of(line)
        e, _, _ = parts(line)
        json.loads(e)
        return head
    except (ValueError, RecursionError):
        return None


class Raw(NamedTuple):
    """A line verified to be in its place, and nothing else: its type may be unknown. `d` is None if redacted."""

    event: Head
    line: bytes
    sum: str
    e: dict[str, Any]
    d: dict[str, Any] | None

    @property
    def seq(self) -> int:
        return self.event.seq


def check(line: bytes, previous: str, seq: int) -> tuple[Head, bytes, str, int]:
    """A line verified to be number `seq` after the sum `previous`. Raises `BadLine`.

    Its head, the stored bytes of `e`, its sum, and where those of `d` begin (0: redacted).
    """
    head = head_of(line)
    e, total, at = parts(line)
    if head.seq != seq or digest(previous.encode() + e) != total:
        raise BadLine("it does not follow the event before it")
    return head, e, total, at


def facts_of(e: bytes) -> dict[str, Any]:
    """The stored bytes of `e` as values. Raises `BadLine`."""
    try:
        return dict(canon.loads(e))
    except (canon.NotJson, TypeError) as error:
        raise BadLine(str(error)) from error


def raw(line: bytes, previous: str, seq: int) -> Raw:
    """A line as `record.decode` would verify it, whatever its type and version. Raises `BadLine`."""
    head, e, total, at = check(line, previous, seq)
    return Raw(head, line, total, facts_of(e), facts_of(line[at:-1]) if at else None)


def parts(line: bytes) -> tuple[bytes, str, int]:
    """Stored bytes of `e`, the unchecked sum, where those of `d` begin (0: redacted). Raises `BadLine`."""
    seam = line.find(SEAM)
    if seam < 0:
        raise BadLine("no record")
    e = line[5 : seam + 2]
    after = seam + len(SEAM) + 64
    total = line[after - 64 : after].decode("ascii", "replace")
    if len(line) == after + 2 and line.endswith(b'"}'):
        return e, total, 0
    salt = after + len(_SALT)
    at = salt + SALT_HEX + len(_D) - 1
    if line[after:salt] != _SALT or line[salt + SALT_HEX : at + 1] != _D or not line.endswith(b"}}"):
        raise BadLine("no record")
    dd = sha256(line[salt : salt + SALT_HEX])
    dd.update(memoryview(line)[at:-1])
    if dd.hexdigest().encode() != e[-66:-2]:
        raise BadLine("its contents are not what was written")
    return e, total, at
