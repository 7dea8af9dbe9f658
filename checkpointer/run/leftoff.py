"""Runs that were cut off, or let go before their end, and can be gone on with; told from the ends of their logs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from checkpointer.line import peek
from checkpointer.log import glance
from checkpointer.run import roster

LEFT_OFF = ("interrupted", "paused")
"""How a run was let go that can be gone on with."""

NEVER_RAN = (126, 127)
"""The exit statuses of a command that could not be started."""


def resumable(store: Path) -> Iterator[roster.RunInfo]:
    """The runs that were cut off or let go before their end, that nobody owns, and that no person dismissed."""
    for run in roster.names(store):
        if _is_over(store, run):
            continue
        info = roster.read(store, run)
        if info.problem or not info.events or info.exit in NEVER_RAN or info.dismissed:
            continue
        if info.alive != "alive" if not info.ended else info.status in LEFT_OFF:
            yield info


def _is_over(store: Path, run: str) -> bool:
    """Did it come to its end? Told by the log's last line; False where that cannot be told."""
    line = glance.last_line(os.fspath(roster.runs_directory(store) / run))
    if b'"type":"run_released"' in line:
        return not any(f'"how":"{how}"'.encode() in line for how in LEFT_OFF)
    return b'"type":"run_finished"' in line and peek(line) is not None
