"""Where hooks of one run meet: a gate that one of them passes at a time, a queue for those that do not wait, a journal.

    <store>/hooks/<run>/gate           held by the hook that works on the run
                        queue.lock     held for a moment, to add to the queue or to take it
                        queue taken    reports that nobody has worked on; those that somebody began to work on
                        journal        facts, one a line: see `checkpointer.run.session`
                        session.json   their fold

A report in the queue is worked on by whichever hook passes the gate next, so a burst costs one capture. All of it may
be deleted while no agent works: the log has what was told up to the end of the last turn.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from checkpointer import disk
from checkpointer.agents.dialects.report import Report
from checkpointer.errors import Busy
from checkpointer.lock import Gate
from checkpointer.run import session as sessions
from checkpointer.run.session import Fact, Session

PLENTY: Final = 256 << 10
"""Bytes in the queue above which a report that only says that files were looked at is dropped."""
FULL: Final = 4 << 20
"""Bytes above which any report is: then the end of the turn tells what changed."""


class Intake:
    """The meeting place of one run's hooks."""

    def __init__(self, store: Path, run: str) -> None:
        self.store = store
        self.run = run
        self.place = sessions.directory(store, run)
        self._gate = Gate(self.place / "gate")
        self._queue_gate = Gate(self.place / "queue.lock")

    def make(self) -> None:
        """Make the directory. Raises OSError."""
        if not self.place.is_dir():
            for missing in (self.place.parent, self.place):
                with contextlib.suppress(FileExistsError):
                    disk.make_directory(missing)

    def known(self) -> Session | None:
        """The session as its hooks left it."""
        return sessions.load(self.store, self.run)

    # -- the gate

    @contextlib.contextmanager
    def passed(self, wait: float) -> Iterator[bool]:
        """Hold the gate for the body; gives False, and does not hold it, if it is not free in time. Raises OSError."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._gate.held(wait=wait))
            except Busy:
                yield False
                return
            yield True

    def close(self) -> None:
        self._gate.close()
        self._queue_gate.close()

    # -- the queue

    def add(self, report: Report, *, needed: bool) -> bool:
        """Leave a report for whoever passes the gate next. False if there are too many; `needed` ones get more room."""
        line = json.dumps(report.as_json()).encode() + b"\n"
        with self._queue_gate.held(wait=5.0):
            fd = os.open(self.place / "queue", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(fd).st_size
                if size + len(line) > (FULL if needed else PLENTY):
                    return False
                if size and os.pread(fd, 1, size - 1) != b"\n":
                    line = b"\n" + line  # a kill cut the last one off
                disk.append(fd, line, durable=False)
            finally:
                os.close(fd)
        return True

    def take(self) -> list[Report]:
        """Everything that waits, oldest first. It is gone from the queue once `taken` is called. The gate is held."""
        queue, taken = self.place / "queue", self.place / "taken"
        found = _reports(taken)
        if not found and queue.exists():
            with self._queue_gate.held(wait=5.0):
                disk.rename(queue, taken)
            found = _reports(taken)
        return found

    def taken(self) -> None:
        """What was taken is in the journal."""
        disk.remove(self.place / "taken", missing_ok=True)

    @property
    def waits(self) -> bool:
        """Is there anything in the queue?"""
        return (self.place / "queue").exists() or (self.place / "taken").exists()

    # -- the journal

    def write(self, facts: list[Fact], session: Session) -> None:
        """Write facts down, durably; `session` has taken them in. Raises OSError."""
        if not facts:
            return
        data = b"".join(json.dumps(fact).encode() + b"\n" for fact in facts)
        path = self.place / sessions.JOURNAL
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                data = b"\n" + data
            disk.append(fd, data, path=path)
            session.offset = size + len(data)
        finally:
            os.close(fd)

    def keep(self, session: Session) -> None:
        """Keep the cache of a session. Raises OSError."""
        disk.replace(self.place / sessions.CACHE, session.encode(), durable=False)


def _reports(path: Path) -> list[Report]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    found = []
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            if line:
                found.append(Report.from_json(json.loads(line)))
    return found
