"""Where a project's git says that its HEAD was moved to: git's own log of HEAD, read and nothing else."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from typing import NamedTuple

from checkpointer.workspace.project.gitdir import git_above
from checkpointer.workspace.project.plainfile import read_plain

_TAIL = 1 << 20
_LINE = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) .*> (\d+) [+-]\d{4}\t")


class Move(NamedTuple):
    """The commit that HEAD was moved to, its branch for people, and whether that was surely in the time asked about."""

    commit: str
    branch: str
    certain: bool


def moved(root: bytes, start: datetime, end: datetime) -> Move | None:
    """The last move of HEAD between two times, if it still is the last; None where there was none or nothing says so.

    Git's clock has whole seconds: a move in the second of `start` may have been before it.
    """
    git = git_above(root)
    if git is None:
        return None
    try:
        log = read_plain(os.path.join(git.path, b"logs", b"HEAD"), limit=_TAIL, follow=True, end=True)
    except OSError:
        return None
    moves = []
    for line in (log or b"").split(b"\n"):
        match = _LINE.match(line)
        if match:
            moves.append((match[1], match[2], int(match[3])))
    first = int(start.timestamp())
    during = [m for m in moves if first <= m[2] <= end.timestamp() + 1 and m[0] != m[1]]
    if not during or moves[-1][1] != during[-1][1]:
        return None
    branch = git.head()
    name = "a detached HEAD" if branch in (None, "detached") else str(branch)
    return Move(during[-1][1].decode(), name, datetime.fromtimestamp(during[-1][2], UTC).timestamp() > first)
