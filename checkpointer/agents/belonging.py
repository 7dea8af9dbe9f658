"""Whose call this is: the run whose agent this process belongs to, also where its environment does not say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from checkpointer.agents import ancestry
from checkpointer.run import session as sessions

Near = dict[tuple[object, object], int]
"""Processes above us that may be agents, by number and start time: how far above."""


class _Owned(NamedTuple):
    """A run whose owner is above us: how many processes above, and how long ago it was heard of."""

    near: int
    silent: float
    handle: str


def run_above(store: Path, *, logs: bool = False, elsewhere: bool = False) -> str | None:
    """The run that this process was started by, through any number of processes: the one that `CKPT_RUN` names, else
    one of this store whose owner is above us. The nearest owner counts, of several runs that it owns the one that was
    heard of last. None where there is none.

    An owner is the process that hooks told for, whatever its program is called. With `logs` those that no
    hook tells of count, too, which takes reading the logs of the runs that are at work. `elsewhere`: the run that
    `CKPT_RUN` names is another store's.
    """
    told = os.environ.get("CKPT_RUN")
    if told and not elsewhere:
        return told
    near = _near()
    if not near:
        return None
    found = list(_told(store, near))
    if logs:
        found += _logged(store, near)
    return min(found).handle if found else None


def _near() -> Near:
    """A shell at which somebody types says that a person called, unless an agent's own program is above it: what else
    is there, a terminal or a desktop, is taken for an agent where somebody called a hook by hand.
    """
    found: Near = {}
    typed = False
    for nth, one in enumerate(ancestry.above()):
        typed = typed or ancestry.is_typed_at(one.words)
        if not typed or ancestry.is_agent(one.words):
            found[one.pid, one.started] = nth
    return found


def _told(store: Path, near: Near) -> Iterator[_Owned]:
    """Sessions of hooks. Few of many are looked at: those that name a start time of a process above."""
    marks = [str(started).encode() for _, started in near]
    try:
        names = os.listdir(store / "hooks")
    except OSError:
        return
    for name in names:
        path = sessions.directory(store, name) / sessions.CACHE
        try:
            data = path.read_bytes()
            heard = path.stat().st_mtime
        except OSError:
            continue
        if not any(mark in data for mark in marks):
            continue
        session = sessions.load(store, name)
        pid, started = session.owner[3:] if session is not None and len(session.owner) == 5 else (0, "")
        if session is not None and (nth := near.get((pid, started))) is not None:
            yield _Owned(nth, -heard, session.handle)


def _logged(store: Path, near: Near) -> Iterator[_Owned]:
    """Runs that are at work, by the owners that their logs name."""
    from checkpointer import machine
    from checkpointer.run import roster

    here = machine.holder()
    for info in roster.running(store):
        owner = info.owner or {}
        if any(owner.get(name) != getattr(here, name) for name in ("host", "boot", "namespace")):
            continue
        nth = near.get((owner.get("pid"), owner.get("started")))
        if nth is not None:
            yield _Owned(nth, -info.last.timestamp() if info.last else 0.0, info.handle)
