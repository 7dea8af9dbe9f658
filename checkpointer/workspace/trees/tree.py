"""The tree of a checkpoint, and how two of them differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from checkpointer.workspace.entry import Entry, parents
from checkpointer.workspace.trees.extras import Extras
from checkpointer.workspace.trees.gittree import TREE, Node, decode_tree, encode_tree, file_mode
from checkpointer.workspace.trees.names import escape, unescape
from checkpointer.workspace.trees.treeedit import edited, write_root
from checkpointer.workspace.trees.treeview import Tree

__all__ = [
    "Changes",
    "Extras",
    "Tree",
    "decode_tree",
    "diff",
    "edited",
    "encode_tree",
    "escape",
    "file_mode",
    "unescape",
    "write_root",
]

Changes = dict[bytes, tuple[Entry | None, Entry | None]]

_UNREAD = frozenset(("socket", "device", "uncovered"))


class _Chosen:
    """The paths a comparison is restricted to, asked once a directory."""

    def __init__(self, paths: Iterable[bytes]) -> None:
        self.paths = frozenset(paths)
        self.everything = not self.paths or b"" in self.paths
        self.above = frozenset(p for path in self.paths for p in parents(path)) | {b""}

    def __contains__(self, path: bytes) -> bool:
        return self.everything or path in self.paths or any(p in self.paths for p in parents(path))

    def may_hold(self, directory: bytes) -> bool:
        return self.everything or directory in self.above or directory in self


def _git_paths(a: Tree, b: Tree, chosen: _Chosen) -> Iterator[bytes]:
    """Paths whose git mode or id differ, directories only where they stand on one side."""
    stack: list[tuple[bytes, Node | None, Node | None]] = [(b"", (TREE, a.files), (TREE, b.files))]
    while stack:
        path, left, right = stack.pop()
        if left == right:
            continue
        left_tree = left is not None and left[0] == TREE
        right_tree = right is not None and right[0] == TREE
        if not (left_tree and right_tree):
            yield path
        if (left_tree or right_tree) and chosen.may_hold(path):
            lefts = a.children(left[1]) if left is not None and left_tree else {}
            rights = b.children(right[1]) if right is not None and right_tree else {}
            prefix = path + b"/" if path else b""
            for name in lefts.keys() | rights.keys():
                one, two = lefts.get(name), rights.get(name)
                if one != two:
                    stack.append((prefix + name, one, two))


def _extras_paths(a: Extras, b: Extras) -> set[bytes]:
    """Paths of which the extras of two checkpoints say different things."""
    out = set(a.directories ^ b.directories)
    for one, two in ((a.modes, b.modes), (a.fifos, b.fifos), (a.uncovered, b.uncovered)):
        out.update(p for p, _ in one.items() ^ two.items())
    return out


def _candidates(a: Tree, b: Tree, chosen: _Chosen) -> Iterator[bytes]:
    if a.root == b.root:
        return
    if a.extras_id != b.extras_id:
        if a.extras.usual_modes() != b.extras.usual_modes():  # nothing can be skipped: any mode may differ
            yield from {path for tree in (a, b) for path, _ in tree.walk()}
        yield from _extras_paths(a.extras, b.extras)
    if a.files != b.files:
        yield from _git_paths(a, b, chosen)


def _is_change(a: Tree, b: Tree, path: bytes, before: Entry | None, after: Entry | None) -> bool:
    if before == after:
        return False
    for tree, one, two in ((a, before, after), (b, after, before)):
        if one is not None and one.kind in _UNREAD:
            if two is None or two.kind in _UNREAD:
                return False
            if path not in tree.extras.uncovered:  # below a directory that was not read: nobody knows
                return False
    return True


def diff(a: Tree, b: Tree, paths: Sequence[bytes] = ()) -> Changes:
    """What differs from `a` to `b`: path -> (before, after), directories too, sorted by path.

    `paths` restricts to these paths and what is below them. A path that was seen but not read on one side is no change
    where nothing, or nothing read, stands on the other; else its side is an entry of kind `socket`, `device` or
    `uncovered`. Below a directory that was not read nothing counts as changed.
    """
    chosen = _Chosen(paths)
    out: Changes = {}
    for path in set(_candidates(a, b, chosen)):
        if path in chosen:
            before, after = a.entry(path), b.entry(path)
            if _is_change(a, b, path, before, after):
                out[path] = (before, after)
    return dict(sorted(out.items()))
