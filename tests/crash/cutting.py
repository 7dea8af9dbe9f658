"""Cut a piece of work short: at its n-th durable verb, at its n-th change of anything at all, or by a real SIGKILL."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpointer import disk

Act = Callable[[], object]

KILLED = 77
_CHANGING = (
    "chmod",
    "fchmod",
    "chown",
    "fchown",
    "link",
    "mkdir",
    "mkfifo",
    "rename",
    "replace",
    "rmdir",
    "symlink",
    "ftruncate",
    "unlink",
    "utime",
    "write",
    "pwrite",
    "fsync",
    "fdatasync",
)


class Count:
    """Counts calls and ends the process, as a cut of power does, right before the n-th."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.calls = 0

    def __call__(self, verb: str, path: object) -> None:
        self.calls += 1
        if self.calls == self.limit:
            os._exit(KILLED)


def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies takes nothing with it that it gave to the system: its syncs only cost time here."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None, raising=False)
    monkeypatch.setattr(disk, "sync_file_system", lambda fd: disk._announce("sync_file_system", fd))


def at_verbs(count: Count) -> None:
    """Count the durable verbs."""
    disk.probe = count


def at_changes(count: Count) -> None:
    """Count every call of this process that changes anything on a disk: what lies between the verbs too."""
    for name in _CHANGING:
        real = getattr(os, name)

        def counted(*args: Any, real: Any = real, name: str = name, **kwargs: Any) -> Any:
            count(name, args[0])
            return real(*args, **kwargs)

        setattr(os, name, counted)
    real_open = os.open

    def opened(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & (os.O_CREAT | os.O_TRUNC):
            count("open", path)
        return real_open(path, flags, *args, **kwargs)

    os.open = opened


def cut(act: Act, n: int, how: Callable[[Count], None] = at_verbs) -> bool:
    """Do it in a child that dies before its n-th call. False: it came to its end, n was too large."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            how(Count(n))
            act()
            status = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, KILLED), f"it failed by itself at {n}: {status}"
    return status == KILLED


def killed_after(act: Act, seconds: float) -> bool:
    """Do it in a child that gets a SIGKILL. False: it was faster."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def copied(template: Path, place: Path) -> Path:
    """An exact copy of a directory, fifos and times too."""
    if place.exists():
        subprocess.run(["chmod", "-R", "u+rwx", str(place)], check=True)
        shutil.rmtree(place)
    subprocess.run(["cp", "-a", str(template), str(place)], check=True)
    return place
