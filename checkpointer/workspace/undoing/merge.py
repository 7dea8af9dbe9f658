"""One path merged three ways: what it is and its bytes by line, and its mode apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from checkpointer.workspace.entry import Entry
from checkpointer.workspace.odb.objects import ObjectType

if TYPE_CHECKING:
    from checkpointer.workspace.undoing.textmerge import TextMerge

TEXT_LIMIT = 1 << 20
"""Bytes up to which a file is merged by line."""

Lines = tuple[tuple[int, int], ...]


class Blobs(Protocol):
    """Where blobs are read: a part of `Objects`."""

    def get(self, oid: bytes) -> tuple[ObjectType, bytes]: ...

    def size(self, oid: bytes) -> int: ...


class Merged(NamedTuple):
    """The result at one path. `why` is empty unless it is a conflict; then `entry` means nothing and `lines` are the
    conflicting ranges of ours, 1-based and inclusive, empty where lines mean nothing. `by_line`: bytes were merged."""

    entry: Entry | None
    why: str = ""
    lines: Lines = ()
    by_line: bool = False


class Merger:
    """Merges entries, reading blobs from one place and adding merged ones to another (`Sink.add`)."""

    def __init__(self, blobs: Blobs, add: Callable[[ObjectType, bytes], bytes]) -> None:
        self._blobs = blobs
        self._add = add
        self._text: TextMerge | None = None

    def __call__(self, base: Entry | None, ours: Entry | None, theirs: Entry | None) -> Merged:
        """Take the way from `base` to `theirs` in `ours`. Raises what reading the blobs raises, nothing of its own.

        A directory is taken away only in the sense that nothing asks for it any more: whoever carries that out keeps
        one that holds something.
        """
        if ours == base:
            return Merged(theirs)
        if theirs == base or ours == theirs:
            return Merged(ours)
        if _directory(ours) and _directory(base) and theirs is None:
            return Merged(None)
        if _directory(ours) and _directory(theirs) and not _directory(base):
            return Merged(ours)
        if ours is None:
            return Merged(None, "it was deleted since")
        if base is None:
            return Merged(None, "it was made anew since")
        content = self._content(base, ours, theirs)
        if content.why:
            return content
        mode = _three_ways(base.mode, ours.mode, theirs.mode if theirs is not None else None)
        if mode is _CONFLICT:
            return Merged(None, "its mode was changed since")
        if content.entry is None:
            return content
        return content._replace(entry=content.entry._replace(mode=0 if content.entry.kind == "link" else mode))

    def _content(self, base: Entry, ours: Entry, theirs: Entry | None) -> Merged:
        """Kind and bytes; the entry's mode means nothing."""
        if ours.content == base.content:
            return Merged(theirs)
        if theirs is None:
            return Merged(None, "it was changed since")
        if theirs.content in (base.content, ours.content):
            return Merged(ours)
        if ours.kind != base.kind:
            return Merged(None, f"it is a {_WORD[ours.kind]} now")
        if not base.kind == ours.kind == theirs.kind == "file":
            return Merged(None, "it was changed since")
        return self._bytes(base, ours, theirs)

    def _bytes(self, base: Entry, ours: Entry, theirs: Entry) -> Merged:
        if any(self._blobs.size(entry.oid) > TEXT_LIMIT for entry in (base, ours, theirs)):
            return Merged(None, "it was changed since, and is too large to be merged by line")
        texts = [self._blobs.get(entry.oid)[1] for entry in (base, ours, theirs)]
        if any(b"\0" in text for text in texts):
            return Merged(None, "it was changed since, and is no text")
        if self._text is None:
            from checkpointer.workspace.undoing.textmerge import TextMerge  # loads libgit2: only where a merge needs it

            self._text = TextMerge()
        merged = self._text.merge(*texts)
        if merged is None:
            return Merged(None, "the same lines were changed since", self._text.conflicting(*texts))
        return Merged(ours._replace(oid=self._add("blob", merged)), by_line=True)


_WORD = {
    "file": "file",
    "link": "link",
    "dir": "directory",
    "fifo": "fifo",
    "socket": "socket",
    "device": "device",
    "uncovered": "path that is not covered",
}

_CONFLICT = -1


def _directory(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == "dir"


def _three_ways(base: int, ours: int, theirs: int | None) -> int:
    if ours == base:
        return ours if theirs is None else theirs
    if theirs in (base, ours):
        return ours
    return _CONFLICT
