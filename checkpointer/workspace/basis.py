"""What an undo, redo or restore is decided from: the timeline, with the files as they are now as its newest point."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from checkpointer.workspace.checkpoint import OPERATIONS, Checkpoint, Meta
from checkpointer.workspace.directories import Directories
from checkpointer.workspace.entry import Entry, below, parents
from checkpointer.workspace.restoring.standing import is_directory
from checkpointer.workspace.trees.tree import Tree, diff

if TYPE_CHECKING:
    from checkpointer.workspace.facts import Facts
    from checkpointer.workspace.reading.capture import Present
    from checkpointer.workspace.shadow.history import History
    from checkpointer.workspace.undoing.timeline import Timeline

_LOST = re.compile(r"numbers go on after (\d+)$")
_LOOKED_AT = 300
"""Intervals that are searched for edits of nobody's: enough to name them, not to be slow."""


def lost_numbers(history: History, checkpoints: Sequence[Checkpoint]) -> frozenset[int]:
    """Numbers of checkpoints that were taken and cannot be read any more, as far as the store knows."""
    lost: set[int] = set()
    for older, newer in pairwise(checkpoints):
        if newer.parent is not None and newer.parent != older.id:
            lost.update(range(older.number + 1, newer.number) or (older.number,))
    if checkpoints and checkpoints[0].parent is not None:
        lost.add(checkpoints[0].number - 1)  # and what was before it
    numbers = [checkpoint.number for checkpoint in checkpoints]
    for last in _noted_damage(history.directory):
        known = max((number for number in numbers if number <= last), default=0)
        lost.update(range(known + 1, last + 1))
    return frozenset(lost)


def _noted_damage(directory: str) -> list[int]:
    from checkpointer.workspace.shadow.store import DAMAGE

    try:
        with open(os.path.join(directory, DAMAGE), encoding="utf-8", errors="replace") as f:
            return [int(match[1]) for line in f.read().split("\n") if (match := _LOST.search(line))]
    except OSError:
        return []


class Basis(NamedTuple):
    """`checkpoints` are the timeline, oldest first; the last of them holds the files as they are now (`present`).

    `seen_ns` is when these were begun to be read. Where the present was only looked at and differs from the newest
    checkpoint, that last one is not in the store.
    """

    history: History
    checkpoints: Sequence[Checkpoint]
    present: Present
    seen_ns: int

    @classmethod
    def looked(cls, history: History, present: Present, meta: Meta, seen_ns: int = 0) -> Basis:
        """The same, nothing written: `meta` is what the capture would have said."""
        checkpoints = history.checkpoints()
        newest = checkpoints[-1] if checkpoints else None
        root = present.tree.root.hex()
        if newest is None or newest.tree != root:
            number = history.highest_number(newest) + 1
            checkpoints = [*checkpoints, Checkpoint(number, "", root, newest.id if newest else None, meta)]
        return cls(history, checkpoints, present, seen_ns)

    @property
    def newest(self) -> Checkpoint:
        return self.checkpoints[-1]

    def tree(self, number: int) -> Tree:
        """The files as of a checkpoint of the timeline. Raises as `History.by_number` does."""
        if number == self.newest.number:
            return self.present.tree
        return self.history.tree(self.history.by_number(number))

    def diff(
        self, before: int, after: int, paths: Sequence[bytes] = ()
    ) -> dict[bytes, tuple[Entry | None, Entry | None]]:
        return diff(self.tree(before), self.tree(after), paths)

    def timeline(self, facts: Facts) -> Timeline:
        from checkpointer.workspace.undoing.timeline import fold

        return fold(
            self.checkpoints,
            self.diff,
            had_run=facts.had_run,
            first_kept=facts.first_kept,
            last_turn=facts.last_turn or None,
        )

    def lost(self) -> frozenset[int]:
        return lost_numbers(self.history, self.checkpoints)

    def inside(self, directory: bytes) -> Iterator[bytes]:
        """Everything below a directory that was seen now, uncovered things too."""
        for path, _ in self.present.tree.walk(directory):
            if path != directory:
                yield path
        for path in self.present.tree.extras.uncovered:
            if path != directory and below(path, directory) and not self.present.tree.covers(path):
                yield path

    def unread(self, paths: Iterable[bytes], reasons: Collection[str]) -> set[bytes]:
        """Those of the paths whose content was not read, for one of these reasons of their own or of a directory's."""
        uncovered = self.present.tree.extras.uncovered
        if not uncovered:
            return set()
        return {path for path in paths if any(uncovered.get(p) in reasons for p in (path, *parents(path)))}

    def nobodys(self, since: int, paths: Collection[bytes], *, unprotected: bool = False) -> list[bytes]:
        """Those of the paths that were changed outside any agent's step or operation after a checkpoint, sorted; or
        those that were changed while an agent was not protected.
        """
        wanted = set(paths)
        found: set[bytes] = set()
        pairs = [(a, b) for a, b in pairwise(self.checkpoints) if a.number >= since]
        for before, after in pairs[-_LOOKED_AT:]:
            outside = not after.meta.steps and after.kind not in OPERATIONS
            if outside and after.meta.unprotected is unprotected:
                found.update(wanted & self.diff(before.number, after.number).keys())
        return sorted(found)


def strangers(root: bytes, tree: Tree, directory: bytes) -> Iterator[bytes]:
    """What stands in a directory on the disk, at any depth, and is not covered by the tree."""
    try:
        with Directories(root) as directories:
            waiting = [directory]
            while waiting:
                above = waiting.pop()
                for name in sorted(directories.names(above)):
                    path = above + b"/" + name if above else name
                    if not tree.covers(path):
                        yield path
                    elif is_directory(directories.lstat(path)):
                        waiting.append(path)
    except OSError:
        yield directory  # it cannot be looked into: then nobody knows
