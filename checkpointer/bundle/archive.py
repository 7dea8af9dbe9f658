"""The file of a bundle: a tar in one form only, so that there is nothing in it to interpret.

Every member is a regular file; its header is exactly the one that `header` makes of its name and size, and what follows
it exactly the padding that a tar has. A reader compares bytes: links, devices, paths that lead elsewhere and attributes
have no place where they could stand. `tar -xf` reads it like any other.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final

from checkpointer.errors import Damaged

BLOCK: Final = 512
CHUNK: Final = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_KINDS = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"5": "a directory",
    b"6": "a fifo", b"x": "extended attributes", b"g": "extended attributes", b"L": "a long name",
    b"K": "a long link", b"S": "a sparse file",
}  # fmt: skip


def header(name: str, size: int) -> bytes:
    """The header of one member. Sizes from 8 GiB on stand in base 256, as every tar of today reads them."""
    length = b"%011o\0" % size if size < 8 << 30 else b"\x80" + size.to_bytes(11, "big")
    head = bytearray(BLOCK)
    for at, value in (
        (0, name.encode("ascii")), (100, b"0000644\0"), (108, b"0000000\0"), (116, b"0000000\0"), (124, length),
        (136, b"00000000000\0"), (148, b" " * 8), (156, b"0"), (257, b"ustar\x0000"),
    ):  # fmt: skip
        head[at : at + len(value)] = value
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def padded(size: int) -> int:
    """How many bytes a member's contents take."""
    return -(-size // BLOCK) * BLOCK


def length(sizes: Iterable[int]) -> int:
    """How long a bundle with members of these sizes is."""
    return sum(BLOCK + padded(size) for size in sizes) + 2 * BLOCK


def member(name: str, size: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of one member. Raises `Damaged` where it is not as long as was said."""
    yield header(name, size)
    seen = 0
    for chunk in chunks:
        seen += len(chunk)
        yield chunk
    if seen != size:
        raise Damaged(f"{name} changed while it was read", kept="nothing was written")
    yield bytes(padded(size) - size)


END: Final = bytes(2 * BLOCK)


class Reader:
    """Reads a bundle once, from its beginning. Raises `Damaged`, whose words say what is wrong with it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def head(self) -> tuple[str, int]:
        """Name and size of the member that comes next."""
        raw = self._exactly(BLOCK)
        name, size = _parse(raw)
        if raw != header(name, size):
            raise Damaged(f"the header of {name} is not one that an export writes")
        return name, size

    def contents(self, size: int) -> Iterator[bytes]:
        """The contents of that member, in chunks; to be read to their end."""
        left = size
        while left:
            chunk = self._exactly(min(CHUNK, left))
            left -= len(chunk)
            yield chunk
        if any(self._exactly(padded(size) - size)):
            raise Damaged("there is something between two members")

    def end(self) -> None:
        """Nothing may follow."""
        if any(self._exactly(len(END))) or self._file.read(1):
            raise Damaged("something follows the last member")

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise Damaged("it is cut short")
        return data


def _parse(raw: bytes) -> tuple[str, int]:
    name = raw[:100].rstrip(b"\0").decode("utf-8", "backslashreplace")
    shown = name if name.isprintable() else repr(name)
    if not any(raw):
        raise Damaged("a member is missing")
    if raw[156:157] not in (b"0", b"\0"):
        raise Damaged(f"{shown} is {_KINDS.get(raw[156:157], 'no file')}, and a bundle holds plain files only")
    if name.startswith("/") or ".." in name.split("/"):
        raise Damaged(f"{shown} leads out of the bundle")
    if not _NAME.fullmatch(name):
        raise Damaged(f"{shown} is no name of a member")
    field = raw[124:136]
    try:
        size = int.from_bytes(field[1:], "big") if field[0] == 0x80 else int(field.rstrip(b"\0 ") or b"x", 8)
    except ValueError:
        raise Damaged(f"{shown} has no size") from None
    if not 0 <= size < 1 << 60:
        raise Damaged(f"{shown} has no size that can be")
    return name, size


def digest_of(path: str) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    h, size = hashlib.sha256(), 0
    for chunk in chunks_of(path):
        h.update(chunk)
        size += len(chunk)
    return size, h.hexdigest()


def chunks_of(path: str, size: int | None = None) -> Iterator[bytes]:
    """A file's bytes, or its first `size`."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        left = CHUNK if size is None else size
        while left and (chunk := os.read(fd, min(CHUNK, left))):
            yield chunk
            left -= len(chunk) if size is not None else 0
    finally:
        os.close(fd)
