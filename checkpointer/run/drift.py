"""A run goes on with the files that its log names: what became of them since, and what is done about it.

Known, and only noted: an undo, redo or restore by a person, and what other runs did. Explained: what a call that was
cut off may have left. Gone: a workspace that is no more, or is empty, is restored. Anything else was changed by
somebody since, and the run does not go on before somebody said which files it is to have.
"""

from __future__ import annotations

import os
from typing import Literal

from checkpointer.errors import Drift, NothingToDo, TooOld
from checkpointer.events import WorkspaceChanged
from checkpointer.run.files import Files
from checkpointer.state import RunState
from checkpointer.workspace.checkpoint import OPERATIONS, Checkpoint
from checkpointer.workspace.entry import below, show
from checkpointer.workspace.shadow.takenout import taken_out
from checkpointer.workspace.trees.tree import diff
from checkpointer.workspace.workspace import Workspace

Choice = Literal["ask", "keep", "restore"]
_SHOWN = 10


def settle(workspace: Workspace) -> list[str]:
    """Finish an undo, redo or restore that was cut short: only then do the files say anything. Gives lines for people;
    raises what a restore raises.
    """
    if os.path.isdir(workspace.root):
        workspace.settle()
    notes = [*workspace.notices]
    workspace.notices.clear()
    return notes


def look(files: Files, state: RunState, choice: Choice) -> tuple[list[WorkspaceChanged], list[str]]:
    """Make files and log agree. Gives the events that say so, and lines for people.

    Raises `Drift` where the files were changed since by nobody knows whom and `choice` is `ask`; what a checkpoint or a
    restore raises.
    """
    workspace, known = files.workspace, state.commit
    if known is None or known.number is None:
        return files.before(), []
    if is_empty(workspace) and (tip := workspace.store.tip()) is not None and _holds_something(workspace, tip):
        return _restore(files, tip.number, "the workspace was gone or empty")
    if _explained(state):
        return [], []  # recovery asks what the call that was cut off left
    try:
        changed = drifted(workspace, known.number)
    except TooOld as e:
        return _unknown(files, known.number, choice, e)
    if not changed:
        return files.before(), []
    names = ", ".join(show(path) for path in sorted(changed)[:_SHOWN])
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    if choice == "restore":
        return _restore(files, known.number, f"{names}{more} had changed")
    if choice == "keep":
        return _as_they_are(files), [f"changed since, and kept: {names}{more}"]
    raise Drift(
        f"these files changed since the run last saw them, and nobody knows by whom: {names}{more}",
        kept="the files are as they are, and the run is as it was",
        next=("ckpt resume --keep", "ckpt resume --restore", 'open_run(..., files="keep")'),
        paths=[show(path) for path in sorted(changed)],
        checkpoint=known.number,
    )


def _unknown(files: Files, number: int, choice: Choice, cause: TooOld) -> tuple[list[WorkspaceChanged], list[str]]:
    """What the run saw last is kept no more: only a person can say that the files are the right ones."""
    if choice == "keep":
        return _as_they_are(files), [f"taken as they are: checkpoint {number}, seen last, is kept no more"]
    raise Drift(
        f"checkpoint {number}, which the run saw last, is kept no more: nobody can say what changed since",
        kept="the files are as they are, and the run is as it was",
        next=("ckpt resume --keep", 'open_run(..., files="keep")'),
        checkpoint=number,
    ) from cause


def _explained(state: RunState) -> bool:
    """May a call that was just cut off, or is still to be judged by the files, have changed them?"""
    commits = (call.newest.commit for call in state.open if call.newest is not None)
    wrote = any(commit is not None and commit.captured for commit in commits)
    return wrote or any(c.effect == "workspace" for c in (*state.open, *state.uncertain))


def drifted(workspace: Workspace, number: int) -> set[bytes]:
    """The paths that differ from checkpoint `number` without an operation or a run to explain it."""
    store = workspace.store
    found: set[bytes] = set()
    before = seen = store.tree(store.by_number(number))
    for checkpoint in store.checkpoints():
        if checkpoint.number <= number:
            continue
        after = store.tree(checkpoint)
        if checkpoint.kind not in OPERATIONS and not checkpoint.meta.steps:
            found |= diff(before, after).keys()
        before = after
    present = workspace.look().tree
    now = diff(before, present)
    taken = [path for at, path in taken_out(store.directory) if number <= at]
    # A purge took them out of the checkpoint, not from the disk: that they stand there is no change.
    found |= {p for p, (old, _) in now.items() if old is not None or not any(below(p, top) for top in taken)}
    return found & diff(seen, present).keys()  # what came and went again is as the run saw it


def is_empty(workspace: Workspace) -> bool:
    try:
        with os.scandir(workspace.root) as entries:
            return next(entries, None) is None
    except (FileNotFoundError, NotADirectoryError):
        return True


def _holds_something(workspace: Workspace, checkpoint: Checkpoint) -> bool:
    return any(path for path, _ in workspace.store.tree(checkpoint).walk())


def _restore(files: Files, number: int, why: str) -> tuple[list[WorkspaceChanged], list[str]]:
    workspace = files.workspace
    workspace.make_root()
    try:
        done = workspace.restore(number, by="agent")
    except NothingToDo:
        return files.before(), [f"{why}: nothing that checkpoint {number} holds had to be put back"]
    notes = [f"{why}: the files are those of checkpoint {number} again", *done.notes]
    if done.kept:
        notes.append(f"left as they are: {' '.join(show(p) for p in done.kept[:_SHOWN])}")
    return files.before(), notes


def _as_they_are(files: Files) -> list[WorkspaceChanged]:
    """A checkpoint of files that a person wants kept, and the events that say so."""
    return [e.model_copy(update={"cause": "kept"}) if e.cause == "edit" else e for e in files.before()]
