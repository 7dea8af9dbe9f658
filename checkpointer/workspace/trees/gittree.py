"""One git tree object, as a list of true names, modes and ids."""

from __future__ import annotations

from collections.abc import Iterable

from checkpointer.errors import Damaged
from checkpointer.workspace.trees import names

TREE = 0o040000
FILE = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000
MODES = frozenset((TREE, FILE, EXECUTABLE, LINK))

_TEXT = {mode: b"%o " % mode for mode in MODES}
_MODE = {b"%o" % mode: mode for mode in MODES}

Item = tuple[bytes, int, bytes]
"""True name, git mode (one of `MODES`), 20-byte id."""

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
    out: list[Item] = []
    at = 0
    end = len(data)
    find = data.find
    while at < end:
        zero = find(b"\0", at)
        mode, space, name = data[at:zero].partition(b" ")
        at = zero + 21
        if zero < 0 or at > end or not space or not name or mode not in _MODE:
            raise Damaged("a tree of the store cannot be read")
        out.append((name, _MODE[mode], data[zero + 1 : at]))
    if b" " + names.MARK in data:
        out = [(names.unescape(name), mode, oid) for name, mode, oid in out]
    return out
