"""The resident of a `ckpt run`: a process that has loaded all that a hook needs, and answers `ckpt hook` and `ckpt
save` for whoever calls them in the run (`checkpointer.errand` is their side of it).

    <store>/resident/door             only who may write in the store can open it, and is served
                     <pid>-<hex>-<fd> the socket

Whom it answers, and what, is in `order`. Where the system does not tell what a process may do (anywhere but on Linux),
nobody could be told from who may do less, and there is no resident.

It is forked before the run starts any thread, has no terminal, keeps no lock, and loads nothing before it is first
called, unless its run is an agent's. Each call is answered by a fork of it, which becomes the caller: its environment,
directory, streams and mask; it runs what the caller would have run. Who hangs up is answered no longer: its fork is
killed, as the caller itself would have been. When the run ends, or is killed, the resident does.

Every capture still looks at all files. Events of the system cannot stand in for that: none comes for what is written
through a mapping of a file, or through another name of it outside the workspace.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from checkpointer import caller, disk, errand
from checkpointer.agents.ancestry import is_agent
from checkpointer.cli import rights
from checkpointer.cli.order import Order, Terms
from checkpointer.errors import CheckpointerError
from checkpointer.workspace.reading.workers import alone

WARM = (
    "cli.program", "cli.hooking", "cli.quick", "cli.saving", "cli.phrase", "cli.prompt", "agents.hook", "agents.visit",
    "agents.attaching", "agents.observing", "agents.protection", "agents.repeating", "agents.telling", "agents.asking",
    "recovery", "workspace.lending.loan", "workspace.lending.projectpacks", "workspace.reading.capture",
    "workspace.travel",
)  # fmt: skip
"""What a call needs of this package, beside the dialects."""
REQUEST = 10.0
"""Seconds in which a caller must have said what it wants."""
END = 5.0
"""Seconds that the end of a resident is waited for."""
_WAITING = 64


@contextlib.contextmanager
def beside(store: Path, root: bytes, words: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """A resident while the body runs the command with these words in the workspace at `root`; gives the variables by
    which it is found, none where there cannot be one. Where the command is an agent's, what its first call needs is
    loaded before that comes.
    """
    place = store / "resident"
    try:
        if sys.platform != "linux":
            raise OSError("nobody says what a caller may do")
        _prepare(place)
        terms = Terms.here(root, place / errand.DOOR)
        read, write = os.pipe()
        within, other = os.pipe()
    except (OSError, CheckpointerError):
        yield {}
        return
    path = place / f"{os.getpid()}-{os.urandom(4).hex()}-{within}"
    pid = _forked(path, read, within, words, terms) if alone() else 0
    for fd in (read, within, other):
        os.close(fd)
    try:
        yield {errand.VARIABLE: os.fspath(path)} if pid else {}
    finally:
        os.close(write)
        if pid:
            _ended(pid)
            with contextlib.suppress(OSError):
                disk.remove(path, missing_ok=True)


def _prepare(directory: Path) -> None:
    """The place of the sockets, without those whose resident is gone. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        disk.make_directory(directory)
    how = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    door = os.open(directory / errand.DOOR, how, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(door).st_mode):
            raise OSError("what stands there is no door")
    finally:
        os.close(door)
    for name in os.listdir(directory):
        number = name.partition("-")[0]
        if number.isdigit():
            try:
                os.kill(int(number), 0)
            except ProcessLookupError:
                disk.remove(directory / name, missing_ok=True)
            except OSError:
                continue


def _ended(pid: int) -> None:
    """Wait for the end of a resident, whose run has let it go; one that does not end is killed."""
    deadline = time.monotonic() + END
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(0.002)


def _forked(path: Path, control: int, within: int, words: Sequence[str], terms: Terms) -> int:
    """The number of the resident; 0 where there can be none."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        pid = os.fork()
    except OSError:
        return 0
    if pid:
        return pid
    try:
        os.setsid()
        _let_go(control, within)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
            signal.signal(number, signal.SIG_DFL)
        Resident(path, control, within, terms).serve(at_once=is_agent(words))
    finally:
        os._exit(0)


def _let_go(*kept: int) -> None:
    """Every descriptor but these is none of ours. Its number stays taken: some object may still close it."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in sorted(int(name) for name in os.listdir("/dev/fd")):
        if fd not in (null, *kept):
            with contextlib.suppress(OSError):
                os.fstat(fd)
                os.dup2(null, fd, inheritable=fd < 3)


class Resident:
    """Listens at `path` until nobody holds the other end of `control`, for whom `terms` say. `within`: a descriptor
    that only who may look into this process finds.
    """

    def __init__(self, path: Path, control: int, within: int, terms: Terms) -> None:
        self.path = path
        self.control = control
        self.terms = terms
        self.within = within
        self._warm = False
        self._at_work: dict[int, socket.socket | None] = {}
        """The connection that each fork answers; None where the caller hung up."""

    def serve(self, *, at_once: bool = False) -> None:
        """Until it is over. `at_once`: load what is needed now, not with the first call."""
        os.chdir(self.path.parent)  # a socket's name is short: from here it is
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.umask(0o177)
        listener.bind(self.path.name)
        listener.listen(_WAITING)
        listener.setblocking(False)
        ended, wake = os.pipe()
        os.set_blocking(ended, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        try:
            if at_once:
                self.warm()
            while self._wait(listener, ended):
                pass
        finally:
            with contextlib.suppress(OSError):
                disk.remove(self.path.name)
            for pid in self._at_work:  # their callers do it themselves
                os.kill(pid, signal.SIGKILL)

    def _wait(self, listener: socket.socket, ended: int) -> bool:
        """Do what there is to do next. False: it is over."""
        poll = select.poll()
        for fd in (self.control, listener.fileno(), ended):
            poll.register(fd, select.POLLIN)
        callers = {there.fileno(): pid for pid, there in self._at_work.items() if there is not None}
        for fd in callers:
            poll.register(fd, 0)  # its end alone: what it says is for the fork
        ready = dict(poll.poll())
        if self.control in ready:
            return False
        for fd in ready.keys() & callers.keys():
            os.kill(callers[fd], signal.SIGKILL)
            connection, self._at_work[callers[fd]] = self._at_work[callers[fd]], None
            if connection is not None:
                connection.close()
        if ended in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(ended, 4096)
            self._reap()
        if listener.fileno() in ready:
            with contextlib.suppress(OSError):
                self._receive(listener)
        return True

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while self._at_work:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                connection = self._at_work.pop(pid, None)
                if connection is not None:
                    connection.close()

    def _receive(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        since = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.warm()
        pid = os.fork()
        if pid:
            self._at_work[pid] = connection
            return
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            self._serve_one(connection, since)
        finally:
            os._exit(0)

    def warm(self) -> None:
        """Load what a call needs, once."""
        if not self._warm:
            self._warm = True
            import ctypes  # noqa: F401  what asks the system for a birth time needs it

            from checkpointer.agents import dialects

            for name in (*WARM, *(f"agents.dialects.{agent}" for agent in dialects.NAMES)):
                importlib.import_module(f"checkpointer.{name}")
            gc.collect()
            gc.freeze()

    # -- in the fork

    def _serve_one(self, connection: socket.socket, since: float) -> None:
        connection.settimeout(REQUEST)
        order = Order.received(connection)
        if not order.fits(self.terms, self.within) or not rights.same(connection, order.pid, since):
            return
        connection.sendall(errand.TAKEN)
        if connection.recv(1) != errand.GO:
            return  # it no longer waited, and does it itself
        connection.settimeout(None)
        caller.answer_for(order.pid)
        status, printed = order.carried_out()
        connection.sendall(status.to_bytes(4, "big") + len(printed).to_bytes(8, "big") + printed)
