"""One directory while it is being scanned, and the way back to it by descriptors."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping

from checkpointer.workspace.entry import PERMISSIONS
from checkpointer.workspace.reading.listing import DIRECTORY
from checkpointer.workspace.reading.reader import stat_of
from checkpointer.workspace.reading.table import Own, Record, Stat, pack, unpack_seen
from checkpointer.workspace.rules.directoryrules import DirectoryRules
from checkpointer.workspace.trees.gittree import Item

_NOTHING: Mapping[str, int] = {}
OPEN_AT_ONCE = 40
"""Directories of one way down that keep their descriptor; the outer ones of a deeper way are opened again."""


class Frame:
    """`path` and `name` are `str` as the file system gives them; `fd` is -1 while closed.

    `old` is its record from the table. `rules_same`: the rules above are those of the record. `same`: so is all that
    was listed. `lent` is what the project's git offers for the names here. What was found: `seen`, `matched`, `kept`,
    `repository`, `rules`, `items` (of files and links), `own`, `files`. `children` holds the git tree of each
    sub-directory done (`b""`: none) and how much is below it, `differs` says that one of them is not what the record of
    this directory rests on.
    """

    __slots__ = (
        "children",
        "differs",
        "fd",
        "files",
        "inside",
        "items",
        "kept",
        "known",
        "lent",
        "matched",
        "matcher",
        "name",
        "old",
        "own",
        "parent",
        "path",
        "pending",
        "relist",
        "relisted",
        "repository",
        "rules",
        "rules_same",
        "same",
        "seen",
        "stat",
        "subs",
    )

    def __init__(self, parent: Frame | None, name: str, fd: int, stat: Stat, old: Record | None, inside: bool) -> None:
        self.parent = parent
        self.name = name
        self.path: str = name if parent is None or not parent.path else f"{parent.path}/{name}"
        self.fd = fd
        self.stat = stat
        self.old = old
        self.inside = inside
        self.rules_same = False
        self.same = False
        self.lent: Mapping[str, int] = _NOTHING
        self.known: dict[str, tuple[Stat, bytes, Stat, str]] = {}
        self.children: dict[str, tuple[bytes, int]] = {}
        self.pending: list[str] = []
        self.differs = False
        self.relist = False
        self.relisted = 0
        self.matcher: DirectoryRules | None = None
        self.subs: tuple[str, ...] = ()
        self.clear()

    def clear(self) -> None:
        """Forget what was found in the directory itself."""
        self.seen = b""
        self.matched: list[str] = []
        self.kept: list[str] = []
        self.repository = False
        self.rules = b""
        self.items: list[Item] = []
        self.own: Own = {}
        self.files = 0

    def path_of(self, name: str) -> bytes:
        return os.fsencode(f"{self.path}/{name}" if self.path else name)

    def has_directory(self, name: str) -> bool:
        """Does a directory of that name stand here now?"""
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def look_again(self, usual: int) -> None:
        """The mode of the directory itself was set anew: take that over into what was found. `usual` is no news."""
        self.stat = stat_of(os.fstat(self.fd))
        self.seen = pack([self.stat, *unpack_seen(self.seen)[1:]])
        self.own.get("modes", {}).pop("", None)
        mode = self.stat[0] & PERMISSIONS
        if mode != usual:
            self.note("modes", "", mode)

    def note(self, section: str, name: str, value: int | str) -> None:
        """Add to what the directory tells the extras."""
        self.own.setdefault(section, {})[name] = value

    def record(self, tree: bytes, below: int) -> Record:
        """What was found, for the table; `below` counts what is in the directories below."""
        return Record(
            self.seen,
            self.rules,
            tuple(self.matched),
            tuple(self.kept),
            self.inside,
            self.repository,
            self.subs,
            tree,
            self.files,
            self.files + below,
            self.own,
        )

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def close_way(self) -> None:
        """Close it and every directory above it but the root."""
        frame: Frame | None = self
        while frame is not None and frame.parent is not None:
            frame.close()
            frame = frame.parent

    def reopened(self) -> int:
        """The descriptor, opened again from the nearest open directory above where it was closed.

        Directories on the way stay open, `OPEN_AT_ONCE` at most. Raises OSError, `ESTALE` where another directory
        stands there now.
        """
        if self.fd >= 0:
            return self.fd
        way = []
        frame = self
        while frame.fd < 0:
            way.append(frame)
            assert frame.parent is not None, "the root stays open"
            frame = frame.parent
        opened: list[Frame] = []
        above = frame
        for below in reversed(way):
            fd = os.open(below.name, DIRECTORY, dir_fd=above.fd)
            found = stat_of(os.fstat(fd))
            if found[1] != below.stat[1]:
                os.close(fd)
                raise OSError(errno.ESTALE, "not the directory it was")
            below.fd = fd
            opened.append(below)
            if len(opened) > OPEN_AT_ONCE:
                opened.pop(0).close()
            above = below
        return self.fd
