"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "broken"]


@dataclass(frozen=True)
class Finding:
    """`what` is a word for programs, `mend` the commands to type, or what else there is to do."""

    subject: str
    level: Level
    what: str
    message: str
    mend: tuple[str, ...] = ()


def ok(subject: str, what: str, message: str) -> Finding:
    return Finding(subject, "ok", what, message)


def note(subject: str, what: str, message: str, *mend: str) -> Finding:
    return Finding(subject, "note", what, message, mend)


def broken(subject: str, what: str, message: str, *mend: str) -> Finding:
    return Finding(subject, "broken", what, message, mend)
