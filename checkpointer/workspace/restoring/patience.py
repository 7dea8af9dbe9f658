"""Patience with Ctrl-C: what must not be cut in two is finished first, and then interrupted."""

from __future__ import annotations

import contextlib
import signal
from _signal import pthread_sigmask  # type: ignore[import-not-found]  # without the names of numbers: they take longer
from collections.abc import Iterator


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold SIGINT back while the body runs; one that came meanwhile is raised right after. May be nested.

    A thread's own business: other threads go on as before. Nothing is promised against SIGKILL, which is settled later.
    """
    before = pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        pthread_sigmask(signal.SIG_SETMASK, before)
