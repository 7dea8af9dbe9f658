"""Whose call this is: the run whose agent this process belongs to, also where its environment does not say so."""

from __future__ import annotations

import os

from checkpointer import home, machine
from checkpointer.agents import ancestry
from checkpointer.run import roster


def run_above(directory: bytes) -> str | None:
    """The handle of the run, in the workspace of a directory, whose owner is among the processes above this one.

    An agent often gives what it starts no environment of its own run, so the processes are asked: the nearest owner
    counts, of several runs that it owns the one that was heard of last. None where no run is known to be it.
    """
    told = os.environ.get("CKPT_RUN")
    if told:
        return told
    place = home.locate(directory)
    if place is None:
        return None
    above: dict[tuple[object, object], int] = {(one.pid, one.started): nth for nth, one in enumerate(ancestry.above())}
    here = machine.holder()
    found: list[tuple[int, float, str]] = []
    for info in roster.running(place.directory):
        owner = info.owner or {}
        if any(owner.get(name) != getattr(here, name) for name in ("host", "boot", "namespace")):
            continue
        near = above.get((owner.get("pid"), owner.get("started")))
        if near is not None:
            found.append((near, -info.last.timestamp() if info.last else 0.0, info.handle))
    return min(found)[2] if found else None
