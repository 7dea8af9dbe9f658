"""Which version of a file brought each of its lines, told from the versions alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from checkpointer.workspace.odb.libgit import pygit2

K = TypeVar("K")


class Version(NamedTuple, Generic[K]):
    """What a file held from `origin` on."""

    origin: K
    content: bytes


def split(content: bytes) -> list[bytes]:
    """Lines with their ends, split after `\\n` alone, as git does."""
    lines = content.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def blame(versions: Sequence[Version[K]]) -> list[tuple[K, bytes]]:
    """Each line of the newest version with the origin of the version that brought it; `versions` are oldest first.

    A version that holds just what an earlier one held (after an undo, say) has that one's lines again, with their
    origins. Costs a line comparison for each version.
    """
    known: dict[bytes, list[K]] = {}
    before = b""
    origins: list[K] = []
    for version in versions:
        found = known.get(version.content)
        if found is None:
            found = _carried(before, version.content, origins, version.origin)
            known[version.content] = found
        before, origins = version.content, found
    return list(zip(origins, split(before), strict=True))


def _carried(old: bytes, new: bytes, origins: Sequence[K], origin: K) -> list[K]:
    """The origins of the lines of `new`: those of `old` where a line stayed, `origin` where it is new."""
    if b"\0" in old or b"\0" in new:  # not compared by line
        return [origin] * len(split(new))
    out: list[K] = []
    at = 0
    for start, count, _, added in _hunks(old, new):
        first = start - 1 if count else start  # git numbers the line before an insertion
        out += origins[at:first]
        out += [origin] * added
        at = first + count
    return out + list(origins[at:])


def _hunks(old: bytes, new: bytes) -> list[tuple[int, int, int, int]]:
    """Where two texts differ: first line and number of lines in the old one, and in the new one."""
    patch: Any = pygit2().Patch.create_from(old, new, context_lines=0, interhunk_lines=0)
    return [(h.old_start, h.old_lines, h.new_start, h.new_lines) for h in patch.hunks]
