"""What an exception that left a tool says of its call."""

from __future__ import annotations

import sys
from typing import Literal

from checkpointer.tools import Partial

Reason = Literal["exception", "timeout", "cancelled", "signal", "partial", "earlier"]


def reason(error: BaseException) -> Reason:
    """Why nobody knows what became of it."""
    match error:
        case Partial():
            return "partial"
        case TimeoutError():
            return "timeout"
        case GeneratorExit():
            return "cancelled"
        case KeyboardInterrupt():
            return "signal"
        case _:
            return "cancelled" if _is_cancellation(error) else "exception"


def _is_cancellation(error: BaseException) -> bool:
    """Of asyncio, which nobody can have raised who has not loaded it."""
    loaded = sys.modules.get("asyncio")
    return loaded is not None and isinstance(error, loaded.CancelledError)


def words(error: BaseException) -> str:
    """Its class and what it says."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
