"""Whether a path still is what was captured: asked of everything that a restore is about to replace or remove."""

from __future__ import annotations

import os
from collections.abc import Callable

from checkpointer.workspace.directories import Directories, split
from checkpointer.workspace.entry import Entry, Signature, signature
from checkpointer.workspace.reading.contents import COARSE_SLACK_NS, SLACK_NS
from checkpointer.workspace.restoring.carried import Leave
from checkpointer.workspace.restoring.replacements import Replacement, is_dir
from checkpointer.workspace.restoring.staging import same, without_ctime
from checkpointer.workspace.restoring.standing import is_directory, standing

_COARSE_NS = 10_000_000


class Captured:
    """`expect` gives the signature that a path had; `seen_ns` is when these were begun to be taken, by the clock.

    A path that was written so shortly before that a later write may bear the same time is read once more.
    """

    def __init__(self, directories: Directories, expect: Callable[[bytes], Signature | None], seen_ns: int) -> None:
        self._directories = directories
        self._expect = expect
        self._seen_ns = seen_ns
        self._inodes: set[int] = set()  # lost a name through us, so their ctime moved
        self.twins: set[bytes] = set()
        """Checked paths that are one of several hard links."""

    def check(self, path: bytes, change: Replacement, *, closely: bool) -> None:
        """Raise `Leave` unless the path is what it must be: for a directory, one. Raises OSError.

        `closely`: it is about to be replaced.
        """
        current, wanted = change
        st = self._directories.lstat(path)
        if path:
            self._directories.confirm(split(path)[0])
        if current is None:
            if st is not None and not (is_directory(st) and is_dir(wanted)):
                raise Leave(path, "what is there is in no checkpoint (ignored, or made meanwhile): move it away")
        elif st is None:
            raise Leave(path, "it was removed meanwhile")
        elif current.kind == "dir":
            if not is_directory(st):
                raise Leave(path, "it is no directory any more")
        else:
            if not self._as_expected(path, st) or (closely and self._is_racy(st) and not self._holds(path, current)):
                raise Leave(path, "it was changed meanwhile")
            if st.st_nlink > 1:
                self.twins.add(path)

    def _as_expected(self, path: bytes, st: os.stat_result) -> bool:
        expected = self._expect(path)
        if expected is not None and st.st_ino in self._inodes:
            expected = without_ctime(expected)
        return expected is not None and same(expected, signature(st))

    def _is_racy(self, st: os.stat_result) -> bool:
        """Could it have been written once more, after it was captured, without a new time?"""
        newest = max(st.st_mtime_ns, st.st_ctime_ns)
        return newest >= self._seen_ns - (COARSE_SLACK_NS if newest % _COARSE_NS == 0 else SLACK_NS)

    def _holds(self, path: bytes, entry: Entry) -> bool:
        if entry.kind == "file" and not entry.mode & 0o400 and os.geteuid():
            return True  # as far as anybody can tell who cannot read it
        seen, _ = standing(self._directories, path)
        return seen is not None and seen.content == entry.content

    def loses_a_name(self, path: bytes) -> None:
        """The path is about to be replaced or removed by us: its other hard links get a new ctime."""
        st = self._directories.lstat(path)
        if st is not None and st.st_nlink > 1:
            self._inodes.add(st.st_ino)
