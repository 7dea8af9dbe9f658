"""Where git's attributes may have made a blob of something else than the bytes on disk, as far as sizes do not tell.

Line ends are no matter here: every conversion of them changes the size, and sizes are compared. `filter`, `ident` and
`working-tree-encoding` may leave it as it was. Patterns are read generously: what is not plain at a look counts as one
that matches everything in its directory and below.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from checkpointer.workspace.project.gitdir import GitDir
from checkpointer.workspace.project.plainfile import read_plain
from checkpointer.workspace.rules.gitconfig import attributes_files

NAME = b".gitattributes"
_HARMFUL = frozenset((b"filter", b"ident", b"working-tree-encoding"))
_SPECIAL = re.compile(rb"[*?\[\\]")
_BLANK = re.compile(rb"[ \t\r]+")
_LIMIT = 100 << 20


class Reach(NamedTuple):
    """What the harmful lines may mean in one directory and below: all of it, or names that end so, or are so.

    In lower case: whether case counts depends on the configuration.
    """

    everything: bool = False
    suffixes: tuple[bytes, ...] = ()
    names: frozenset[bytes] = frozenset()

    def __bool__(self) -> bool:
        return self is not _NOTHING

    def includes(self, name: bytes) -> bool:
        name = name.lower()
        return self.everything or name in self.names or name.endswith(self.suffixes)

    def joined(self, other: Reach) -> Reach:
        return Reach(self.everything or other.everything, self.suffixes + other.suffixes, self.names | other.names)


_NOTHING = Reach()
_EVERYTHING = Reach(everything=True)


def harmful(text: bytes) -> tuple[Reach, list[bytes]]:
    """What the lines of a file with attributes mean, and directories below in which they mean everything."""
    suffixes: list[bytes] = []
    names: list[bytes] = []
    below: list[bytes] = []
    for line in text.removeprefix(b"\xef\xbb\xbf").lower().split(b"\n"):
        pattern, *attributes = _BLANK.split(line.strip(b" \t\r"))
        if pattern.startswith(b"#") or not any(a.partition(b"=")[0] in _HARMFUL for a in attributes):
            if not pattern.startswith(b'"') or not any(word in line for word in _HARMFUL):
                continue
            return _EVERYTHING, []  # a quoted pattern, which may hold spaces
        if pattern.startswith((b"[attr]", b'"')):
            return _EVERYTHING, []  # by another name, then
        if b"/" in pattern.removeprefix(b"**/"):
            literal = _SPECIAL.split(pattern.removeprefix(b"/"))[0].rpartition(b"/")[0]
            if not literal:
                return _EVERYTHING, []
            below.append(literal)
            continue
        pattern = pattern.removeprefix(b"**/")
        if not _SPECIAL.search(pattern):
            names.append(pattern)
        elif pattern.startswith(b"*") and len(pattern) > 1 and not _SPECIAL.search(pattern[1:]):
            suffixes.append(pattern[1:])
        else:
            return _EVERYTHING, []
    return Reach(False, tuple(suffixes), frozenset(names)) if suffixes or names else _NOTHING, below


class Touched:
    """Which files of a work tree git may hold otherwise than they stand on disk, by the attributes that stand there.

    Paths are relative to the top of the work tree. Raises ValueError, OSError where what counts outside the work tree
    cannot be told.
    """

    def __init__(self, git: GitDir) -> None:
        self._git = git
        self._whole: set[bytes] = set()
        self._reach: dict[bytes, Reach] = {}
        outer = _NOTHING
        for path in attributes_files(git):
            text = read_plain(path, limit=_LIMIT, follow=True)
            if text is not None:
                outer = outer.joined(self._lines(b"", text))
        self._outer = outer

    def _lines(self, directory: bytes, text: bytes) -> Reach:
        reach, below = harmful(text)
        prefix = directory.lower() + b"/" if directory else b""
        self._whole.update(prefix + name for name in below)
        return reach

    def reach(self, directory: bytes) -> Reach:
        """What is touched among the names in a directory."""
        known = self._reach
        unknown = []
        at = directory
        while (found := known.get(at)) is None:
            unknown.append(at)
            if not at:
                found = self._outer
                break
            at = at.rpartition(b"/")[0]
        for below in reversed(unknown):
            own = _NOTHING if found.everything else self._own(below)
            if own is not _NOTHING:
                found = found.joined(own)
            if self._whole and below.lower() in self._whole:
                found = _EVERYTHING
            known[below] = found
        return found

    def _own(self, directory: bytes) -> Reach:
        path = b"%b/%b/%b" % (self._git.top, directory, NAME)
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                return _EVERYTHING
            text = read_plain(path, limit=_LIMIT)
        except FileNotFoundError:
            return _NOTHING
        except OSError:
            return _EVERYTHING
        return _EVERYTHING if text is None else self._lines(directory, text)
