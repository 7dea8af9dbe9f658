"""Which process called for what is done here: this one, or the one that this one answers for."""

from __future__ import annotations

import os

_answered = 0


def answer_for(pid: int) -> None:
    """From here on this process does what another one was called to do."""
    global _answered
    _answered = pid


def pid() -> int:
    """The process that was called. It lives for as long as it is answered for."""
    return _answered or os.getpid()
