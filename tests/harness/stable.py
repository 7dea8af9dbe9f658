"""The parent of the commands that `harness.starting` starts: an interpreter that has imported what they will need.

Run as a program with the number of a socket. A request is a length and JSON `{"words", "env", "cwd"}`, with four
descriptors: stdin, stdout, stderr, and a pipe to which go a line with the child's number, then one with its status.
Each child is a process group of its own that runs `python -P WORDS...` as a fresh interpreter would, to the end of it.
Nothing that reads the environment when it is imported is imported before the fork: no libgit2.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import warnings
from typing import Any

HEAVY = ("click", "psutil", "isal.isal_zlib", "tomlkit", "pydantic", "watchdog.observers", "difflib", "shlex", "pydoc")
NOT_OURS = ("checkpointer.__main__", "checkpointer.testing", "checkpointer.demo")


class NotYet:
    """Keeps libgit2 from being imported: it reads the environment when it is."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pygit2":
            raise ImportError(name)


def warm() -> None:
    """Import all that commands import, but run nothing of it."""
    import checkpointer

    not_yet = NotYet()
    sys.meta_path.insert(0, not_yet)
    for module in pkgutil.walk_packages(checkpointer.__path__, "checkpointer."):
        if not module.name.startswith(NOT_OURS):
            with contextlib.suppress(ImportError):  # an extra that is not installed, or it needs libgit2
                importlib.import_module(module.name)
    for name in HEAVY:
        importlib.import_module(name)
    sys.meta_path.remove(not_yet)


def stream(fd: int, mode: str) -> Any:
    """A standard stream as an interpreter opens it."""
    own = sys.__stdin__ if mode == "r" else sys.__stdout__ if fd == 1 else sys.__stderr__
    assert own is not None
    raw = open(fd, mode + "b", closefd=False)  # noqa: SIM115
    by_line = fd == 2 or (mode == "w" and os.isatty(fd))
    return io.TextIOWrapper(raw, encoding=own.encoding, errors=own.errors, line_buffering=by_line)


def become(request: dict[str, Any], given: list[int]) -> None:
    """Turn this child into the command."""
    os.setsid()
    for fd, source in enumerate(given[:3]):
        os.dup2(source, fd)
    back = given[3]
    os.closerange(3, back)
    os.closerange(back + 1, max(int(name) for name in os.listdir("/dev/fd")) + 1)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environb.update({k.encode("latin-1"): v.encode("latin-1") for k, v in request["env"].items()})
    sys.stdin, sys.stdout, sys.stderr = stream(0, "r"), stream(1, "w"), stream(2, "w")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    words = [os.fsdecode(w.encode("latin-1")) for w in request["words"]]
    sys.orig_argv = [sys.executable, "-P", *words]
    sys.argv = words[1:] if words[0] == "-m" else words
    os.write(back, b"%d\n" % os.getpid())
    os.close(back)


def serve(control: socket.socket) -> list[str] | None:
    """Fork for each request. Returns the words in the child, None when nobody asks any more."""
    wake, waken = os.pipe()
    os.set_blocking(waken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(waken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    poll = select.poll()
    for fd in (control.fileno(), wake):
        poll.register(fd, select.POLLIN)
    waiting: dict[int, int] = {}
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)
            while waiting:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                back = waiting.pop(pid)
                with contextlib.suppress(BrokenPipeError):
                    os.write(back, b"%d\n" % status)
                os.close(back)
        if control.fileno() not in ready:
            continue
        head, given, _, _ = socket.recv_fds(control, 8, 4)
        if not head:
            return None
        left = int.from_bytes(head, "big")
        body = b""
        while len(body) < left:
            body += control.recv(left - len(body))
        request = json.loads(body)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                become(request, given)
            except OSError as e:
                os.write(2, f"cannot start: {e}\n".encode())
                os._exit(99)
            words: list[str] = [os.fsdecode(w.encode("latin-1")) for w in request["words"]]
            return words
        waiting[pid] = given[3]
        for fd in given[:3]:
            os.close(fd)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm()
    gc.freeze()
    words = serve(control)
    if words is None:
        return
    control.detach()
    if words[0] == "-m":
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
