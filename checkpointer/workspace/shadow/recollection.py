"""What a lost `workspace.toml` must have said, as far as the checkpoints tell."""

from __future__ import annotations

import contextlib
import os

from checkpointer.errors import Damaged, NewerFormat
from checkpointer.workspace.facts import Facts, load, save
from checkpointer.workspace.shadow.history import History


def facts_of(directory: str | os.PathLike[str], root: bytes, history: History, *, repair: bool) -> tuple[Facts, str]:
    """What `workspace.toml` says, else what it must have said, with a notice for people; `repair` writes it anew.

    Raises `NewerFormat`, and `Damaged` where the store cannot be read either.
    """
    try:
        return load(directory), ""
    except NewerFormat:
        raise
    except Damaged as e:
        known = recollect(root, history)
        if repair:
            save(directory, known)
        return known, "" if repair else f"{e.message}; what it said was read from the checkpoints instead"


def recollect(root: bytes, history: History) -> Facts:
    """Facts about the workspace at `root`. What only older checkpoints told is not in them. Raises `Damaged`."""
    known = Facts(path=root)
    with contextlib.suppress(OSError):
        st = os.stat(root)
        known.dev, known.ino = st.st_dev, st.st_ino
    checkpoints = history.checkpoints()
    if not checkpoints:
        return known
    from checkpointer.workspace.undoing.units import had_a_run, parse_handle

    turns = [parse_handle(step).turn for c in checkpoints for step in c.meta.steps]
    runs = [int(run[1:]) for c in checkpoints for run in c.meta.runs if run[1:].isdigit()]
    known.last_number = checkpoints[-1].number
    known.last_turn, known.last_run = max(turns, default=0), max(runs, default=0)
    known.had_run = had_a_run(checkpoints)
    known.first_kept = checkpoints[0].number
    if checkpoints[0].id in history.shallow():
        known.cut = [checkpoints[0].id]
    return known
