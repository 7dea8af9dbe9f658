"""The workspace directory itself where it is gone: made again, or, for looking, stood in for by an empty one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from checkpointer import disk
from checkpointer.errors import CaptureFailed, Failed
from checkpointer.workspace.entry import show
from checkpointer.workspace.shadow.history import History


def must_be_there(root: bytes) -> None:
    """Raises `CaptureFailed` where the directory is gone: that is no empty workspace."""
    if not os.path.isdir(root):
        raise CaptureFailed(
            f"{show(root)} is gone", kept="its checkpoints are kept", next=("ckpt undo", "ckpt restore P")
        )


def make(root: bytes, history: History) -> bool:
    """Make the directory if it is gone, with the mode that the newest checkpoint knows. True if it was made.

    Raises `Failed` where something else stands there, and what making it raises.
    """
    if os.path.lexists(root):
        if not os.path.isdir(root):
            raise Failed(f"{show(root)} is not a directory", kept="nothing was written")
        return False
    with disk.plain_errors(f"making {show(root)}"):
        os.makedirs(os.path.dirname(root), exist_ok=True)
        disk.make_directory(root, mode=_mode(history))
    return True


def _mode(history: History) -> int:
    tip = history.tip()
    entry = history.tree(tip).entry(b"") if tip is not None else None
    return entry.mode | 0o700 if entry is not None else 0o755


@contextlib.contextmanager
def stand_in(history: History) -> Iterator[bytes]:
    """An empty directory elsewhere that stands for one that is gone."""
    import shutil
    import tempfile

    place = tempfile.mkdtemp(prefix="ckpt-")
    try:
        os.chmod(place, _mode(history))
        yield os.fsencode(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
