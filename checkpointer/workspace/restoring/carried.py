"""What was carried out on the files, and the words for what was not."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from checkpointer.errors import CheckpointerError, Failed, Interfered, NoSpace
from checkpointer.workspace.entry import show

DENIED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))
FULL = frozenset((errno.ENOSPC, errno.EDQUOT))


class Carried:
    """What was done. Paths are sorted; `left` says why.

    `stayed` are directories that had to go but hold something that is not ours to remove. `unlinked` had further hard
    links, which keep the old file.
    """

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.removed: list[bytes] = []
        self.left: dict[bytes, str] = {}
        self.stayed: list[bytes] = []
        self.unlinked: list[bytes] = []


class Leave(Exception):
    """A path is not what it must be: a strict restore gives up, a lenient one leaves it."""

    def __init__(self, path: bytes, reason: str, *, denied: bool = False) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason
        self.denied = denied


def in_words(e: BaseException, left: Mapping[bytes, str], *, began: bool, lost: Mapping[bytes, str]) -> BaseException:
    """The error to raise for `e`, saying what became of the files. `lost` could not be taken back."""
    undone = "what was done already was taken back" if began else "nothing was changed"
    if lost:
        undone = "taken back, but for: " + ", ".join(f"{show(p)} ({why})" for p, why in sorted(lost.items()))
    details = {"not_taken_back": [show(p) for p in sorted(lost)]} if lost else {}
    if isinstance(e, Leave):
        named = [show(p) for p in left]
        if e.denied:
            listed = ", ".join(f"{show(p)}: {why}" for p, why in left.items())
            return Failed(f"cannot write {listed}", kept=undone, paths=named, **details)
        return Interfered(f"{show(e.path)}: {e.reason}; {undone}", kept=undone, paths=named, **details)
    if isinstance(e, OSError):
        kind = NoSpace if e.errno in FULL else Failed
        return kind(f"{e.strerror or e}; {undone}", kept=undone, **details)
    if isinstance(e, CheckpointerError):
        e.kept = undone
        e.details.update(details)
    return e
