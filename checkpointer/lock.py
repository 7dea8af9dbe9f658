"""Exclusive locks on files that are never renamed or removed: one that is held once, one that is taken many times."""

from __future__ import annotations

import contextlib
import errno
import os
import time
import weakref
from collections.abc import Iterator

from checkpointer import disk
from checkpointer.disk import AnyPath
from checkpointer.errors import Busy

_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """An advisory exclusive lock on a file that is never renamed or removed. Not inherited, not re-entrant.

    The file holds the holder's process number and what it does, for the message of those who wait.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = os.fsdecode(os.fspath(path))
        self.fd: int | None = None

    def acquire(self, doing: str, *, wait: float = 10.0) -> None:
        """Take the lock, waiting up to `wait` seconds. Raises `Busy` naming the holder, or OSError."""
        assert self.fd is None, "not re-entrant"
        fd = disk.open_lock(self.path)
        deadline = time.monotonic() + wait
        pause = 0.001
        try:
            while not disk.try_lock(fd, self.path):
                if time.monotonic() >= deadline:
                    raise Busy(f"waited {wait:g} s: {self.holder()}", kept="nothing was written")
                time.sleep(pause)
                pause = min(pause * 2, 0.05)
            with contextlib.suppress(OSError):  # a full disk must not keep anybody from restoring
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()} {doing}\n".encode(), 0)
        except BaseException:
            os.close(fd)
            raise
        self.fd = fd
        _locks.add(self)

    def holder(self) -> str:
        """Who holds or last held it, in words."""
        try:
            with open(self.path, encoding="utf-8", errors="replace") as f:
                pid, _, doing = f.read(200).strip().partition(" ")
        except OSError:
            pid = doing = ""
        return f"process {pid} ({doing}) is at work on this workspace" if pid else "another process is at work here"

    def release(self) -> None:
        """Let go; without effect when not held."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    @contextlib.contextmanager
    def held(self, doing: str, *, wait: float = 10.0) -> Iterator[None]:
        self.acquire(doing, wait=wait)
        try:
            yield
        finally:
            self.release()


class Gate:
    """An exclusive lock that one process takes and leaves many times: its file stays open, and holds no note.

    A forked child shares the open file, so that a child's hold would be its parent's: it must make a gate of its own.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = os.fsdecode(os.fspath(path))
        self._fd: int | None = None
        self._pid = 0

    @contextlib.contextmanager
    def held(self, *, wait: float = 10.0) -> Iterator[None]:
        """Hold the lock for the body. Raises `Busy` after `wait` seconds, or OSError."""
        if self._pid != os.getpid():
            self._fd = disk.open_lock(self.path)
            self._pid = os.getpid()
        fd = self._fd
        assert fd is not None
        self._wait(fd, wait)
        try:
            if os.stat(self.path).st_ino != os.fstat(fd).st_ino:  # its directory was removed while we waited
                self.close()
                raise FileNotFoundError(errno.ENOENT, "the lock is gone", self.path)
            yield
        finally:
            if self._fd is not None:
                disk.unlock(fd)

    def _wait(self, fd: int, wait: float) -> None:
        deadline = time.monotonic() + wait
        pause = 0.0005
        while not disk.try_lock(fd, self.path):
            if time.monotonic() >= deadline:
                raise Busy(f"waited {wait:g} s for {self.path}", kept="nothing was written")
            time.sleep(pause)
            pause = min(pause * 2, 0.02)

    def close(self) -> None:
        """Close the file; a later hold opens it again."""
        if self._fd is not None and self._pid == os.getpid():
            os.close(self._fd)
        self._fd, self._pid = None, 0


def _after_fork_in_child() -> None:
    """Close inherited lock descriptors, so that only the parent holds them."""
    for lock in list(_locks):
        lock.release()


os.register_at_fork(after_in_child=_after_fork_in_child)
