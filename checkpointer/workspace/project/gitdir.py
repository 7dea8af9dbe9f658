"""Where a project's git keeps its parts: found as git finds them, looked at and never written.

No environment variable and no configuration is obeyed: `GIT_DIR`, `core.worktree` and the like change nothing here.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from checkpointer.workspace.project.plainfile import read_plain

_SMALL = 1 << 20
_ID = re.compile(rb"[0-9a-fA-F]{40}")


class GitDir(NamedTuple):
    """A repository with a work tree. All paths are absolute.

    `top` is the directory that holds `.git`, `path` the git directory of this work tree, `common` the one it shares
    with other work trees (the same where it is the only one).
    """

    top: bytes
    path: bytes
    common: bytes

    def head(self) -> str | None:
        """The branch checked out, `detached`, or None where that cannot be told."""
        text = _read(os.path.join(self.path, b"HEAD"))
        if text is None:
            return None
        if not text.startswith(b"ref:"):
            return "detached"
        name = text[4:].strip().removeprefix(b"refs/heads/")
        return name.decode("utf-8", "backslashreplace")


def _read(path: bytes) -> bytes | None:
    try:
        return read_plain(path, limit=_SMALL, follow=True)
    except OSError:
        return None


def _resolved(directory: bytes) -> bytes | None:
    """The git directory that `.git` in a directory is or names."""
    path = os.path.join(directory, b".git")
    try:
        st = os.stat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(st.st_mode):
        return path
    text = _read(path) if stat.S_ISREG(st.st_mode) else None
    if text is None or not text.startswith(b"gitdir: "):
        return None
    target = text[8:].rstrip(b"\r\n")
    return os.path.normpath(os.path.join(directory, target)) if target and b"\0" not in target else None


def _common(path: bytes) -> bytes:
    text = _read(os.path.join(path, b"commondir"))
    target = (text or b"").rstrip(b"\r\n")
    return os.path.normpath(os.path.join(path, target)) if target and b"\0" not in target else path


def _has_head(path: bytes) -> bool:
    head = os.path.join(path, b"HEAD")
    try:
        if stat.S_ISLNK(os.lstat(head).st_mode):
            return os.readlink(head).startswith(b"refs/")
    except OSError:
        return False
    text = _read(head) or b""
    if text.startswith(b"ref:"):
        return text[4:].lstrip().startswith(b"refs/")
    return _ID.match(text) is not None


def git_at(directory: bytes) -> GitDir | None:
    """The repository whose work tree has this directory (absolute) as its top; None where there is none.

    As for git, a `.git` without `HEAD`, `objects` and `refs` is no repository.
    """
    path = _resolved(directory)
    if path is None or not _has_head(path):
        return None
    common = _common(path)
    if not all(os.path.isdir(os.path.join(common, name)) for name in (b"objects", b"refs")):
        return None
    return GitDir(directory, path, common)


def git_above(directory: bytes) -> GitDir | None:
    """The repository that a directory (absolute, links resolved) lies in: the nearest upward on its file system."""
    try:
        device = os.stat(directory).st_dev
        while True:
            found = git_at(directory)
            above = os.path.dirname(directory)
            if found is not None or above == directory:
                return found
            if os.stat(above).st_dev != device:
                return None
            directory = above
    except OSError:
        return None
