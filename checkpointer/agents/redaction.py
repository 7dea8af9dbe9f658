"""What is kept of arguments, results and words: bounded, and without what looks like a secret; pure.

Only what has the form of a credential is taken out, by stated patterns, so that commit ids, digests and ordinary text
stay readable. It is a net with holes: what has no known form is kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

LONGEST: Final = 4_000
"""Characters that are kept of one text."""
MOST: Final = 60
"""Items that are kept of one list or object."""
DEEPEST: Final = 6

_GONE: Final = "(redacted)"
_TOKENS: Final = re.compile(
    r"\b(?:"
    r"(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|gh[pousr]_[0-9A-Za-z]{30,255}|github_pat_[0-9A-Za-z_]{40,255}|glpat-[0-9A-Za-z_-]{20,64}"
    r"|sk-(?:ant-|proj-|or-)?[0-9A-Za-z_-]{20,250}"
    r"|xox[abprs]-[0-9A-Za-z-]{10,250}"
    r"|AIza[0-9A-Za-z_-]{35}"
    r"|eyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}"
    r"|npm_[0-9A-Za-z]{36}|pypi-[0-9A-Za-z_-]{50,250}|hf_[0-9A-Za-z]{30,}"
    r")\b"
)
_KEYS: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_NAMED: Final = re.compile(
    r"(?i)\b((?:[a-z0-9_]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key))"
    r"[\"']?\s*(?:=|:)\s*[\"']?)([^\s\"',;&]{6,})"
)
_BEARER: Final = re.compile(r"(?i)\b(authorization:\s*(?:bearer|basic|token)\s+)([^\s\"']{8,})")
_URL: Final = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]+:)([^\s/@]{3,})(@)")


def redacted(text: str) -> str:
    """A text without what looks like a credential."""
    text = _KEYS.sub(_GONE, text)
    text = _TOKENS.sub(_GONE, text)
    text = _BEARER.sub(rf"\1{_GONE}", text)
    text = _URL.sub(rf"\1{_GONE}\3", text)
    return _NAMED.sub(_named, text)


def _named(match: re.Match[str]) -> str:
    value = match[2]
    # A variable, a call or a word of a program is no secret.
    plain = value.startswith(("$", "{", "<", "os.", "process.")) or "(" in value or value.isalpha()
    return match[0] if plain else f"{match[1]}{_GONE}"


def bounded(text: str, longest: int = LONGEST) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= longest:
        return text
    head, tail = longest * 3 // 4, longest // 4
    return f"{text[:head]}\n... ({len(text) - head - tail} characters left out)\n{text[len(text) - tail :]}"


def kept(value: Any, longest: int = LONGEST, depth: int = 0) -> Any:
    """A JSON value as it may stand in a log: every text bounded and redacted, lists and objects cut, no NaN."""
    if isinstance(value, str):
        return bounded(redacted(value), longest)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if depth >= DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        items = list(value.items())[:MOST]
        out: dict[str, Any] = {str(name): _field(str(name), one, longest, depth) for name, one in items}
        if len(value) > MOST:
            out["..."] = f"{len(value) - MOST} more"
        return out
    if isinstance(value, list | tuple):
        listed = [kept(one, longest // 2, depth + 1) for one in value[:MOST]]
        return listed if len(value) <= MOST else [*listed, f"... {len(value) - MOST} more"]
    return repr(value)[:longest]


_SECRET_FIELD: Final = re.compile(r"(?i)(?:^|_|-)(?:password|passwd|secret|token|api_?key|authorization)$")


def _field(name: str, value: Any, longest: int, depth: int) -> Any:
    if isinstance(value, str) and len(value) >= 6 and _SECRET_FIELD.search(name):
        return _GONE
    return kept(value, longest // 2 if depth else longest, depth + 1)
