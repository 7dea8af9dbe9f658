"""What is kept of arguments, results and words that hooks are told: bounded, and without the secrets that the rules in
force take out (see `checkpointer.redaction`); pure but for those.

Secrets go before anything is cut, so that half a token is nowhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from checkpointer import redaction

LONGEST: Final = 4_000
"""Characters that are kept of one text."""
MOST: Final = 60
"""Items that are kept of one list or object."""
DEEPEST: Final = 6


def words(text: str, longest: int = LONGEST) -> str:
    """A text without its secrets; the beginning and the end of one that is too long."""
    return _bounded(redaction.in_force().text(text), longest)


def kept(value: Any) -> Any:
    """A JSON value as it may stand in a log: no secrets, every text bounded, lists and objects cut, no NaN."""
    shaped = _shaped(value, 0)
    written = json.dumps(shaped, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return _cut(redaction.in_force().clean(shaped, written), LONGEST, 0)


def _bounded(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head, tail = longest * 3 // 4, longest // 4
    return f"{text[:head]}\n... ({len(text) - head - tail} characters left out)\n{text[len(text) - tail :]}"


def _shaped(value: Any, depth: int) -> Any:
    """Lists and objects cut, texts as they are."""
    if isinstance(value, str) or value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if depth >= DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        out = {str(name): _shaped(one, depth + 1) for name, one in list(value.items())[:MOST]}
        if len(value) > MOST:
            out["..."] = f"{len(value) - MOST} more"
        return out
    if isinstance(value, list | tuple):
        listed = [_shaped(one, depth + 1) for one in value[:MOST]]
        return listed if len(value) <= MOST else [*listed, f"... {len(value) - MOST} more"]
    return repr(value)[:LONGEST]


def _cut(value: Any, longest: int, depth: int) -> Any:
    """Texts bounded: those of a part get half of the room that the whole has."""
    if isinstance(value, str):
        return _bounded(value, longest)
    if isinstance(value, Mapping):
        return {name: _cut(one, longest // 2 if depth else longest, depth + 1) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(one, longest // 2, depth + 1) for one in value]
    return value
