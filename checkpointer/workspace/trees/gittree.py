"""One git tree object, as a list of true names, modes and ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from checkpointer.errors import Damaged
from checkpointer.workspace.trees import names

TREE = 0o040000
FILE = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000
MODES = frozenset((TREE, FILE, EXECUTABLE, LINK))

_ENTRY = re.compile(rb"([0-9]{5,6}) ([^\0]+)\0(.{20})", re.DOTALL)
_REST = len(b" \0") + 20
_TEXT = {mode: b"%o " % mode for mode in MODES}
_MODE = {b"%o" % mode: mode for mode in MODES}

Item = tuple[bytes, int, bytes]
"""True name, git mode (one of `MODES`), 20-byte id."""

Node = tuple[int, bytes]
"""Git mode and id."""

EMPTY = b""

_NO_NAMES = frozenset((b"", b".", b".."))


def file_mode(mode: int) -> int:
    """The git mode of a regular file with these permission bits."""
    return EXECUTABLE if mode & 0o100 else FILE


def encode_tree(items: Iterable[Item]) -> bytes:
    """A git tree with these entries, in any order. Names are true names. Raises ValueError on one no tree can hold."""
    listed = list(items)
    if names.plain(name for name, _, _ in listed):
        stored = listed
    else:
        stored = [(names.escape(name, link=mode == LINK), mode, oid) for name, mode, oid in listed]
    every = [name for name, _, _ in listed]
    joined = b"/".join(every)
    if listed and (joined.count(b"/") != len(every) - 1 or b"\0" in joined or not _NO_NAMES.isdisjoint(every)):
        raise ValueError(f"not names: {every!r}")
    if listed and {len(oid) for _, _, oid in listed} != {20}:
        raise ValueError("an id that is not 20 bytes long")
    lines = [(name + b"/" if mode == TREE else name, _TEXT[mode] + name + b"\0" + oid) for name, mode, oid in stored]
    lines.sort()
    return b"".join([line for _, line in lines])


def decode_tree(data: bytes) -> list[Item]:
    """The entries of a git tree in git's order, with true names. Raises `Damaged`."""
    listed, modes, oids = _columns(data)
    return list(zip(listed, modes, oids, strict=True))


def decode_nodes(data: bytes) -> dict[bytes, Node]:
    """The same by name: mode and id. Raises `Damaged`."""
    listed, modes, oids = _columns(data)
    return dict(zip(listed, zip(modes, oids, strict=True), strict=True))


def _columns(data: bytes) -> tuple[Sequence[bytes], Sequence[int], Sequence[bytes]]:
    """Names, modes and ids, each as a column: three loops in C take half as long as one here."""
    if not data:
        return (), (), ()
    modes, listed, oids = zip(*_ENTRY.findall(data) or [(b"", b"", b"")], strict=True)
    read = len(b"".join(modes)) + len(b"".join(listed)) + _REST * len(oids)
    try:
        numbers = [_MODE[mode] for mode in modes]
    except KeyError:
        read = -1
    if read != len(data):  # something between two entries, or after the last one, is none
        raise Damaged("a tree of the store cannot be read")
    if b" " + names.MARK in data:
        listed = tuple(map(names.unescape, listed))
    return listed, numbers, oids
