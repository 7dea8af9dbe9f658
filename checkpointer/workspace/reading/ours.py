"""What of a workspace is ours: all that no rule ignores, and what was ours before, is tracked, or must be covered."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from typing import Protocol

from checkpointer.errors import Damaged
from checkpointer.workspace.entry import Entry, parents
from checkpointer.workspace.rules.ignore import Rules
from checkpointer.workspace.trees.gittree import TREE
from checkpointer.workspace.trees.treeview import Tree


class TrackedPaths(Protocol):
    """The paths that the project's git, and nested ones, track."""

    @property
    def identity(self) -> bytes:
        """While it is equal, the answers are."""
        ...

    def __contains__(self, path: bytes) -> bool: ...

    def any_below(self, directory: bytes) -> bool: ...


class Nothing:
    """No git tracks anything."""

    identity = b""

    def __contains__(self, path: bytes) -> bool:
        return False

    def any_below(self, directory: bytes) -> bool:
        return False


class Ours:
    """Decides about paths that the rules ignore. `base` is the checkpoint before, `must` are paths to cover anyway."""

    def __init__(self, rules: Rules, tracked: TrackedPaths, base: Tree | None, must: Collection[bytes] = ()) -> None:
        self.rules = rules
        self.tracked = tracked
        self.base = base
        self.must = frozenset(must)
        self.must_hold = frozenset(p for path in self.must for p in (b"", *parents(path)))
        """Directories with a path to cover in them, outer ones too."""

    def keeps(self, path: bytes, is_dir: bool) -> bool:
        """Is a path ours although a rule ignores it, or it lies below an ignored directory?

        A directory is ours when it was itself, or when anything in it is.
        """
        if self.requires(path):
            return True
        if is_dir and path in self.must_hold:
            return True
        if self._covered(path) is not None:
            return True
        return self.tracked.any_below(path) if is_dir else path in self.tracked

    def requires(self, path: bytes) -> bool:
        """Must the content of this path be covered, whatever it takes?"""
        return path in self.must

    def requires_below(self, directory: bytes) -> bool:
        """Must anything in this directory, or the directory itself, be covered whatever it takes?"""
        return directory in self.must_hold or directory in self.must

    def _covered(self, path: bytes) -> Entry | None:
        """As the checkpoint before holds it. A part of it that is damaged holds nothing."""
        if self.base is None:
            return None
        with contextlib.suppress(Damaged):
            return self.base.covered(path)
        return None

    def covered_file(self, path: bytes) -> bytes | None:
        """The blob that the checkpoint before holds for a regular file at this path."""
        entry = self._covered(path)
        return entry.oid if entry is not None and entry.kind == "file" else None

    def covered_directory(self, path: bytes) -> bytes | None:
        """The git tree that the checkpoint before holds for a directory; `b""` where no file is below it."""
        entry = self._covered(path)
        if self.base is None or entry is None or entry.kind != "dir":
            return None
        node = self.base.node(path)
        return node[1] if node is not None else b""

    def covered_names(self, directory: bytes) -> frozenset[bytes]:
        """What the checkpoint before holds in a directory."""
        if self.base is None:
            return frozenset()
        with contextlib.suppress(Damaged):
            node = self.base.node(directory)
            inner = self.base.children(node[1]) if node is not None and node[0] == TREE else {}
            outer = self.base.outside.get(directory, {})
            return frozenset(inner).union(n for n, entry in outer.items() if entry is not None)
        return frozenset()


class Inside:
    """The names that are ours in a directory that is ignored itself, a directory's with a `/` behind."""

    def __init__(self, ours: Ours, directory: bytes) -> None:
        self._ours = ours
        self._prefix = directory + b"/" if directory else b""
        self._tracked = ours.tracked.any_below(directory)
        self._names = ours.covered_names(directory)

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, str)
        is_dir = key.endswith("/")
        name = os.fsencode(key[:-1] if is_dir else key)
        if name in self._names:
            return True
        if not self._tracked and not self._ours.must:
            return False
        return self._ours.keeps(self._prefix + name, is_dir)
