"""Read one file or link of a workspace steadily: the bytes that stood there between two equal `lstat`s."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

from checkpointer.errors import CaptureFailed, NoSpace
from checkpointer.workspace.entry import show
from checkpointer.workspace.odb.objects import CHUNK, Sink
from checkpointer.workspace.reading.table import Stat

READS = 3
"""A file that changes during each of so many reads is torn: it is kept as last read."""

KEPT = "the earlier checkpoints are as they were"

stat_of: Callable[[os.stat_result], Stat] = attrgetter("st_mode", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOVED = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.ESTALE))
_REFUSED = frozenset((errno.EACCES, errno.EPERM))
_BUSY_TRIES = 20
_BUSY_PAUSE = 0.05


class Moved(Exception):
    """The name is gone, or something else than a moment ago stands there."""


class Unreadable(Exception):
    """We may not read it."""


class Content(NamedTuple):
    """What was read: `stat` is as of the end of the reading, `read` how many bytes."""

    oid: bytes
    stat: Stat
    torn: bool
    read: int


def failed(what: bytes, error: OSError) -> CaptureFailed | NoSpace:
    """The exception for a path that could not be captured."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(f"no space left: {reason}", kept=KEPT, next=("ckpt gc",))
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return CaptureFailed(f"too many open files at {show(what)}", kept=KEPT, path=show(what))
    return CaptureFailed(f"cannot read {show(what) or 'the workspace'}: {reason}", kept=KEPT, path=show(what))


def classify(error: OSError) -> type[Moved] | type[Unreadable] | None:
    """What an error about one name means; None where the capture must fail."""
    if error.errno in _MOVED:
        return Moved
    if error.errno in _REFUSED:
        return Unreadable
    return None


def open_file(name: str, directory: int) -> int:
    """Open without ever waiting; somebody's lease on the file is given a second to be broken."""
    tries = 0
    while True:
        try:
            return os.open(name, _FLAGS, dir_fd=directory)
        except BlockingIOError:
            tries += 1
            if tries == _BUSY_TRIES:
                raise
            time.sleep(_BUSY_PAUSE)
        except OSError as e:
            meaning = classify(e)
            if meaning is None:
                raise
            raise meaning from e


def read_file(name: str, directory: int, sink: Sink, reopen: Callable[[], int] | None = None) -> Content:
    """Add a regular file's bytes to the sink. Raises `Moved`, `Unreadable`, or OSError.

    The name is opened without following a link and without waiting, and what was opened is looked at before a byte is
    read: a fifo or a device that took the file's place is closed again.
    """
    for _ in range(READS):
        fd = open_file(name, directory)
        try:
            before = stat_of(os.fstat(fd))
            if not stat.S_ISREG(before[0]):
                raise Moved
            size = before[2]
            if reopen is None and size < CHUNK and len(data := os.pread(fd, size + 1, 0)) == size:
                oid, read = sink.add("blob", data), size
            else:
                oid, read = sink.add_stream(fd, size, reopen)
            now = stat_of(os.fstat(fd))
        finally:
            os.close(fd)
        if now == before and read == now[2]:
            return Content(oid, now, False, read)
    return Content(oid, now, True, read)


def read_listed(name: str, directory: int, listed: Stat, sink: Sink) -> bytes | None:
    """Add a small regular file that is as it was listed, and return its id: the usual case, in the fewest calls.

    None where anything is not so, or it cannot be opened: `read_file` then looks closer.
    """
    size = listed[2]
    try:
        fd = os.open(name, _FLAGS, dir_fd=directory)
    except OSError:
        return None
    try:
        if os.fstat(fd).st_mode != listed[0]:  # no regular file any more: not a byte of it is read
            return None
        data = os.pread(fd, size + 1, 0)
        if len(data) != size or stat_of(os.fstat(fd)) != listed:
            return None
    finally:
        os.close(fd)
    return sink.add("blob", data)


def read_link(name: str, directory: int, sink: Sink) -> Content:
    """Add a link's target to the sink. Raises `Moved`, `Unreadable`, or OSError."""
    try:
        for _ in range(READS):
            before = stat_of(os.stat(name, dir_fd=directory, follow_symlinks=False))
            target = os.fsencode(os.readlink(name, dir_fd=directory))
            after = stat_of(os.stat(name, dir_fd=directory, follow_symlinks=False))
            if not stat.S_ISLNK(after[0]):
                raise Moved
            if before == after:
                return Content(sink.add("blob", target), after, False, len(target))
    except OSError as e:
        meaning = Moved if e.errno == errno.EINVAL else classify(e)  # EINVAL: no link any more
        if meaning is None:
            raise
        raise meaning from e
    raise Moved


def is_gitdir_file(name: str, directory: int) -> bool:
    """Does a file `.git` name a repository? One that cannot be read does. Raises `Moved`, OSError."""
    try:
        fd = open_file(name, directory)
    except Unreadable:
        return True
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Moved
        return os.pread(fd, 7, 0) == b"gitdir:"
    finally:
        os.close(fd)
