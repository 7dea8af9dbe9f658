"""Secrets taken out of words before they are written: token shapes that can be nothing else, and values under names
that say what they are. Pure.

What is taken out leaves a mark (`[redacted: github token]`). Nothing is judged by how random it looks, so that hashes,
ids and keys of actions stay. A secret that has no such shape and no such name is not found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

MARK: Final = "[redacted: "
"""What every mark begins with."""


class Rule(NamedTuple):
    """A shape. Texts that hold none of `needles` (lower case, looked for in lower case) are not searched. If `pattern`
    has a group, only that is the secret. It is compiled when a text holds a needle: most never do.
    """

    name: str
    needles: tuple[str, ...]
    pattern: str
    flags: int


def _rule(name: str, needles: str, pattern: str, flags: int = 0) -> Rule:
    return Rule(name, tuple(needles.split()), pattern, flags)


_WORD = r"(?<![A-Za-z0-9_-])"
SHAPES: Final = (
    _rule(
        "private key",
        "-----begin",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        re.S,
    ),
    _rule(
        "github token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        _WORD + r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,})",
    ),
    _rule("gitlab token", "glpat-", _WORD + r"glpat-[A-Za-z0-9_-]{20,}"),
    _rule("slack token", "xox", _WORD + r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    _rule("model provider key", "sk-", _WORD + r"sk-(?=[A-Za-z_-]*[0-9])(?:[a-z]+-)*[A-Za-z0-9_-]{24,}"),
    _rule(
        "payment key",
        "sk_live_ rk_live_ sk_test_ rk_test_ whsec_",
        _WORD + r"(?:[sr]k_(?:live|test)_|whsec_)[A-Za-z0-9]{16,}",
    ),
    _rule("cloud key", "akia asia", _WORD + r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _rule("model hub token", "hf_", _WORD + r"hf_[A-Za-z0-9]{30,}"),
    _rule("google key", "aiza", _WORD + r"AIza[A-Za-z0-9_-]{35}"),
    _rule("package token", "npm_ pypi-", _WORD + r"(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,})"),
    _rule("signed token", "eyj", _WORD + r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    _rule("bearer token", "bearer", r"\b[Bb]earer[ \t]+([A-Za-z0-9._~+/-]{16,}=*)"),
    _rule(
        "value of a header",
        "authorization",
        r"\b[Aa]uthorization:[ \t]*(?:[Bb]asic|[Tt]oken)[ \t]+([A-Za-z0-9._~+/=-]{8,})",
    ),
    _rule("password in an address", "://", r"\b[a-z][a-z0-9+.-]*://[^\s/:@'\"]*:([^\s/@'\"$<{]{3,})@", re.I),
    _rule(
        "value of a secret's name",
        "key secret token passw credential",
        r"\b[A-Za-z0-9_-]*(?:api_?key|access_?key|secret|token|passwo?r?d|credential)[A-Za-z0-9_-]*"
        r"[\"']?[ \t]*[=:][ \t]*[\"']?((?=[^\s\"']*[0-9])(?=[^\s\"']*[A-Za-z])[A-Za-z0-9+/_=~-]{10,})(?=[\s\"',;]|$)",
        re.I,
    ),
)  # fmt: skip
_BY_WORDS = frozenset(("bearer token", "value of a header", "password in an address", "value of a secret's name"))
NAMES: Final = frozenset(
    (
        "accesskey", "accesstoken", "apikey", "apitoken", "authorization", "authtoken", "clientsecret", "cookie",
        "credential", "credentials", "idtoken", "passphrase", "passwd", "password", "privatekey", "refreshtoken",
        "secret", "secretaccesskey", "secretkey", "sessiontoken", "setcookie", "token", "xapikey",
    )
)  # fmt: skip
"""Names of members whose text is a secret, in lower case and without `-` and `_`."""
_NAME_NEEDLES = ("key", "token", "auth", "secret", "cookie", "credential", "passphrase", "passw")


class Rules(NamedTuple):
    """What is taken out. `extra` are patterns of the user's; without `on`, nothing is."""

    on: bool = True
    extra: tuple[re.Pattern[str], ...] = ()

    def clean(self, value: Any, written: bytes) -> Any:
        """A JSON value without its secrets, or the value itself where it holds none. `written` is the value as JSON."""
        if not self.on:
            return value
        lowered = written.lower()
        shapes = [s for s in SHAPES if any(n.encode() in lowered for n in s.needles)]
        named = any(n.encode() in lowered for n in _NAME_NEEDLES)
        if not shapes and not named and not self.extra:
            return value
        return _cleaned(value, shapes, self.extra, named)

    def found(self, text: str, *, surely: bool) -> str:
        """What kind of secret a text holds, empty where none is found. `surely`: only by shapes that need no word
        beside them to be known.
        """
        lowered = text.lower()
        for rule in SHAPES:
            if surely and rule.name in _BY_WORDS:
                continue
            if any(n in lowered for n in rule.needles) and re.search(rule.pattern, text, rule.flags):
                return rule.name
        return "configured" if any(pattern.search(text) for pattern in self.extra) else ""

    def text(self, text: str) -> str:
        """A text without its secrets."""
        cleaned = self.clean(text, text.encode("utf-8", "surrogatepass"))
        return str(cleaned)


def rules(on: bool = True, extra: str = "") -> Rules:
    """Rules with one more pattern. Raises ValueError where that is no regular expression, or matches nothing at all."""
    try:
        pattern = re.compile(extra) if extra else None
    except re.error as e:
        raise ValueError(f"a regular expression: {e}") from e
    if pattern is not None and pattern.search("") is not None:
        raise ValueError("a regular expression that does not match an empty text")
    return Rules(on, (pattern,) if pattern is not None else ())


def marked(value: Any) -> bool:
    """Was anything taken out of a value?"""
    if isinstance(value, str):
        return MARK in value
    if isinstance(value, Mapping):
        return any(marked(v) for v in value.values()) or any(marked(k) for k in value)
    if isinstance(value, list | tuple):
        return any(map(marked, value))
    return False


def _cleaned(value: Any, shapes: list[Rule], extra: tuple[re.Pattern[str], ...], named: bool) -> Any:
    if isinstance(value, str):
        return _text(value, shapes, extra)
    if isinstance(value, Mapping):
        out = {}
        for key, one in value.items():
            if named and isinstance(one, str) and one and _normal(key) in NAMES and not _refers(one):
                out[key] = one if MARK in one else f"{MARK}{key}]"
            else:
                out[key] = _cleaned(one, shapes, extra, named)
        return out
    if isinstance(value, list | tuple):
        return [_cleaned(one, shapes, extra, named) for one in value]
    return value


def _normal(key: Any) -> str:
    return str(key).lower().replace("-", "").replace("_", "").replace(" ", "")


def _refers(text: str) -> bool:
    """Does this only name where a secret is kept?"""
    return text.startswith(("$", "{", "<", "env:", "secret:"))


def _text(text: str, shapes: list[Rule], extra: tuple[re.Pattern[str], ...]) -> str:
    for rule in shapes:
        text = re.compile(rule.pattern, rule.flags).sub(_replaced(rule.name), text)
    for pattern in extra:
        text = pattern.sub(_replaced("configured"), text)
    return text


def _replaced(name: str) -> Callable[[re.Match[str]], str]:
    def replace(found: re.Match[str]) -> str:
        whole = found[0]
        if not found.re.groups or found[1] is None:
            return f"{MARK}{name}]"
        if found[1].startswith(MARK.strip()) or MARK in found[1]:
            return whole
        start, end = found.start(1) - found.start(), found.end(1) - found.start()
        return f"{whole[:start]}{MARK}{name}]{whole[end:]}"

    return replace


_in_force = Rules()


def in_force() -> Rules:
    return _in_force


def use(new: Rules) -> None:
    """Put other rules in force, for all that this process writes from now on."""
    global _in_force
    _in_force = new
