"""Read a small regular file whole: never blocking on what only looks like one, never more than a limit."""

from __future__ import annotations

import errno
import os
import stat

_ABSENT = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))


def read_plain(
    path: bytes, *, limit: int, dir_fd: int | None = None, follow: bool = False, end: bool = False
) -> bytes | None:
    """The file's bytes; None where nothing is, or something that is no regular file (a symlink, without `follow`).

    Raises OSError where a file is there and cannot be read, `EFBIG` where it is longer than `limit` bytes; with `end`
    the last `limit` bytes are given then.
    """
    try:
        st = os.stat(path, dir_fd=dir_fd, follow_symlinks=follow)
        if not stat.S_ISREG(st.st_mode):
            return None
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        fd = os.open(path, flags, dir_fd=dir_fd)
    except OSError as e:
        if e.errno in _ABSENT:
            return None
        raise
    try:
        st = os.fstat(fd)
        if not stat.S_ISREG(st.st_mode):
            return None
        if end:
            os.lseek(fd, max(0, st.st_size - limit), os.SEEK_SET)
        parts = []
        left = limit + 1
        while left and (part := os.read(fd, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        if not left and not end:
            raise OSError(errno.EFBIG, "longer than we read")
        return b"".join(parts)
    finally:
        os.close(fd)
