"""The safety net around coding agents: checkpoints of the files, an event log of the run.

For agent loops in Python: `open_run`, `tool`, and what goes with them. See docs/library.md and docs/tools.md.
"""

from __future__ import annotations

from checkpointer.release import VERSION

__version__ = VERSION

TYPE_CHECKING = False  # `typing` takes longer to load than `ckpt hook` may take at all
if TYPE_CHECKING:
    from typing import Any

    from checkpointer.errors import Busy as Busy
    from checkpointer.errors import CheckpointerError as CheckpointerError
    from checkpointer.errors import Drift as Drift
    from checkpointer.errors import Fenced as Fenced
    from checkpointer.errors import NeedsPerson as NeedsPerson
    from checkpointer.run.approvals import decide as decide
    from checkpointer.run.asynchronous import AsyncRun as AsyncRun
    from checkpointer.run.calling import environment as environment
    from checkpointer.run.desk import Answer as Answer
    from checkpointer.run.desk import Ask as Ask
    from checkpointer.run.desk import Deny as Deny
    from checkpointer.run.desk import ToolCall as ToolCall
    from checkpointer.run.desk import Turn as Turn
    from checkpointer.run.driven import Run as Run
    from checkpointer.run.freshness import observe as observe
    from checkpointer.run.opening import open_run as open_run
    from checkpointer.tools import Absent as Absent
    from checkpointer.tools import Conflict as Conflict
    from checkpointer.tools import Match as Match
    from checkpointer.tools import NoEffect as NoEffect
    from checkpointer.tools import Partial as Partial
    from checkpointer.tools import Unknown as Unknown
    from checkpointer.tools import tool as tool

_HOMES = {
    "checkpointer.errors": ("Busy", "CheckpointerError", "Drift", "Fenced", "NeedsPerson"),
    "checkpointer.run.approvals": ("decide",),
    "checkpointer.run.asynchronous": ("AsyncRun",),
    "checkpointer.run.calling": ("environment",),
    "checkpointer.run.desk": ("Answer", "Ask", "Deny", "ToolCall", "Turn"),
    "checkpointer.run.driven": ("Run",),
    "checkpointer.run.freshness": ("observe",),
    "checkpointer.run.opening": ("open_run",),
    "checkpointer.tools": ("Absent", "Conflict", "Match", "NoEffect", "Partial", "Unknown", "tool"),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Everything but the version is imported when it is first asked for: `ckpt --help` must not wait for it."""
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(module), name)


def version() -> str:
    """The version of this package."""
    return __version__
