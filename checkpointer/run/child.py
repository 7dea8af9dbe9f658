"""One child process that has the terminal, its signals and its exit status to itself.

The child stays in our process group, so that the terminal treats both alike. What the terminal sends to the group
(Ctrl-C, Ctrl-\\, Ctrl-Z, a resize) reaches the child without us; what somebody sends to our process alone is passed on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Mapping, Sequence

from checkpointer.errors import CheckpointerError

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_FROM_TERMINAL = frozenset((signal.SIGINT, signal.SIGQUIT))
_RESET = (*FORWARDED, signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCHLD)


class CannotStart(CheckpointerError):
    """The command could not be started; `status` is what a shell would exit with (126 or 127)."""

    code = "cannot-start"

    def __init__(self, message: str, status: int = 126) -> None:
        super().__init__(message, kept="the checkpoint taken before it")
        self.status = status


class Child:
    """A started command. Make it before any thread is started, so that every thread blocks the signals it waits for.

    `streams` are the descriptors that it has as its input and output; ours where none are given.
    """

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], streams: tuple[int, int] | None = None
    ) -> None:
        self.argv = list(argv)
        self.over = False
        self._waited = {*FORWARDED, signal.SIGCHLD}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)
        # SIGCHLD is dropped by default, so it must have a handler to be waited for on every system.
        self._old = signal.signal(signal.SIGCHLD, lambda *_: None)
        moved = [] if streams is None else [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)]
        try:
            self.pid = os.posix_spawnp(
                self.argv[0],
                self.argv,
                dict(environment),
                file_actions=moved,
                setsigmask=self._mask,
                setsigdef=_defaults(),
            )
        except OSError as e:
            self._restore()
            if e.errno in (errno.ENOENT, errno.ENOTDIR):
                raise CannotStart(f"{argv[0]}: command not found", 127) from e
            raise CannotStart(f"{argv[0]}: {e.strerror}", 126) from e

    def wait(self) -> int:
        """Wait for its end, passing signals on. Returns its status as a shell does: 128+n for signal n."""
        try:
            while True:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.over = True
                    code = os.waitstatus_to_exitcode(status)
                    return code if code >= 0 else 128 - code
                self._one_signal()
        finally:
            self._restore()

    def send(self, number: int) -> None:
        """Send it a signal; nothing happens if it is gone."""
        if not self.over:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _one_signal(self) -> None:
        number, sent_to_us = self._next()
        if number != signal.SIGCHLD and sent_to_us:
            self.send(number)

    def _next(self) -> tuple[int, bool]:
        """The next waited signal, and whether somebody sent it to our process rather than the terminal to the group."""
        if hasattr(signal, "sigtimedwait"):
            # The pause bounds the harm of a signal that another thread swallowed.
            info = signal.sigtimedwait(self._waited, 1.0)
            if info is None:
                return signal.SIGCHLD, False
            return info.si_signo, info.si_code <= 0
        number = signal.sigwait(self._waited)
        return number, number not in _FROM_TERMINAL or not _in_foreground()

    def _restore(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, self._old if self._old is not None else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def _defaults() -> list[signal.Signals]:
    """Signals the child gets with their default action: all but those that were ignored when we were started.

    (`nohup ckpt run -- CMD` must keep ignoring SIGHUP in CMD.) Python itself ignores SIGPIPE.
    """
    return [s for s in _RESET if s == signal.SIGPIPE or signal.getsignal(s) != signal.SIG_IGN]


def _in_foreground() -> bool:
    """Is our process group the one the terminal sends its signals to?"""
    for fd in (0, 1, 2):
        try:
            return os.tcgetpgrp(fd) == os.getpgrp()
        except OSError:
            continue
    return False
