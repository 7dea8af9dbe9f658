"""Snapshots of a driven run, so that its next resume need not replay everything: when it is let go, and while it works.

Best effort: a snapshot is a cache, so one that cannot be written is only not there. Nothing waits for one but the
thread that happens to write it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Final

from checkpointer import replay
from checkpointer.errors import CheckpointerError
from checkpointer.log import Folded, JsonlLog
from checkpointer.run import telemetry
from checkpointer.snapshot import Snapshots

TAIL: Final = 1000
"""A run that is let go keeps a snapshot if more events than this came since the newest one: fewer are replayed in less
time than a process takes to start."""
_KEPT: Final = 2


class Keeper:
    """`every` is after how many events one is written while the run works; 0 for none before its end."""

    def __init__(self, log: JsonlLog, every: int = 0) -> None:
        self._snapshots = of(log)
        self._every = every
        self._newest = next(iter(self._snapshots.seqs()), 0)
        self._due = self._newest + every if every else 0
        self._mutex = threading.Lock()

    def wrote(self, known: Folded) -> None:
        """Events were appended: `known` is what is durable now."""
        if self._due and known.position.seq >= self._due and self._mutex.acquire(blocking=False):
            try:
                if known.position.seq >= self._due:
                    self._due = known.position.seq + self._every
                    self._save(known)
            finally:
                self._mutex.release()

    def let_go(self, known: Folded) -> None:
        """The run is let go, or over: `known` is all of it."""
        with self._mutex:
            if known.position.seq - self._newest > TAIL and known.state.status != "finished":
                self._save(known)

    def _save(self, known: Folded) -> None:
        if self._snapshots.quarantined:
            return
        with contextlib.suppress(CheckpointerError, OSError):
            counters = replay.Counters()
            replay.save(self._snapshots, known, counters)
            telemetry.count("ckpt.snapshot.write.duration", counters.snapshot_write_ms / 1000)
            self._newest = known.position.seq
            self._snapshots.drop(_KEPT)


def of(log: JsonlLog) -> Snapshots:
    """The snapshots of a run."""
    return Snapshots(os.path.join(log.directory, "snapshots"))
