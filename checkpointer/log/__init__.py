"""Event logs: `EventLog` reads, a `Pen` appends, and a pen only comes from claiming a run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from checkpointer.errors import Usage
from checkpointer.log.place import START, Cut, EventLog, Position, Runs, Writable

if TYPE_CHECKING:
    from checkpointer.log.claiming import claim, delegate
    from checkpointer.log.jsonl import JsonlLog, JsonlRuns
    from checkpointer.log.memory import MemoryLog, MemoryRuns
    from checkpointer.log.pen import Folded, Pen, catch_up, letter, open_letter

_WHERE = {
    "claim": "claiming",
    "delegate": "claiming",
    "JsonlLog": "jsonl",
    "JsonlRuns": "jsonl",
    "MemoryLog": "memory",
    "MemoryRuns": "memory",
    "Folded": "pen",
    "Pen": "pen",
    "catch_up": "pen",
    "letter": "pen",
    "open_letter": "pen",
}


def __getattr__(name: str) -> Any:
    """What needs the vocabulary is loaded when it is first asked for: looking at a log does without."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


_MEMORY: dict[str, MemoryRuns] = {}


def open_runs(url: str) -> Runs:
    """The runs at `jsonl:DIRECTORY` (or a plain directory), or at `memory:NAME`, which lives as long as the process.

    Raises `Usage` for any other kind.
    """
    kind, colon, rest = url.partition(":")
    if not colon or "/" in kind:
        kind, rest = "jsonl", url
    if kind == "jsonl":
        from checkpointer.log.jsonl import JsonlRuns

        return JsonlRuns(rest)
    if kind == "memory":
        from checkpointer.log.memory import MemoryRuns

        return _MEMORY.setdefault(rest, MemoryRuns())
    raise Usage(f"no kind of log is called {kind}", next=("jsonl:DIRECTORY",))


def open_log(url: str) -> Writable:
    """The log of one run: the last part of the URL is the run. Nothing is made before the first claim."""
    above, _, run = url.rpartition("/")
    if not above or not run:
        raise Usage(f"no run in {url!r}", next=("jsonl:DIRECTORY/RUN",))
    return open_runs(above).log(run)


__all__ = [
    "START",
    "Cut",
    "EventLog",
    "Folded",
    "JsonlLog",
    "JsonlRuns",
    "MemoryLog",
    "MemoryRuns",
    "Pen",
    "Position",
    "Runs",
    "Writable",
    "catch_up",
    "claim",
    "delegate",
    "letter",
    "open_letter",
    "open_log",
    "open_runs",
]
