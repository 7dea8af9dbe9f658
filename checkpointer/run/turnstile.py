"""Who may run a call now: one at a time for each action, and one at a time of those that may write files.

The second holds for every run of the workspace, in all processes: where a call was cut off, the difference between
the tree before it and the tree now is then its own work. A process that dies lets go.
"""

from __future__ import annotations

import threading
from pathlib import Path

from checkpointer import disk
from checkpointer.errors import Busy
from checkpointer.lock import Lock

PAUSE = 0.01
"""Seconds between two looks of somebody who waits."""


class Turnstile:
    """Nothing here waits: `try_` methods say no. `path` is the lock file that the workspace's runs share."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inside: set[str] = set()
        self._mutex = threading.Lock()

    def try_enter(self, key: str) -> bool:
        """Take an action for this thread or task."""
        with self._mutex:
            if key in self._inside:
                return False
            self._inside.add(key)
            return True

    def leave(self, key: str) -> None:
        with self._mutex:
            self._inside.discard(key)

    def try_write(self, doing: str) -> Lock | None:
        """The right to write files, until it is released."""
        lock = Lock(self._path)
        with disk.plain_errors(str(self._path)):
            try:
                lock.acquire(doing, wait=0)
            except Busy:
                return None
        return lock
