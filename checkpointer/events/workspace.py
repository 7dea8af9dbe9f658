"""Events of the files: they moved outside a tool call."""

from __future__ import annotations

from typing import ClassVar, Literal

from checkpointer.events.envelope import ABSENT, Event, Note


class WorkspaceChanged(Event):
    """The files are another tree now: the one of `commit`. `checkpoint` is its number, `before` the one before it.

    `turn` and `step` are set where a watched command's burst of changes counts as a step. `paths` is for people.
    """

    group: ClassVar[Literal["workspace"]] = "workspace"
    type: Literal["workspace_changed"] = "workspace_changed"
    cause: Literal["edit", "step", "undo", "redo", "restore", "kept", "settled"]
    by: Literal["person", "agent", "watch", "unknown"] = "unknown"
    checkpoint: int | None = None
    before: int | None = None
    turn: int | None = None
    step: int | None = None
    paths: Note = ABSENT
