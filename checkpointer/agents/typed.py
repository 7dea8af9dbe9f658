"""What a person typed as a prompt, where the whole of it is a call of ckpt: `ckpt undo t3`, `/ckpt-log`. Pure.

Only a prompt that parses to its last word is taken; any other is the model's, even if it begins alike.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

VERBS: Final[Mapping[str, str]] = {
    "undo": "take back what the newest turn changed, or the turns named",
    "redo": "take back the newest undo",
    "log": "turns, saves and restores, newest first",
    "diff": "what changed since before the newest turn",
    "status": "is this directory protected, and what would undo do",
}
"""The verbs that may be typed, and what each does."""

_TURN = re.compile(r"t[1-9]\d*(\.[1-9]\d*)?")
_TURNS = re.compile(r"t[1-9]\d*(\.[1-9]\d*|\.\.(t[1-9]\d*)?)?")
_POINT = re.compile(r"[1-9]\d*|t[1-9]\d*(\.[1-9]\d*)?-?|@\d{1,2}:\d\d|@\d+[smhd]|now")
_FLAGS: Final[Mapping[str, frozenset[str]]] = {
    "undo": frozenset(("-n", "--dry-run", "--skip", "--force", "--step")),
    "redo": frozenset(("-n", "--dry-run", "--skip", "--force")),
    "log": frozenset(("-p",)),
    "diff": frozenset(("--stat", "--name-only")),
    "status": frozenset(),
}
_MOST: Final[Mapping[str, tuple[re.Pattern[str], int]]] = {
    "undo": (_TURNS, 1),
    "redo": (_TURN, 1),
    "log": (re.compile("(?!)"), 0),
    "diff": (_POINT, 2),
    "status": (re.compile("(?!)"), 0),
}
_LONGEST = 1000


def call_of(prompt: str) -> list[str] | None:
    """The words to call ckpt with, the verb first; None where the prompt is meant for the model."""
    text = prompt.strip()
    if not text or len(text) > _LONGEST or "\n" in text:
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if words[:1] == ["ckpt"]:
        words = words[1:]
    elif words and words[0].startswith("/ckpt-"):
        words[0] = words[0].removeprefix("/ckpt-")
    else:
        return None
    return words if words and words[0] in VERBS and _fits(words[0], words[1:]) else None


def _fits(verb: str, words: list[str]) -> bool:
    if "--" in words:
        cut = words.index("--")
        if verb == "status" or cut == len(words) - 1:
            return False
        words = words[:cut]
    pattern, most = _MOST[verb]
    named = 0
    rest = iter(words)
    for word in rest:
        if verb == "log" and word == "-n":
            if not next(rest, "").isdecimal():
                return False
        elif word not in _FLAGS[verb]:
            named += 1
            if not pattern.fullmatch(word):
                return False
    return named <= most
