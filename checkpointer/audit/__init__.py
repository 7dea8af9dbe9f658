"""Every promise of a store checked, and said what could not be."""

from __future__ import annotations

import os

from checkpointer.audit import repository
from checkpointer.audit.finding import Audit, Finding, Progress
from checkpointer.log import glance
from checkpointer.workspace.shadow.history import History


def verify(history: History, progress: Progress | None = None) -> Audit:
    """Check everything that one workspace's store promises. Reads every byte, writes none. Raises `NewerFormat`."""
    audit = Audit()
    repository.check(history, audit, progress)
    hooked = os.path.isdir(os.path.join(history.directory, "hooks"))
    if hooked or glance.runs(os.path.join(history.directory, "runs")):
        from checkpointer.audit import logs  # the vocabulary takes long to load

        logs.check(history.directory, audit, progress)
    return audit


def quarantine(audit: Audit) -> None:
    """Where a snapshot leads elsewhere than its log, none of its version is read or written in this store any more,
    until the version is another. Counted with the run. Raises `ReadOnlyStore`, `NoSpace`, `Failed`.
    """
    from checkpointer.snapshot import Snapshots

    for directory in audit.misled:
        snapshots = Snapshots(os.path.join(directory, "snapshots"))
        snapshots.count(full_replay_equivalence_failures=1)
        snapshots.quarantine()


__all__ = ["Audit", "Finding", "Progress", "quarantine", "verify"]
