"""Texts merged by line, through libgit2, in a repository that exists only in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from checkpointer.workspace.odb import libgit

_GIT = libgit.pygit2()
_NAME = "text"


class _Hunk(NamedTuple):
    """Lines `start` to `end` of the base (0-based, half-open) became the lines `first` to `last` of the other text."""

    start: int
    end: int
    first: int
    last: int


class _Memory(_GIT.OdbBackend):  # type: ignore[misc, name-defined]
    """Git objects in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[Any, tuple[int, bytes]] = {}

    def read_cb(self, oid: Any) -> tuple[int, bytes]:
        return self.objects[oid]

    def read_prefix_cb(self, oid: Any) -> tuple[int, bytes, Any]:
        return (*self.objects[oid], oid)

    def read_header_cb(self, oid: Any) -> tuple[int, int]:
        type_, data = self.objects[oid]
        return type_, len(data)

    def write_cb(self, oid: Any, data: bytes, type_: int) -> None:
        self.objects[oid] = (type_, data)

    def exists_cb(self, oid: Any) -> bool:
        return oid in self.objects

    def exists_prefix_cb(self, oid: Any) -> Any:
        return oid

    def refresh_cb(self) -> None:
        return None

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self.objects))


class TextMerge:
    """Merges one text at a time; nothing is kept between two of them, nothing is written to a disk."""

    def __init__(self) -> None:
        self._memory = _Memory()
        odb = _GIT.Odb()
        odb.add_backend(self._memory, 1)
        self._repository = _GIT.Repository()
        self._repository.set_odb(odb)

    def merge(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """The way from base to theirs taken in ours, byte for byte; None where the same lines changed differently."""
        try:
            trees = [self._tree(text) for text in (base, ours, theirs)]
            index = self._repository.merge_trees(*trees, flags=_GIT.enums.MergeFlag(0))
            if index.conflicts is not None:
                return None
            merged: bytes = self._memory.objects[index[_NAME].id][1]
            return merged
        finally:
            self._memory.objects.clear()

    def _tree(self, text: bytes) -> Any:
        builder = self._repository.TreeBuilder()
        builder.insert(_NAME, self._repository.create_blob(text), _GIT.enums.FileMode.BLOB)
        return builder.write()

    def conflicting(self, base: bytes, ours: bytes, theirs: bytes) -> tuple[tuple[int, int], ...]:
        """The ranges of lines of ours (1-based, inclusive) that theirs changed differently. Where ours lost lines it
        is the line before them."""
        mine, other = _hunks(base, ours), _hunks(base, theirs)
        texts = _lines(ours), _lines(theirs)
        out: list[tuple[int, int]] = []
        for hunk in mine:
            clashing = [h for h in other if h.start <= hunk.end and hunk.start <= h.end and not _equal(hunk, h, texts)]
            if clashing:
                out.append(_range(hunk, clashing, texts))
        return _joined(out or [_shown(hunk.first, hunk.last) for hunk in mine])


def _lines(text: bytes) -> list[bytes]:
    return text.split(b"\n")


def _hunks(old: bytes, new: bytes) -> list[_Hunk]:
    patch = _GIT.Patch.create_from(old, new, context_lines=0, flag=_GIT.enums.DiffOption.FORCE_TEXT)
    out = []
    for hunk in patch.hunks:
        start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
        first = hunk.new_start - 1 if hunk.new_lines else hunk.new_start
        out.append(_Hunk(start, start + hunk.old_lines, first, first + hunk.new_lines))
    return out


def _equal(mine: _Hunk, other: _Hunk, texts: tuple[list[bytes], list[bytes]]) -> bool:
    ours, theirs = texts
    return mine[:2] == other[:2] and ours[mine.first : mine.last] == theirs[other.first : other.last]


def _range(mine: _Hunk, clashing: Sequence[_Hunk], texts: tuple[list[bytes], list[bytes]]) -> tuple[int, int]:
    """The lines of a hunk, without those at its ends that both sides changed alike."""
    ours, theirs = texts
    first, last = mine.first, mine.last
    if len(clashing) == 1 and mine[:2] == clashing[0][:2]:
        there, end = clashing[0].first, clashing[0].last
        while last - first > 1 and there < end and ours[first] == theirs[there]:
            first, there = first + 1, there + 1
        while last - first > 1 and there < end and ours[last - 1] == theirs[end - 1]:
            last, end = last - 1, end - 1
    return _shown(first, last)


def _shown(first: int, last: int) -> tuple[int, int]:
    return (first + 1, last) if last > first else (max(first, 1), max(first, 1))


def _joined(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    out: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return tuple(out)
