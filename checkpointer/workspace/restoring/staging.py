"""Temporary files that hold everything a restore will place, before the first name is touched.

A staged file has its final mode from its first byte and is opened with `O_EXCL`, so nobody else's file is ever written.
The names carry the id of the prepared commit: whatever a kill leaves behind is known for ours and swept later.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from checkpointer import disk
from checkpointer.workspace.directories import Directories
from checkpointer.workspace.entry import PERMISSIONS, Entry, Signature, parents, signature

if TYPE_CHECKING:
    from checkpointer.workspace.checkpoint import Checkpoint
    from checkpointer.workspace.odb.objects import Objects

MANY = 16
"""Up to this many files or directories are synced one by one; more are synced with the whole file system."""

_SMALL = 1 << 20
_ANY_CTIME = -1
_FIFOS = os.mkfifo in os.supports_dir_fd


class Staged(NamedTuple):
    """A temporary file ready to be renamed. `signature` has no ctime: the rename changes it."""

    directory: bytes
    name: bytes
    signature: Signature


def without_ctime(signature: Signature) -> Signature:
    return signature._replace(ctime_ns=_ANY_CTIME)


def same(expected: Signature, seen: Signature) -> bool:
    """Are they equal, the ctime aside where `expected` leaves it open?"""
    return expected == (without_ctime(seen) if expected.ctime_ns == _ANY_CTIME else seen)


def temporary_name(token: str, number: int) -> bytes:
    return b".ckpt-%s-%d.tmp" % (token.encode(), number)


def is_temporary(path: bytes, token: str) -> bool:
    """Is it a file that a restore with this token writes before it renames it?"""
    name = path.rpartition(b"/")[2]
    return name.startswith(b".ckpt-%s-" % token.encode()) and name.endswith(b".tmp")


def token_of(pending: Checkpoint) -> str:
    """What the names of a restore's temporary files carry."""
    return pending.id[:12]


def sync_singly(count: int) -> bool:
    """Is it cheaper (or, off Linux, the only way to reach the drive) to sync each by itself?"""
    return count <= MANY or sys.platform != "linux"


class Staging:
    """Write with `add`, then `flush` once, then `take` each for renaming; `discard` removes what was not taken."""

    def __init__(self, directories: Directories, objects: Objects, token: str, *, count: int, first: int = 0) -> None:
        self._directories = directories
        self._objects = objects
        self._token = token
        self._singly = sync_singly(count)
        self._staged: dict[bytes, Staged] = {}
        self._times: dict[bytes, tuple[int, int]] = {}
        self._root = os.geteuid() == 0
        self.next = first

    def add(self, path: bytes, entry: Entry, where: bytes, existing: os.stat_result | None) -> None:
        """Stage `entry` for `path` in the directory `where`, owned as `existing` is (else as the directory is).

        Raises `OSError` (no space, no permission), `Damaged` where the store cannot give the content.
        """
        name = temporary_name(self._token, self.next)
        self.next += 1
        fd = self._directories.fd(where)
        if where not in self._times:
            st = os.fstat(fd)
            self._times[where] = (st.st_atime_ns, st.st_mtime_ns)
        if entry.kind == "file":
            st = self._write(fd, name, path, entry, existing)
        else:
            st = self._make(fd, name, entry, existing)
        self._staged[path] = Staged(where, name, without_ctime(signature(st)))

    def _owner(self, fd: int, existing: os.stat_result | None) -> tuple[int, int]:
        """Owner and group to set, -1 where there is nothing to set."""
        like = existing if existing is not None else os.fstat(fd)
        if self._root:
            return like.st_uid, like.st_gid
        return -1, like.st_gid if existing is not None else -1

    def _write(
        self, dir_fd: int, name: bytes, path: bytes, entry: Entry, existing: os.stat_result | None
    ) -> os.stat_result:
        fd = disk.create(name, mode=entry.mode, dir_fd=dir_fd)
        try:
            try:
                st = os.fstat(fd)
                uid, gid = self._owner(dir_fd, existing)
                if (uid not in (-1, st.st_uid)) or (gid not in (-1, st.st_gid)):
                    with contextlib.suppress(PermissionError):  # a group we are not in
                        os.fchown(fd, uid, gid)
                size = _fill(fd, self._objects, entry.oid)
                if existing is not None and stat.S_ISREG(existing.st_mode):
                    self._attributes(path, fd)
                st = os.fstat(fd)
                if st.st_mode & PERMISSIONS != entry.mode:  # writing and chown clear setuid
                    os.fchmod(fd, entry.mode)
                    st = os.fstat(fd)
                if st.st_size != size:
                    raise OSError(errno.EIO, "the file does not have the size that was written")
                if self._singly:
                    disk.sync(fd, name)
            finally:
                os.close(fd)
        except BaseException:
            with contextlib.suppress(OSError):
                disk.remove(name, dir_fd=dir_fd)
            raise
        return st

    def _make(self, dir_fd: int, name: bytes, entry: Entry, existing: os.stat_result | None) -> os.stat_result:
        if entry.kind == "link":
            os.symlink(self._objects.get(entry.oid)[1], name, dir_fd=dir_fd)
        else:
            if not _FIFOS:
                raise OSError(errno.ENOTSUP, "fifos cannot be made safely on this system")
            os.mkfifo(name, 0o600, dir_fd=dir_fd)
        try:
            uid, gid = self._owner(dir_fd, existing)
            if self._root:
                os.chown(name, uid, gid, dir_fd=dir_fd, follow_symlinks=False)
            if entry.kind == "fifo":
                os.chmod(name, entry.mode, dir_fd=dir_fd)
            return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        except BaseException:
            disk.remove(name, dir_fd=dir_fd)
            raise

    def _attributes(self, path: bytes, to: int) -> None:
        """Carry the user's own extended attributes over from the file that will be replaced."""
        if not hasattr(os, "listxattr"):
            return
        with contextlib.suppress(OSError):
            fd = self._directories.open_file(path)
            try:
                for name in os.listxattr(fd):
                    if name.startswith("user."):
                        os.setxattr(to, name, os.getxattr(fd, name))
            finally:
                os.close(fd)

    def flush(self) -> None:
        """Bring every staged byte to stable storage."""
        if not self._singly and self._staged:
            disk.sync_file_system(self._directories.root)

    def paths(self) -> list[bytes]:
        """What is staged and not renamed yet, sorted."""
        return sorted(self._staged)

    def take(self, path: bytes) -> Staged:
        """The staged file, about to be renamed; call `done` when it was."""
        return self._staged[path]

    def done(self, path: bytes) -> None:
        del self._staged[path]

    def discard(self, *, traceless: bool = False) -> None:
        """Remove what was staged and not renamed. Never raises `OSError`: what stays is swept later.

        `traceless`: nothing was renamed at all, so the directories get their times back too.
        """
        for staged in self._staged.values():
            with contextlib.suppress(OSError):
                disk.remove(staged.name, dir_fd=self._directories.fd(staged.directory), missing_ok=True)
        self._staged.clear()
        for directory, times in self._times.items() if traceless else ():
            with contextlib.suppress(OSError):
                os.utime(self._directories.fd(directory), ns=times)


def _fill(fd: int, objects: Objects, oid: bytes) -> int:
    """Write a blob's content; long runs of zeros become holes. Returns its size."""
    size = objects.size(oid)
    if size <= _SMALL:
        disk.write_all(fd, objects.get(oid)[1])
        return size
    for chunk in objects.stream(oid):
        if chunk.count(0) == len(chunk):
            os.lseek(fd, len(chunk), os.SEEK_CUR)
        else:
            disk.write_all(fd, chunk)
    disk.truncate(fd, size)
    return size


def sweep(directories: Directories, token: str, paths: Iterable[bytes]) -> list[bytes]:
    """Remove the temporary files of one prepared commit that a kill left; `paths` are those it was to change."""
    swept = []
    for directory in sorted(set(_where(paths))):
        with contextlib.suppress(OSError):
            for name in directories.names(directory):
                if is_temporary(name, token):
                    disk.remove(name, dir_fd=directories.fd(directory), missing_ok=True)
                    swept.append(directory + b"/" + name if directory else name)
    return swept


def _where(paths: Iterable[bytes]) -> Iterator[bytes]:
    yield b""
    for path in paths:
        yield from parents(path)
