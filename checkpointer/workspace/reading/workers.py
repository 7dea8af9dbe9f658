"""Forked workers that scan parts of a workspace: each does whole sub-trees, and tells what it found through a pipe.

A worker holds no lock, changes nothing but its own pack, and ends when its parent does. The sub-trees are handed out
one at a time through a pipe that all read from, so that nobody waits while there is work. Small results are given to
the parent's sink; only a worker with much to write makes a pack of its own.
"""

from __future__ import annotations

import contextlib
import marshal
import mmap
import os
import select
import signal
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from checkpointer.errors import CaptureFailed
from checkpointer.workspace.odb.objects import CHUNK, ObjectType, Reopen, Sink, oid_of, read_small
from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.reading.gathering import Gathering
from checkpointer.workspace.reading.reader import KEPT

RELAYED = 1 << 20
"""Bytes of new objects that a worker hands to its parent instead of writing a pack."""

_GRACE = 2.0
_DONE, _FAILED = b"+", b"-"
_UNIT = struct.Struct("=I")
_COUNTS = struct.Struct("=QQ")


class Added(NamedTuple):
    """Objects for the parent to add, names of packs that a worker finished, and stored objects these rely on."""

    objects: list[tuple[ObjectType, bytes]]
    packs: list[str]
    relied: set[bytes]


class TooMuch(Exception):
    """More was added than can be handed to a parent whose sink cannot be forked."""


class Relay:
    """A worker's sink: keeps little in memory for the parent, and turns into a pack when it becomes much."""

    def __init__(self, sink: Sink) -> None:
        self._fork = sink.fork if isinstance(sink, PackWriter) else None
        self._pack: PackWriter | None = None
        self._held: dict[bytes, tuple[ObjectType, bytes]] = {}
        self._bytes = 0

    def _full(self) -> PackWriter:
        if self._pack is None:
            if self._fork is None:
                raise TooMuch
            self._pack = self._fork()
            for type, data in self._held.values():
                self._pack.add(type, data)
            self._held.clear()
        return self._pack

    def add(self, type: ObjectType, data: bytes) -> bytes:
        if self._pack is not None:
            return self._pack.add(type, data)
        oid = oid_of(type, data)
        if oid not in self._held:
            self._bytes += len(data)
            if self._bytes > RELAYED:
                return self._full().add(type, data)
            self._held[oid] = (type, data)
        return oid

    def add_stream(self, fd: int, size: int, reopen: Reopen | None = None) -> tuple[bytes, int]:
        if self._pack is None and size <= CHUNK:
            data = read_small(fd, size)
            if data is not None:
                return self.add("blob", data), len(data)
        return self._full().add_stream(fd, size, reopen)

    def finish(self) -> Added:
        """What the parent must add itself, and what it must know of the pack."""
        if self._pack is None:
            return Added(list(self._held.values()), [], set())
        self._pack.finish()
        return Added([], self._pack.packs, self._pack.relied)

    def abort(self) -> None:
        if self._pack is not None:
            self._pack.abort()


def take_over(gathering: Gathering, added: Added) -> None:
    """Bring into the parent's sink what a worker added."""
    for type, data in added.objects:
        gathering.add(type, data)
    sink = gathering.sink
    if isinstance(sink, PackWriter) and added.packs:
        sink.packs.extend(added.packs)
        sink.relied |= added.relied
        sink.objects.refresh()


class Ended(BaseException):
    """In a worker: the parent is gone or does not want the work any more."""


class Counters:
    """How far each worker is, in memory shared with the parent."""

    def __init__(self, workers: int) -> None:
        self._memory = mmap.mmap(-1, max(1, workers) * _COUNTS.size)
        self._workers = workers

    def put(self, worker: int, files: int, size: int) -> None:
        _COUNTS.pack_into(self._memory, worker * _COUNTS.size, files, size)

    def total(self) -> tuple[int, int]:
        counts = [_COUNTS.unpack_from(self._memory, i * _COUNTS.size) for i in range(self._workers)]
        return sum(c[0] for c in counts), sum(c[1] for c in counts)

    def close(self) -> None:
        self._memory.close()


class Worker:
    """One forked process, from the parent's side."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        self.fd = fd
        self.parts: list[bytes] = []
        self.status: int | None = None

    def take(self) -> bool:
        """Read what there is; False at the end of it."""
        data = os.read(self.fd, 1 << 20)
        self.parts.append(data)
        return bool(data)

    def result(self) -> Any:
        """What it did. Raises what it raised, or `CaptureFailed` where it died."""
        self.wait()
        data = b"".join(self.parts)
        if not data:
            raise CaptureFailed(f"a worker process ended early (status {self.status})", kept=KEPT)
        if data[:1] == _DONE:
            return marshal.loads(data[1:])
        import pickle

        raise pickle.loads(data[1:])  # from our own child, through a pipe that nobody else has

    def wait(self) -> None:
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def end(self) -> None:
        """Make it stop and wait until it has."""
        if self.status is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                return
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Crew:
    """Workers on numbered units. Use as a context manager: at its end no process of it is left."""

    def __init__(self, units: int) -> None:
        self._read, write = os.pipe()
        try:
            os.set_blocking(write, False)
            self.handed = os.write(write, b"".join(_UNIT.pack(i) for i in range(units))) // _UNIT.size
        finally:
            os.close(write)
        self.workers: list[Worker] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self.workers:
            worker.end()
            worker.close()
        os.close(self._read)

    def next(self) -> int | None:
        """The number of a unit that nobody else does; None when all are handed out."""
        data = os.read(self._read, _UNIT.size)
        return int(_UNIT.unpack(data)[0]) if data else None

    def start(self, work: Callable[[Callable[[], int | None]], Any], cleanup: Callable[[], None]) -> None:
        """Fork a worker that calls `work` with `next`, for a value that `marshal` takes.

        `cleanup` is called in it when it must stop.
        """
        read, write = os.pipe()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            pid = os.fork()
            if not pid:
                self._in_worker(work, cleanup, write, blocked)
            self.workers.append(Worker(pid, read))
        except OSError:
            os.close(read)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.close(write)

    def _in_worker(
        self,
        work: Callable[[Callable[[], int | None]], Any],
        cleanup: Callable[[], None],
        write: int,
        blocked: set[Any],
    ) -> NoReturn:
        status = 1
        try:
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
                signal.signal(number, signal.SIG_IGN)  # the parent decides
            for number in (signal.SIGCHLD, signal.SIGWINCH, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, _end)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked - {signal.SIGTERM})

            try:
                try:
                    data = _DONE + marshal.dumps(work(self.next))
                except Exception as e:
                    data = _FAILED + _pickled(e)
                    cleanup()
                view = memoryview(data)
                while view:
                    view = view[os.write(write, view) :]
                status = 0
            except (Ended, BrokenPipeError):
                cleanup()
        finally:
            os._exit(status)

    def gather(self, waiting: Callable[[], None], every: float = 0.1) -> list[Any]:
        """Wait for every worker's result. Raises what a worker raised."""
        open_ = {worker.fd: worker for worker in self.workers}
        poll = select.poll()
        for fd in open_:
            poll.register(fd, select.POLLIN | select.POLLHUP)
        while open_:
            for fd, _ in poll.poll(every * 1000):
                if not open_[fd].take():
                    poll.unregister(fd)
                    del open_[fd]
            waiting()
        return [worker.result() for worker in self.workers]


def _end(number: int, frame: object) -> NoReturn:
    raise Ended


def require_parent(parent: int) -> None:
    """In a worker: raise `Ended` when the parent is gone."""
    if os.getppid() != parent:
        raise Ended


def _pickled(error: Exception) -> bytes:
    import pickle

    try:
        return pickle.dumps(error)
    except Exception:
        return pickle.dumps(CaptureFailed(f"a worker process failed: {error!r}", kept=KEPT))


def alone() -> bool:
    """Is there no other thread in this process? Only then may it fork: a lock held elsewhere would stay held."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        import threading

        return threading.active_count() == 1


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
