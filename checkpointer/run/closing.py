"""Watched runs whose owner died are ended by whoever begins a run next; driven ones wait to be resumed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from checkpointer import machine
from checkpointer.errors import CheckpointerError
from checkpointer.events import Commit, RunStarted, WorkspaceChanged
from checkpointer.log import JsonlRuns, claim
from checkpointer.run import roster
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.workspace import Workspace


def dead(workspace: Workspace) -> list[roster.RunInfo]:
    """The watched runs that nobody ended and whose owner is gone."""
    found = roster.running(workspace.directory)
    return [run for run in found if run.alive == "dead" and run.mode == "observed"]


def close(workspace: Workspace, runs: Sequence[roster.RunInfo], now: Checkpoint) -> list[str]:
    """End them at checkpoint `now`; gives the handles of those that were ended here. What changed after their last
    checkpoint may be anybody's.
    """
    return [run.handle for run in runs if _close(workspace, run, now)]


def _close(workspace: Workspace, run: roster.RunInfo, now: Checkpoint) -> bool:
    from checkpointer.run import pending

    pending.settle(workspace.directory, run.run)
    log = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory))).log(run.run)
    commit = Commit(id=now.id, number=now.number, captured=True)
    begin = RunStarted(run=run.run, owner=machine.holder(), command=list(run.command) or None, commit=commit)
    try:
        pen = claim(log, begin, shared=True)
        pen.append(WorkspaceChanged(cause="edit", by="unknown", checkpoint=now.number, commit=commit))
        pen.release("interrupted")
    except CheckpointerError:
        return False  # damaged, or somebody was faster: it is told by whoever reads it
    finally:
        log.close()
    return True
