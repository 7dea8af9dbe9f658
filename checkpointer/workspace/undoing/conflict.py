"""One path that is in the way of an undo or redo: why, in which lines, whose later change it is, and what to type."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from checkpointer.errors import Conflict
from checkpointer.workspace.entry import to_json
from checkpointer.workspace.undoing.selection import Selection
from checkpointer.workspace.undoing.units import OUTSIDE


class InTheWay(NamedTuple):
    """One path's conflict. `lines` are ranges of the present file, 1-based and inclusive, empty where lines mean
    nothing; `why` is for people; `by` says whose later change it is, `at` when (RFC 3339), None if not known."""

    path: bytes
    why: str
    lines: tuple[tuple[int, int], ...] = ()
    by: str = OUTSIDE
    at: str | None = None

    def to_json(self) -> dict[str, Any]:
        lines = [list(pair) for pair in self.lines]
        return {"path": to_json(self.path), "lines": lines, "by": self.by, "at": self.at, "why": self.why}


def blame(selection: Selection, path: bytes) -> tuple[str, str | None]:
    """Whose the newest later change of a path is, and when it was seen (RFC 3339; None for the present files)."""
    timeline = selection.timeline
    own = {change.segment for change in selection.taken} if selection.verb == "undo" else set()
    newest = timeline.checkpoints[-1]
    for end, _, _ in timeline.history(path):
        if end.number <= selection.since:
            break
        if any(segment.before < end.number <= segment.after for segment in own):
            continue
        fresh = end is newest and end.kind == "before-restore"
        return timeline.owner(end), None if fresh else end.meta.at.isoformat()
    return OUTSIDE, None


def refusal(selection: Selection, conflicts: Sequence[InTheWay], impossible: Collection[bytes] = ()) -> Conflict:
    """The error that a plain undo or redo ends in: nothing is written. Force is no way for what is `impossible`."""
    # Directories come and go with their files: only what people call files is counted.
    entries = [[e for move in moves for e in move if e is not None] for moves in selection.moves.values()]
    count, total = len(conflicts), max(len(conflicts), sum(any(e.kind != "dir" for e in found) for found in entries))
    files = "1 file" if total == 1 else f"{total} files"
    again = "the same lines were" if any(c.lines for c in conflicts) else "something was"
    first = conflicts[0].path
    word = shlex.quote(os.fsdecode(first))
    forced = [] if len(impossible) >= count else [selection.command("--force")]
    return Conflict(
        f"nothing changed: in {count} of {files} {again} changed again after {selection.label}",
        kept="every file is as it was",
        next=[
            selection.command("--skip"),
            *forced,
            f"ckpt diff {_point(selection, first)} now -- {word}",
        ],
        conflicts=[conflict.to_json() for conflict in conflicts],
        files=total,
        impossible=len(impossible),
    )


def _point(selection: Selection, path: bytes) -> str:
    """The point right after what is to be taken back at this path, as `ckpt diff` takes it."""
    if selection.verb == "redo":
        return str(selection.since)
    if re.fullmatch(r"t\d+", selection.label):
        return selection.label
    ends = (change.segment.after for change in selection.taken if change.path == path)
    return str(max(ends, default=selection.since))
