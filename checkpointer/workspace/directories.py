"""The directories of a workspace, reached by descriptor, one component after the other, never through a symlink.

Every path is relative to the root, which is opened once. A directory is opened with `O_NOFOLLOW` component by
component below it, so a symlink planted where a directory was makes an `OSError`, never a way out; a directory on
another file system is refused too. At most a quarter of the descriptors that this process may have stay open,
whatever the size and depth of the tree.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import sys
from collections import OrderedDict
from types import TracebackType

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST = 3000  # bytes of a path that is still handed to the system in one piece
_MOST_OPEN = 256

Identity = tuple[int, int]


def split(path: bytes) -> tuple[bytes, bytes]:
    """Directory and name of a path; the directory of a top-level name is `b""`."""
    directory, _, name = path.rpartition(b"/")
    return directory, name


class Directories:
    """A context manager. Every method raises `OSError` where the path is not what it must be."""

    def __init__(self, root: bytes) -> None:
        self.root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.device = os.fstat(self.root).st_dev
        self._open: OrderedDict[bytes, int] = OrderedDict()
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = _MOST_OPEN if allowed < 0 else max(4, min(_MOST_OPEN, allowed // 4))
        self._identity: dict[bytes, Identity] = {}

    def __enter__(self) -> Directories:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
        if self.root >= 0:
            os.close(self.root)
            self.root = -1

    def fd(self, directory: bytes) -> int:
        """An open descriptor of the directory; it stays open for at least the next call of this method."""
        if not directory:
            return self.root
        fd = self._open.get(directory)
        if fd is not None:
            self._open.move_to_end(directory)
            return fd
        fd = self._walk(directory)
        while len(self._open) >= self._most:
            os.close(self._open.popitem(last=False)[1])
        self._open[directory] = fd
        return fd

    def _walk(self, directory: bytes) -> int:
        """Open from the nearest open directory above; what is opened on the way is closed again."""
        parts = directory.split(b"/")
        start = len(parts)
        fd = self.root
        while start:
            start -= 1
            above = b"/".join(parts[:start])
            if above in self._open or not start:
                fd = self._open.get(above, self.root)
                break
        borrowed = True
        for i in range(start, len(parts)):
            try:
                below = os.open(parts[i], _OPEN, dir_fd=fd)
            finally:
                if not borrowed:
                    os.close(fd)
            fd, borrowed = below, False
            try:
                self._note(b"/".join(parts[: i + 1]), os.fstat(fd))
            except OSError:
                os.close(fd)
                raise
        return fd

    def _note(self, directory: bytes, st: os.stat_result) -> None:
        if st.st_dev != self.device:
            raise OSError(errno.EXDEV, "another file system")
        identity = (st.st_dev, st.st_ino)
        if self._identity.setdefault(directory, identity) != identity:
            raise OSError(errno.ENOTDIR, "not the directory it was")

    def confirm(self, directory: bytes) -> None:
        """Raise `OSError` unless every component of the directory is still the one that was opened."""
        if not directory:
            return
        if len(directory) > _LONGEST:
            self.forget(directory)
            self.fd(directory)
            return
        end = 0
        while end >= 0:
            end = directory.find(b"/", end + 1)
            above = directory if end < 0 else directory[:end]
            st = os.stat(above, dir_fd=self.root, follow_symlinks=False)
            if not stat.S_ISDIR(st.st_mode):
                raise OSError(errno.ENOTDIR, "not a directory any more")
            self._note(above, st)

    def forget(self, directory: bytes) -> None:
        """The directory is gone or new: it and everything below it is opened again when asked for."""
        prefix = directory + b"/"
        for path in [p for p in self._open if p == directory or p.startswith(prefix)]:
            os.close(self._open.pop(path))
        for path in [p for p in self._identity if p == directory or p.startswith(prefix)]:
            del self._identity[path]

    def lstat(self, path: bytes) -> os.stat_result | None:
        """What stands at the path, links not followed; None where nothing does, or its directory is missing."""
        if not path:
            return os.fstat(self.root)
        directory, name = split(path)
        try:
            return os.stat(name, dir_fd=self.fd(directory), follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self, directory: bytes) -> list[bytes]:
        """Every name in the directory, unsorted."""
        return [os.fsencode(name) for name in os.listdir(self.fd(directory))]

    def open_file(self, path: bytes) -> int:
        """Open a regular file for reading. Never blocks; raises `OSError` on anything that is no regular file."""
        directory, name = split(path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        st = os.stat(name, dir_fd=self.fd(directory), follow_symlinks=False)
        if not stat.S_ISREG(st.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return os.open(name, flags, dir_fd=self.fd(directory))

    def set_mode(self, path: bytes, mode: int) -> None:
        """Give a file, fifo or directory exactly `mode`; never through a symlink."""
        if not path:
            os.fchmod(self.root, mode)
            return
        directory, name = split(path)
        if sys.platform != "linux":
            os.chmod(name, mode, dir_fd=self.fd(directory), follow_symlinks=False)
            return
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd(directory))
        try:
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                raise OSError(errno.ELOOP, "a symlink")
            try:
                os.chmod(f"/proc/self/fd/{fd}", mode)
            except FileNotFoundError:  # no /proc here
                again = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self.fd(directory))
                try:
                    os.fchmod(again, mode)
                finally:
                    os.close(again)
        finally:
            os.close(fd)
