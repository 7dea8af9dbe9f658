"""Modes changed for a moment, so that what must be covered can be read, and given back."""

from __future__ import annotations

import contextlib
import os
import stat

from checkpointer.workspace.directories import Directories
from checkpointer.workspace.entry import PERMISSIONS


class Rights:
    """Of one workspace's directories and files. Only their owner can do this; others get the `OSError`."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._modes: dict[str, int] = {}

    def take(self, path: str, st_mode: int) -> None:
        """Let us read the file or directory that now has this `st_mode`. Raises OSError."""
        mode = st_mode & PERMISSIONS
        self._set(path, mode | (stat.S_IRWXU if stat.S_ISDIR(st_mode) else stat.S_IRUSR))
        self._modes[path] = mode

    def taken(self, path: str) -> bool:
        return path in self._modes

    def give_back(self, path: str | None = None) -> None:
        """Set the mode as it was, of one path or of all; what is gone meanwhile is passed over."""
        for each in sorted(self._modes, reverse=True) if path is None else [path]:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                self._set(each, self._modes[each])
            del self._modes[each]

    def _set(self, path: str, mode: int) -> None:
        with Directories(self._root) as directories:
            directories.set_mode(os.fsencode(path), mode)
