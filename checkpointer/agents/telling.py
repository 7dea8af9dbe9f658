"""What an agent is told of what was done to the files behind its back, in words for a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkpointer.errors import CheckpointerError
from checkpointer.workspace.entry import show

if TYPE_CHECKING:
    from checkpointer.workspace.checkpoint import Checkpoint
    from checkpointer.workspace.workspace import Workspace

SHOWN = 30


def undone(workspace: Workspace, found: Sequence[Checkpoint]) -> str:
    """That a person undid, redid or restored, and which files are others now; empty where that is nothing."""
    if not found:
        return ""
    lines = ["Since your last turn the person changed files with ckpt, behind your back:"]
    verbs = {"undo": "undid", "redo": "did again", "restore": "restored"}
    for checkpoint in found:
        operation = checkpoint.meta.operation
        unit = operation.unit.removeprefix("restore ") if operation is not None else ""
        what = f"checkpoint {unit}" if checkpoint.kind == "restore" else unit
        lines.append(f"- {verbs.get(checkpoint.kind, checkpoint.kind)} {what}: {_paths(workspace, checkpoint)}")
    lines.append(
        "The files on disk are as they should be now. Read a file again before you rely on what you know of it, and do "
        "not bring back what was undone unless you are asked to."
    )
    return "\n".join(lines)


def _paths(workspace: Workspace, checkpoint: Checkpoint) -> str:
    try:
        before = checkpoint.parent and next(
            (c.number for c in workspace.store.checkpoints() if c.id == checkpoint.parent), None
        )
        if not before:
            return "the files of that time"
        changes = workspace.diff(before, checkpoint.number)
    except CheckpointerError:
        return "files that cannot be listed any more"
    files = sorted(path for path, ends in changes.items() if any(e is not None and e.kind != "dir" for e in ends))
    words = [f"{show(path)} (removed)" if changes[path][1] is None else show(path) for path in files[:SHOWN]]
    more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return ", ".join(words) + more if words else "no file changed"
