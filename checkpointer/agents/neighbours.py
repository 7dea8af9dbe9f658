"""Who else works in a workspace: other sessions whose changes cannot be told from ours, without reading their logs."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from checkpointer.agents import ancestry
from checkpointer.run import session as sessions

_TAIL = 1 << 14
_ENDS = (b'"type":"run_finished"', b'"type":"run_released"')


class Neighbours(NamedTuple):
    """The runs and steps of others that may have changed files since the newest checkpoint."""

    runs: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


def neighbours(store: Path, but: Collection[str]) -> Neighbours:
    """Those of runs that live, but for the runs whose own names are in `but`."""
    runs: list[str] = []
    steps: list[str] = []
    unknown = False
    for name in _names(store / "runs"):
        if name in but or _ended(store / "runs" / name):
            continue
        session = sessions.load(store, name)
        if session is None:
            unknown = True  # no hook tells of it: its log must be read
        elif _lives(session) and (owners := session.owners(closing=True)):
            runs.append(session.handle)
            steps += owners
    if unknown:
        from checkpointer.run import roster

        return Neighbours(*roster.others(store, *but))
    return Neighbours(tuple(runs), tuple(steps))


def _names(directory: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if not name.startswith("."))
    except OSError:
        return []


def _ended(run: Path) -> bool:
    """Does its log's last line let the run go, as far as its end can be read?"""
    try:
        with open(run / "events.jsonl", "rb") as f:
            f.seek(max(0, f.seek(0, os.SEEK_END) - _TAIL))
            line = f.read().removesuffix(b"\n").rpartition(b"\n")[2]
    except OSError:
        return True
    return any(kind in line for kind in _ENDS)


def _lives(session: sessions.Session) -> bool:
    if len(session.owner) != 5:
        return True
    found = ancestry.process(session.owner[3])
    return found is not None and found.started == session.owner[4]
