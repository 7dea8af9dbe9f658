"""The names in a git index file: versions 2 to 4, split and sparse ones too, in SHA-1 and SHA-256 repositories."""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
import struct
from collections.abc import Generator, Iterator
from typing import NamedTuple

from checkpointer.workspace.project.plainfile import read_plain

LARGEST = 1 << 30
_SPARSE_DIRECTORY = 0o040000
_EXTENDED = 0x40
_SECOND = 1_000_000_000
_FLAGGED = 0xB0  # assumed unchanged, or a side of a conflict
_REGULAR = frozenset(mode.to_bytes(4, "big") for mode in (0o100644, 0o100755))
_KNOWN = frozenset((b"link", b"sdir"))  # a reader must understand extensions whose names begin with a small letter


class Names(NamedTuple):
    """`paths` are sorted and may repeat. A name that ends with `/` stands for everything below it."""

    paths: list[bytes]
    base: bytes | None  # the shared index that a split index adds to, in hexadecimal


Known = tuple[int, int, int, int, bytes]
"""What an index knows of a file: what `lstat` said when git last found it unchanged, and the id of its blob.

Of `lstat`: inode, size (the low 32 bits of both), mtime and ctime in nanoseconds.
"""


def parse(data: bytes, *, id_size: int) -> Names:
    """Read an index file's bytes; ids are 20 or 32 bytes long. Raises ValueError on anything damaged or unknown."""
    try:
        return _parse(data, id_size)
    except (IndexError, struct.error) as e:
        raise ValueError(f"not an index: {e}") from e


def _parse(data: bytes, id_size: int) -> Names:
    version, count, body = _header(data, id_size)
    at, paths = _entries(data, body, version, count, id_size)
    if any(a > b for a, b in itertools.pairwise(paths)):
        paths.sort()
    return Names(paths, _base(data, at, body, id_size))


def _header(data: bytes, id_size: int) -> tuple[int, int, int]:
    """Version, number of entries, and where the checksum begins, which fits."""
    signature, version, count = struct.unpack_from(">4sLL", data)
    body = len(data) - id_size
    if signature != b"DIRC" or version not in (2, 3, 4) or count > body // (40 + id_size):
        raise ValueError("not an index of version 2 to 4")
    _check(data, body)
    return version, count, body


def _check(data: bytes, body: int) -> None:
    stored = data[body:]
    digest = hashlib.sha256 if len(stored) == 32 else hashlib.sha1
    if stored.strip(b"\0") and digest(memoryview(data)[:body], usedforsecurity=False).digest() != stored:
        raise ValueError("its checksum does not fit")


def _entries(data: bytes, body: int, version: int, count: int, id_size: int) -> tuple[int, list[bytes]]:
    """Where the entries end, and their names."""
    paths = []
    at = 12
    fixed = 40 + id_size + 2
    name = b""
    flags_at = 40 + id_size
    for _ in range(count):
        mode = data[at + 26] << 8 | data[at + 27]
        start = at + fixed
        if data[at + flags_at] & 0x40:
            if version == 2:
                raise ValueError("an extended entry in version 2")
            start += 2
        name, at = _name(data, at, start, body, version, name)
        sparse = mode & 0o170000 == _SPARSE_DIRECTORY and not name.endswith(b"/")
        paths.append(name + b"/" if sparse else name)
    if at > body:
        raise ValueError("ends too early")
    return at, paths


_FIELDS = struct.Struct(">6L12xL20s").unpack_from  # not all that stand there


def known_at(data: bytes, at: int) -> Known:
    """What an index says of the file whose entry begins there."""
    ctime, ctime_ns, mtime, mtime_ns, _, inode, size, oid = _FIELDS(data, at)
    return inode, size, mtime * _SECOND + mtime_ns, ctime * _SECOND + ctime_ns, oid


def known_files(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Every name in the index of a SHA-1 repository, and where its entry begins.

    Instead of that, -1 where it is no file, or git says more of it: that it is assumed unchanged, not in the work tree,
    intended, or in conflict. Raises ValueError on anything damaged or unknown, and for a split index, which says of its
    files in two places; perhaps after the last name only.
    """
    try:
        version, count, body = _header(data, 20)
        at = yield from _known_files(data, body, version, count)
        if at > body:
            raise ValueError("ends too early")
        if _base(data, at, body, 20) is not None:
            raise ValueError("a split index")
    except (IndexError, struct.error) as e:
        raise ValueError(f"not an index: {e}") from e


def _known_files(data: bytes, body: int, version: int, count: int) -> Generator[tuple[bytes, int], None, int]:
    """As `known_files`; where the entries end."""
    at = 12
    name = b""
    for _ in range(count):
        start = at + 62
        flags = data[at + 60]
        known = at if not flags & _FLAGGED and data[at + 24 : at + 28] in _REGULAR else -1
        if flags & _EXTENDED:
            if version == 2:
                raise ValueError("an extended entry in version 2")
            if data[start : start + 2] != b"\0\0":
                known = -1
            start += 2
        name, at = _name(data, at, start, body, version, name)
        yield name, known
    return at


def _name(data: bytes, at: int, start: int, body: int, version: int, before: bytes) -> tuple[bytes, int]:
    """The name of the entry at `at`, which stands from `start` on, and where the next entry begins. `before` is the
    name of the entry before it, which version 4 takes the beginning of.
    """
    if version != 4:
        end = data.index(b"\0", start, body)
        return data[start:end], at + ((end - at + 8) & ~7)
    strip, start = _number(data, start)
    if strip > len(before):
        raise ValueError("a name cut below nothing")
    end = data.index(b"\0", start, body)
    return before[: len(before) - strip] + data[start:end], end + 1


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Git's offset encoding, as in packs."""
    c = data[at]
    value = c & 127
    while c & 128:
        at += 1
        c = data[at]
        value = ((value + 1) << 7) | (c & 127)
        if value > LARGEST:
            raise ValueError("a number too large")
    return value, at + 1


def _base(data: bytes, at: int, body: int, id_size: int) -> bytes | None:
    base = None
    while at < body:
        name, size = struct.unpack_from(">4sL", data, at)
        at += 8
        if at + size > body:
            raise ValueError("an extension ends too late")
        if name[:1].islower() and name not in _KNOWN:
            raise ValueError(f"an unknown extension {name!r}")
        if name == b"link":
            if size < id_size:
                raise ValueError("a split index without a base")
            found = data[at : at + id_size]
            base = found.hex().encode() if found.strip(b"\0") else None
        at += size
    return base


def read_names(path: bytes, *, id_size: int) -> list[bytes]:
    """The sorted names in an index file and in the one it may add to; none where there is no file.

    Of a split index, names that it takes out of its base are there all the same. Raises ValueError, OSError.
    """
    data = read_plain(path, limit=LARGEST, follow=True)
    if data is None:
        return []
    paths, base = parse(data, id_size=id_size)
    if base is None:
        return paths
    shared = read_plain(os.path.join(os.path.dirname(path), b"sharedindex." + base), limit=LARGEST, follow=True)
    if shared is None:
        raise ValueError("its shared index is missing")
    names = parse(shared, id_size=id_size)
    if names.base is not None:
        raise ValueError("its shared index is split too")
    return sorted({*names.paths, *(p for p in paths if p)})


def stamp(path: bytes) -> bytes:
    """What tells whether an index file was replaced, from one `stat`; empty where there is none."""
    try:
        st = os.stat(path)
    except OSError:
        return b""
    return b"%d %d %d %d" % (stat.S_IFMT(st.st_mode), st.st_ino, st.st_size, st.st_mtime_ns)
