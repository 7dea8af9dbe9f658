"""The hook log: what went wrong in hooks, which must not say so themselves. Bounded; no more than a help for people."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path

from checkpointer import caller, disk
from checkpointer.places import home_directory

LIMIT = 256 << 10
NAME = "hooks.log"


def write(store: Path | None, agent: str, event: str, text: str) -> None:
    """Add a line. Never raises. At its limit the older half goes."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = f"{at} {caller.pid()} {agent} {event or '-'}: {' '.join(text.split())[:2000]}\n"
    for directory in (store, home_directory()):
        if directory is None:
            continue
        with contextlib.suppress(OSError):
            _add(directory / NAME, line.encode("utf-8", "backslashreplace"))
            return


def _add(path: Path, line: bytes) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        size = os.fstat(fd).st_size
        if size > LIMIT:
            kept = os.pread(fd, LIMIT // 2, size - LIMIT // 2)
            disk.replace(path, kept[kept.find(b"\n") + 1 :] + line, durable=False)
            return
        disk.append(fd, line, path=path, durable=False)
    finally:
        os.close(fd)
