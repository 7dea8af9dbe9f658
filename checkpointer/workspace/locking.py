"""The workspace lock: one holder at a time, taken again within by whoever holds it, never held across a fork."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from checkpointer import disk
from checkpointer.lock import Lock


class WorkspaceLock:
    """A `Lock` that nests. A forked child does not hold it and must not go on as if it did."""

    def __init__(self, path: disk.AnyPath) -> None:
        self._lock = Lock(path)
        self._depth = 0

    @property
    def held(self) -> bool:
        return self._depth > 0

    @contextlib.contextmanager
    def hold(self, doing: str, wait: float) -> Iterator[None]:
        """Raises `Busy` naming the holder, `ReadOnlyStore`, `Failed`."""
        if not self._depth:
            with disk.plain_errors(self._lock.path):
                self._lock.acquire(doing, wait=wait)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._lock.release()
