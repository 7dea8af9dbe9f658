"""A directory of our own on the storage that is measured, gone afterwards, also where its process was killed."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from checkpointer import disk
from checkpointer.errors import CheckpointerError
from checkpointer.lock import Lock

_PREFIX = ".bench-"
_NEW = 60
"""Seconds."""


@contextlib.contextmanager
def corner(beside: Path) -> Iterator[tuple[str, bool]]:
    """A private directory in `beside`, and True; where nothing can be written there, one among the temporary files, and
    False. What a killed process left in `beside` is removed first.
    """
    _sweep(beside)
    try:
        made, there = tempfile.mkdtemp(prefix=_PREFIX, dir=beside), True
    except OSError:
        made, there = tempfile.mkdtemp(prefix=f"ckpt{_PREFIX}"), False
    lock = Lock(os.path.join(made, "lock"))
    try:
        lock.acquire("ckpt bench")
        yield made, there
    finally:
        lock.release()
        disk.remove_tree(made)


def _sweep(beside: Path) -> None:
    """A directory whose lock is free is nobody's any more: its process died. One that is being made has none yet."""
    with contextlib.suppress(OSError):
        for name in os.listdir(beside):
            if not name.startswith(_PREFIX) or os.stat(beside / name).st_mtime > time.time() - _NEW:
                continue
            with contextlib.suppress(OSError, CheckpointerError):
                lock = Lock(beside / name / "lock")
                with lock.held("ckpt bench", wait=0):
                    disk.remove_tree(beside / name)
