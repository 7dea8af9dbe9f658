"""What a save, an undo, a redo, a restore and the settling of one that was cut short have to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from checkpointer.errors import NeedsPerson
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.entry import Entry, show
from checkpointer.workspace.trees.tree import Tree, diff

if TYPE_CHECKING:
    from checkpointer.workspace.reading.capture import Present

_NONE: Mapping[bytes, str] = MappingProxyType({})
Differences = Mapping[bytes, tuple[Entry | None, Entry | None]]


class Settled(NamedTuple):
    """An undo, redo or restore that had been cut short, and was finished now, forward.

    `left` are paths that somebody changed since, with the reason why they were left; they stand as they are and the
    newest checkpoint holds them. `abandoned` says why it was given up instead, `""` if it was not.
    """

    checkpoint: Checkpoint
    before: int
    written: Sequence[bytes] = ()
    removed: Sequence[bytes] = ()
    left: Mapping[bytes, str] = _NONE
    stayed: Sequence[bytes] = ()
    abandoned: str = ""

    @property
    def what(self) -> str:
        """`undo of t3`, for people."""
        operation = self.checkpoint.meta.operation
        if operation is None:
            return self.checkpoint.kind
        return operation.unit if self.checkpoint.kind == "restore" else f"{self.checkpoint.kind} of {operation.unit}"

    def refuses_to_look(self) -> NeedsPerson:
        """The error of a dry run before this was settled."""
        return NeedsPerson(
            f"the {self.what} was cut short; the next command that writes finishes it first",
            kept="nothing was written",
            next=("ckpt save",),
        )

    def refuses_to_go_on(self, verb: str, tip: Checkpoint | None) -> NeedsPerson:
        """The error of a command after this was settled, but for some paths."""
        listed = ", ".join(f"{show(p)} ({why})" for p, why in self.left.items())
        held = f"; checkpoint {tip.number} holds them" if tip is not None else ""
        return NeedsPerson(
            f"the {self.what} that was cut short is finished, but for: {listed}",
            kept=f"these paths stay as they are{held}",
            next=(f"ckpt {verb}",),
            paths=[show(p) for p in self.left],
        )


class Saved:
    """The checkpoint that holds the files as they are now.

    `created` is false where the newest one already did. `before` are the files as of the checkpoint before, None for a
    first one.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        created: bool,
        before: Tree | None,
        after: Tree,
        present: Present,
        settled: Settled | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.created = created
        self.before = before
        self.after = after
        self.present = present
        self.settled = settled

    @cached_property
    def changed(self) -> Differences:
        """What differs from the checkpoint before, directories too; nothing unless `created`."""
        if self.before is None:
            return {path: (None, entry) for path, entry in self.after.walk() if path}
        return diff(self.before, self.after)

    @property
    def uncovered(self) -> Mapping[bytes, str]:
        """What the checkpoint does not hold, with the reason."""
        return self.present.uncovered

    @property
    def torn(self) -> frozenset[bytes]:
        """Files that changed while they were read."""
        return frozenset(self.present.torn)


class Outcome(NamedTuple):
    """What an undo, redo or restore did, or with `dry_run` would do. Paths are sorted.

    `checkpoint` is None for a dry run, for `restore --to`, and where every path it had to remove was kept; `before` is
    the number of the checkpoint that holds the files as they were. `kept` had to go and stays: ignored, or a directory
    that holds something ignored or new. `notes` are for people.
    """

    verb: str
    unit: str
    checkpoint: Checkpoint | None = None
    before: int | None = None
    written: Sequence[bytes] = ()
    removed: Sequence[bytes] = ()
    merged: Sequence[bytes] = ()
    skipped: Sequence[bytes] = ()
    kept: Sequence[bytes] = ()
    conflicts: Sequence[dict[str, Any]] = ()
    uncovered: Mapping[bytes, str] = _NONE
    notes: Sequence[str] = ()
    dry_run: bool = False
    settled: Settled | None = None
