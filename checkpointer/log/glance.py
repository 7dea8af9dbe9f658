"""A log looked at: verified lines with their facts as plain values, without the vocabulary, which takes long to load.

Only for telling people what is in a log. What is decided from a log is decided from events (`record.decode`). Lines of
an older version are given as they are: what has other words there is left out by whoever looks for it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checkpointer import canon
from checkpointer.errors import CheckpointerError, Failed, NoStore
from checkpointer.line import Head, check, facts_of, peek
from checkpointer.log.place import START
from checkpointer.log.scan import Scan, lost

VERSION = 1
"""The newest version that any type of event has. A line of a later one is for `upcasters` to refuse by name."""

TYPES = frozenset(
    (
        "run_started", "run_resumed", "run_released", "run_finished", "log_redacted", "user_message", "model_turn",
        "context_compacted", "context_rewound", "memory_written", "tool_call_started", "tool_call_completed",
        "tool_call_uncertain", "tool_call_reconciled", "approval_requested", "approval_decided", "guardrail_triggered",
        "workspace_changed",
    )
)  # fmt: skip


_TAIL = 1 << 16
_LAST_TYPES = (b'"type":"run_finished"', b'"type":"run_released"')


class Glance:
    """One verified line. `event` is its head, `facts` what stands under the chain."""

    __slots__ = ("_at", "event", "facts", "line", "sum")

    def __init__(self, event: Head, facts: dict[str, Any], line: bytes, total: str, at: int) -> None:
        self.event = event
        self.facts = facts
        self.line = line
        self.sum = total
        self._at = at

    @property
    def seq(self) -> int:
        return self.event.seq

    def contents(self, fetch: Callable[[str], bytes]) -> Mapping[str, Any]:
        """What was said; a part that cannot be read, or was redacted, is left out."""
        if not self._at:
            return {}
        try:
            found = dict(canon.loads(self.line[self._at : -1]))
            for name, held in dict(found.pop("objects", {})).items():
                found[name] = canon.loads(fetch(held["sha256"]))
        except (ValueError, KeyError, TypeError, CheckpointerError):
            return {}
        return found


def _decode(line: bytes, previous: str, seq: int) -> Glance:
    """Raises `BadLine`, `NewerFormat`."""
    head, e, total, at = check(line, previous, seq)
    if head.v > VERSION or head.type not in TYPES:
        from checkpointer import upcasters

        upcasters.check(head.type, head.v)
    return Glance(head, facts_of(e), line, total, at)


def runs(directory: str) -> list[str]:
    """The names of the runs below a directory: those that have a log, or had one."""
    try:
        with os.scandir(directory) as entries:
            names = (e for e in entries if not e.name.startswith("."))  # one that is being deleted, or made
            return sorted(
                e.name for e in names if os.path.exists(os.path.join(e.path, "events.jsonl")) or was_begun(e.path)
            )
    except FileNotFoundError:
        return []


def was_begun(directory: str) -> bool:
    """Is a first event of the run in a directory known to have been durable? A lease is written after one."""
    return os.path.exists(os.path.join(directory, "lease.json"))


def last_line(directory: str) -> bytes:
    """The end of the log in a run's directory after its last newline but one; empty where there is none to read."""
    with contextlib.suppress(OSError), open(os.path.join(directory, "events.jsonl"), "rb") as f:
        size = f.seek(0, os.SEEK_END)
        f.seek(max(0, size - _TAIL))
        return f.read().removesuffix(b"\n").rpartition(b"\n")[2]
    return b""


def has_ended(directory: str) -> bool:
    """Does the log's last line end or release the run? A look at the file's end; False where that cannot be told."""
    line = last_line(directory)
    return any(kind in line for kind in _LAST_TYPES) and peek(line) is not None


def mentions(directory: str, types: Sequence[str]) -> bool:
    """May the log in a run's directory hold an event of one of these types? True where it cannot be read."""
    wanted = [f'"type":"{name}"'.encode() for name in types]
    try:
        with open(os.path.join(directory, "events.jsonl"), "rb") as f:
            return any(one in line[:200] for line in f for one in wanted)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def look(directory: str) -> Scan[Glance]:
    """The whole records of the log in a run's directory. Raises `NoStore`, `Failed`; the iteration `LogDamaged`."""
    run = os.path.basename(directory)
    begun = was_begun(directory)  # before the log is looked at, which may be begun just now
    try:
        file = open(os.path.join(directory, "events.jsonl"), "rb", buffering=1 << 20)  # noqa: SIM115
    except FileNotFoundError as e:
        if begun and os.path.isdir(directory):
            raise lost("its file is gone") from e
        raise NoStore(f"run {run} has no log") from e
    except OSError as e:
        raise Failed(f"the log of run {run} cannot be read: {e.strerror}") from e

    def lines() -> Any:
        with file:
            yield from file

    return Scan(lines(), START, _decode, begun=begun)
