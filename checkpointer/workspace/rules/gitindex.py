"""The paths that the project's git tracks, and those that repositories nested in the workspace track."""

from __future__ import annotations

import os
from bisect import bisect_left
from functools import lru_cache

from checkpointer.workspace.entry import parents, show
from checkpointer.workspace.project.gitdir import GitDir, git_above, git_at
from checkpointer.workspace.rules.gitconfig import object_format
from checkpointer.workspace.rules.indexfile import read_names, stamp


@lru_cache(maxsize=4)
def _names(path: bytes, id_size: int, stamp: bytes) -> list[bytes]:
    return read_names(path, id_size=id_size)


class _Index:
    """One repository's tracked names; every path counts as tracked where the index cannot be read."""

    def __init__(self, git: GitDir, prefix: bytes) -> None:
        """`prefix` leads from the top of the work tree to what paths are relative to; it is empty or ends with `/`."""
        self.prefix = prefix
        self.path = os.path.join(git.path, b"index")
        self.failure = ""
        try:
            id_size = 32 if object_format(git) == "sha256" else 20
            self.names = _names(self.path, id_size, stamp(self.path))
        except (OSError, ValueError) as e:
            self.names = []
            self.failure = (e.strerror if isinstance(e, OSError) else None) or str(e)
        self.sparse = frozenset(name for name in self.names if name.endswith(b"/"))

    def holds(self, path: bytes) -> bool:
        path = self.prefix + path
        i = bisect_left(self.names, path)
        return (i < len(self.names) and self.names[i] == path) or self._in_sparse(path) or bool(self.failure)

    def holds_below(self, directory: bytes) -> bool:
        if self.failure:
            return True
        start = self.prefix + directory + b"/" if directory else self.prefix
        i = bisect_left(self.names, start)
        return (i < len(self.names) and self.names[i].startswith(start)) or self._in_sparse(start)

    def _in_sparse(self, path: bytes) -> bool:
        return bool(self.sparse) and any(above + b"/" in self.sparse for above in parents(path))


class Tracked:
    """The tracked paths of a workspace. Each index is read when first asked for and then not again.

    A path belongs to the nearest repository above it; the top of a nested one is asked of the repository around it
    (which tracks it if it is a submodule). `notices` says in words which index could not be read: every path of such a
    repository counts as tracked.
    """

    def __init__(self, root: bytes) -> None:
        self.root = os.path.realpath(root)
        self.notices: list[str] = []
        self._git = git_above(self.root)
        self._outer: _Index | None = None
        self._known: dict[bytes, tuple[bytes, _Index] | None] = {}

    @property
    def identity(self) -> bytes:
        """While it is equal, so are the answers about paths in no nested repository. Costs one `stat`."""
        if self._git is None:
            return b""
        return self._git.top + b"\0" + stamp(os.path.join(self._git.path, b"index"))

    def __contains__(self, path: bytes) -> bool:
        found = self._nearest(path.rpartition(b"/")[0])
        return found is not None and found[1].holds(path[len(found[0]) :])

    def any_below(self, directory: bytes) -> bool:
        """Is the directory, or anything in it, tracked?"""
        found = self._nearest(directory.rpartition(b"/")[0])
        if found is None:
            return False
        inner = directory[len(found[0]) :]
        return found[1].holds_below(inner) or (bool(inner) and found[1].holds(inner))

    def _nearest(self, directory: bytes) -> tuple[bytes, _Index] | None:
        """The index that names in this directory belong to, and the path (ending with `/`) of its work tree."""
        unknown = []
        at = directory
        while at and at not in self._known:
            unknown.append(at)
            at = at.rpartition(b"/")[0]
        found = self._known[at] if at else self._around()
        for below in reversed(unknown):
            git = git_at(os.path.join(self.root, below))
            if git is not None:
                found = (below + b"/", self._read(git, b""))
            self._known[below] = found
        return found

    def _around(self) -> tuple[bytes, _Index] | None:
        if self._git is None:
            return None
        if self._outer is None:
            inner = self.root[len(self._git.top) :].strip(b"/")
            self._outer = self._read(self._git, inner + b"/" if inner else b"")
        return b"", self._outer

    def _read(self, git: GitDir, prefix: bytes) -> _Index:
        index = _Index(git, prefix)
        if index.failure:
            self.notices.append(f"what git tracks in {show(git.top)} cannot be read: {index.failure}")
        return index
