"""Runs that were cut off, or let go before their end, and can be gone on with; told from the ends of their logs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from checkpointer.errors import CheckpointerError
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


def checkpoints(store: Path) -> set[int]:
    """The checkpoints, by number, that the files are held against when a driven run is gone on with, or a call is
    settled that was cut off. Logs that cannot be read name none.
    """
    from checkpointer.log import JsonlRuns
    from checkpointer.replay import replay

    needed: set[int | None] = set()
    for run in roster.names(store):
        if b'"type":"run_finished"' in glance.last_line(os.fspath(roster.runs_directory(store) / run)):
            continue
        if roster.read(store, run).dismissed:
            continue
        log = JsonlRuns(os.fspath(roster.runs_directory(store))).log(run)
        with contextlib.suppress(CheckpointerError):
            state = replay(log).state
            if state.mode == "driven" and state.commit is not None:
                needed.add(state.commit.number)
            starts = (call.newest.commit for call in state.unsettled if call.newest is not None)
            needed.update(commit.number for commit in starts if commit is not None)
        log.close()
    return {number for number in needed if number is not None}


def _is_over(store: Path, run: str) -> bool:
    """Did it come to its end? Told by the log's last line; False where that cannot be told."""
    line = glance.last_line(os.fspath(roster.runs_directory(store) / run))
    if b'"type":"run_released"' in line:
        return not any(f'"how":"{how}"'.encode() in line for how in LEFT_OFF)
    return b'"type":"run_finished"' in line and peek(line) is not None
