"""Real processes that start fast: forked from an interpreter that has already imported what a command needs.

Starting an interpreter and importing takes longer than most commands, and the suite starts thousands. `start` gives a
real process with its own group, descriptors, directory and environment, which can be waited for and killed; it runs the
program from its first line to its last. What a start itself does is tested where it matters, by starting for real:
`CKPT_SLOW=1` does so for all of them.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harness.machine import REPOSITORY, SLOW

AnyPath = str | bytes
STABLE = Path(__file__).with_name("stable.py")
STREAMS = {"stdin", "stdout", "stderr"}
AT_START = ("PYTHON", "LANG", "LC_", "LD_", "DYLD_", "TZ", "MALLOC_", "OPENSSL")
"""An interpreter looks at these when it starts."""


class Stable:
    """The interpreter that forks, one for each process that runs tests; made when first asked."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._socket: socket.socket | None = None
        self._pid = 0
        self.child = 0
        """The interpreter's number, 0 where there is none yet."""

    def ask(self, request: bytes, descriptors: Sequence[int]) -> None:
        with self._mutex:
            if self._socket is None or self._pid != os.getpid():
                self._socket = self._made()
                self._pid = os.getpid()
            socket.send_fds(self._socket, [len(request).to_bytes(8, "big")], list(descriptors))
            self._socket.sendall(request)

    def _made(self) -> socket.socket:
        mine, its = socket.socketpair()
        environment = {k: os.environ[k] for k in ("PATH", "PYTHONDONTWRITEBYTECODE") if k in os.environ}
        process = subprocess.Popen(
            [sys.executable, "-P", str(STABLE), str(its.fileno())],
            env={**environment, "LANG": "C.UTF-8", "HOME": "/nonexistent"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            pass_fds=(its.fileno(),),
            start_new_session=True,
        )
        its.close()
        self.child = process.pid

        def end() -> None:
            mine.close()
            process.wait()

        if self._pid == 0:
            atexit.register(end)
        return mine


stable = Stable()


def _ready(reading: Sequence[int], writing: Sequence[int], timeout: float | None) -> tuple[list[int], list[int]]:
    """As `select`, also for the high descriptors of a process that has many open."""
    poll = select.poll()
    for fd in reading:
        poll.register(fd, select.POLLIN)
    for fd in writing:
        poll.register(fd, select.POLLOUT)
    found = [fd for fd, _ in poll.poll(None if timeout is None else int(timeout * 1000) + 1 if timeout else 0)]
    return [fd for fd in found if fd in reading], [fd for fd in found if fd in writing]


class Started:
    """A process that was forked for us, with what tests use of `subprocess.Popen`."""

    def __init__(self, words: Sequence[AnyPath], env: Mapping[str, str], cwd: AnyPath | Path, **streams: Any) -> None:
        self.args = words
        self.returncode: int | None = None
        self._said = b""
        theirs, self.stdin, self.stdout, self.stderr = _streams(**streams)
        self._status, status = os.pipe()
        request = {
            "words": [os.fsencode(w).decode("latin-1") for w in words],
            "env": {os.fsencode(k).decode("latin-1"): os.fsencode(v).decode("latin-1") for k, v in env.items()},
            "cwd": os.fspath(cwd) if not isinstance(cwd, bytes) else os.fsdecode(cwd),
        }
        try:
            stable.ask(json.dumps(request).encode(), [*theirs.values(), status])
        finally:
            os.close(status)
            for fd in set(theirs.values()) - {0, 1, 2, *_given(streams)}:
                os.close(fd)
        while b"\n" not in self._said:
            self._hear(None)
        self.pid = int(self._said.split(b"\n")[0])

    def _hear(self, timeout: float | None) -> bool:
        if not _ready([self._status], [], timeout)[0]:
            return False
        more = os.read(self._status, 100)
        assert more, "the interpreter that forks is gone"
        self._said += more
        return True

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            lines = self._said.split(b"\n")
            if len(lines) > 2:  # it may have ended before we heard its number
                self.returncode = os.waitstatus_to_exitcode(int(lines[1]))
                os.close(self._status)
                break
            left = None if deadline is None else max(0, deadline - time.monotonic())
            if not self._hear(left):
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
        return self.returncode

    def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Feed stdin, read the other two to their ends, wait. What was read before a timeout is not lost."""
        deadline = None if timeout is None else time.monotonic() + timeout
        out, err = self.__dict__.setdefault("_read", (bytearray(), bytearray()))
        into = {s.fileno(): b for s, b in ((self.stdout, out), (self.stderr, err)) if s is not None and not s.closed}
        data = memoryview(input or b"")
        feed = [self.stdin.fileno()] if self.stdin is not None and not self.stdin.closed else []
        while into or feed:
            left = None if deadline is None else max(0, deadline - time.monotonic())
            ready, writable = _ready(list(into), feed if data else [], left if data or not feed else 0)
            for fd in ready:
                more = os.read(fd, 1 << 16)
                into[fd] += more
                if not more:
                    del into[fd]
            if writable:
                try:
                    data = data[os.write(feed[0], data[: select.PIPE_BUF]) :]
                except BrokenPipeError:
                    data = data[:0]
            if feed and not data and self.stdin is not None:
                self.stdin.close()
                feed = []
                continue
            if not ready and not writable and left == 0:
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
        self.wait(None if deadline is None else max(0, deadline - time.monotonic()))
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        return bytes(out), bytes(err)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # a test that has failed must not wait for what it no longer tells to end
            self.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


def _given(streams: Mapping[str, Any]) -> set[int]:
    return {s if isinstance(s, int) else s.fileno() for s in streams.values() if not (isinstance(s, int) and s < 0)}


def _streams(**streams: Any) -> tuple[dict[str, int], Any, Any, Any]:
    """The child's three descriptors, and our ends of those that are pipes."""
    theirs: dict[str, int] = {}
    ours: dict[str, IO[bytes] | None] = {}
    for name in ("stdin", "stdout", "stderr"):
        wanted = streams.get(name)
        ours[name] = None
        if wanted is None:
            theirs[name] = ("stdin", "stdout", "stderr").index(name)
        elif wanted == subprocess.PIPE:
            read, write = os.pipe()
            theirs[name], mine = (read, write) if name == "stdin" else (write, read)
            ours[name] = open(mine, "wb" if name == "stdin" else "rb", buffering=0 if name == "stdin" else -1)  # noqa: SIM115
        elif wanted == subprocess.DEVNULL:
            theirs[name] = os.open(os.devnull, os.O_RDWR)
        elif wanted == subprocess.STDOUT:
            theirs[name] = theirs["stdout"]
        else:
            theirs[name] = wanted if isinstance(wanted, int) else wanted.fileno()
    return theirs, ours["stdin"], ours["stdout"], ours["stderr"]


def can_fork(env: Mapping[str, str], more: Mapping[str, Any]) -> bool:
    """Is a forked process the same as a started one, with these arguments?"""
    usual = {("LANG", "C.UTF-8"), ("PYTHONPATH", str(REPOSITORY))}
    odd = [k for k, v in env.items() if k.startswith(AT_START) and (k, v) not in usual]
    return not SLOW and not odd and more.keys() <= STREAMS


def start(
    words: Sequence[AnyPath], env: Mapping[str, str], cwd: AnyPath | Path, **more: Any
) -> subprocess.Popen[bytes] | Started:
    """Start `python -P WORDS...` in a process group of its own."""
    if can_fork(env, more):
        return Started(words, env, cwd, **more)
    return subprocess.Popen([sys.executable, "-P", *words], env=env, cwd=cwd, start_new_session=True, **more)
