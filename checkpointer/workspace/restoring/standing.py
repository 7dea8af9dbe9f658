"""What stands at one path right now, with its content hashed: for verifying and for settling, never for capturing."""

from __future__ import annotations

import hashlib
import os
import stat

from checkpointer.workspace.directories import Directories, split
from checkpointer.workspace.entry import PERMISSIONS, Entry, Signature, kind_of, signature

_CHUNK = 1 << 20
UNSTEADY = b"\xff" * 20
"""The content id of a file that changed while it was read: equal to none."""


def blob_id(data: bytes) -> bytes:
    """The git id of these bytes as a blob."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()


def _file_id(fd: int) -> bytes:
    before = os.fstat(fd)
    digest = hashlib.sha1(b"blob %d\0" % before.st_size, usedforsecurity=False)
    size = 0
    while chunk := os.read(fd, _CHUNK):
        size += len(chunk)
        digest.update(chunk)
    if size != before.st_size or signature(before) != signature(os.fstat(fd)):
        return UNSTEADY
    return digest.digest()


def standing(directories: Directories, path: bytes) -> tuple[Entry | None, Signature | None]:
    """The entry at the path and its signature; `(None, None)` where nothing is. Reads a file's whole content.

    Raises `OSError` where it cannot be read or its directory is none.
    """
    st = directories.lstat(path)
    if st is None:
        return None, None
    kind = kind_of(st.st_mode)
    oid = b""
    mode = st.st_mode & PERMISSIONS
    if kind == "file":
        fd = directories.open_file(path)
        try:
            oid = _file_id(fd) if signature(os.fstat(fd)) == signature(st) else UNSTEADY
        finally:
            os.close(fd)
    elif kind == "link":
        directory, name = split(path)
        oid = blob_id(os.readlink(name, dir_fd=directories.fd(directory)))
        mode = 0
    return Entry(kind, oid, mode), signature(st)


def is_directory(st: os.stat_result | None) -> bool:
    return st is not None and stat.S_ISDIR(st.st_mode)
