"""Git's wildcards: `*`, `?`, brackets, backslashes and `**`, read once into the parts of a path they stand for.

A pattern becomes one or more *alternatives*, each a tuple of components: what stands between two slashes, or
`ANY_DEPTH` (a `**` that stands for any number of directories, also none). Everything is bytes, and case counts unless
said otherwise. The quirks are git's own: a bracket that never closes makes a pattern that matches nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

SPECIAL = frozenset(b"*?[\\")
_SLASH = ord("/")


class _Star:
    """A token that stands for any number of bytes."""


STAR = _Star()
_DEEP = _Star()  # `**` between slashes or ends
_DEEP_ONCE = _Star()  # `**\/`, which git takes for at least one directory

Token = int | frozenset[int] | _Star
"""One literal byte, one byte out of a set, or `STAR`: any bytes of one component."""


def _span(*ranges: str) -> frozenset[int]:
    return frozenset(c for r in ranges for c in range(ord(r[0]), ord(r[-1]) + 1))


_LOWER, _UPPER, _DIGIT = _span("az"), _span("AZ"), _span("09")
_GRAPH = _span("!~")
_CLASSES = {
    b"alnum": _LOWER | _UPPER | _DIGIT,
    b"alpha": _LOWER | _UPPER,
    b"blank": frozenset(b" \t"),
    b"cntrl": frozenset(range(32)) | {127},
    b"digit": _DIGIT,
    b"graph": _GRAPH,
    b"lower": _LOWER,
    b"print": _GRAPH | {32},
    b"punct": _GRAPH - _LOWER - _UPPER - _DIGIT,
    b"space": frozenset(b" \t\n\r"),  # git's own idea of white space
    b"upper": _UPPER,
    b"xdigit": _DIGIT | _span("af", "AF"),
}
_ANY = frozenset(range(256)) - {_SLASH}


def _bracket(pattern: bytes, at: int) -> tuple[frozenset[int], int] | None:
    """The bytes a bracket stands for and the index behind it; None where git gives the whole pattern up."""
    end = len(pattern)

    def byte(i: int) -> int:
        return pattern[i] if i < end else 0

    i = at + 1
    negated = byte(i) in b"!^" and byte(i) != 0
    if negated:
        i += 1
    found: set[int] = set()
    before = 0
    while True:
        c = byte(i)
        if not c:
            return None
        if c == ord("\\"):
            i += 1
            c = byte(i)
            if not c:
                return None
            found.add(c)
        elif c == ord("-") and before and byte(i + 1) not in (0, ord("]")):
            i += 1
            c = byte(i)
            if c == ord("\\"):
                i += 1
                c = byte(i)
                if not c:
                    return None
            found.update(range(before, c + 1))
            c = 0
        elif c == ord("[") and byte(i + 1) == ord(":"):
            close = pattern.find(b"]", i + 2)
            if close < 0:
                return None
            if close == i + 2 or pattern[close - 1] != ord(":"):
                found.add(c)  # no `:]`, so an ordinary set
            else:
                members = _CLASSES.get(pattern[i + 2 : close - 1])
                if members is None:
                    return None
                found |= members
                i, c = close, 0
        else:
            found.add(c)
        before = c
        i += 1
        if byte(i) == ord("]"):
            break
    return (_ANY - found if negated else frozenset(found & _ANY)), i + 1


def tokens(pattern: bytes, *, deep: bool, start: int = 0) -> list[Token] | None:
    """The tokens of a pattern, or None where it can match nothing.

    With `deep`, a run of stars between slashes or the ends stands for any depth. `start` is one more place that counts
    as a beginning: git compares the part before the first wildcard on its own, so there `**` stands at a beginning.
    """
    out: list[Token] = []
    i, end = 0, len(pattern)
    while i < end:
        c = pattern[i]
        if c == ord("*"):
            first = i
            while i < end and pattern[i] == ord("*"):
                i += 1
            begins = first in (0, start) or pattern[first - 1] == _SLASH
            if deep and i - first > 1 and begins and (i == end or pattern[i] == _SLASH):
                out.append(_DEEP)
            elif deep and i - first > 1 and begins and pattern[i : i + 2] == b"\\/":
                out.append(_DEEP_ONCE)
            else:
                out.append(STAR)
            continue
        if c == ord("?"):
            out.append(_ANY)
        elif c == ord("["):
            bracket = _bracket(pattern, i)
            if bracket is None or not bracket[0]:
                return None
            members, i = bracket
            out.append(next(iter(members)) if len(members) == 1 else members)
            continue
        elif c == ord("\\"):
            i += 1
            if i == end:
                return None
            out.append(pattern[i])
        else:
            out.append(c)
        i += 1
    return out


_EXPANSIONS = 16
_LONGEST_NAME = 1024


class Component:
    """What stands between two slashes of a pattern. `ANY_DEPTH` is the one that stands for whole directories."""

    __slots__ = ("_regex", "_tokens")

    def __init__(self, parts: tuple[Token, ...]) -> None:
        self._tokens = parts
        self._regex: re.Pattern[bytes] | None = None

    def possible(self) -> bool:
        """Can any file system hold a name that it matches?"""
        return len(self._tokens) - self._tokens.count(STAR) <= _LONGEST_NAME

    def literals(self) -> list[bytes]:
        """Every name it matches where these are few, else nothing."""
        return [] if STAR in self._tokens else _expand(self._tokens)

    def suffixes(self) -> list[bytes]:
        """Ends of names: it matches exactly the names that end so. Nothing where it cannot be said in a few."""
        if self._tokens[:1] != (STAR,) or STAR in self._tokens[1:]:
            return []
        return _expand(self._tokens[1:])

    def source(self) -> bytes:
        """A regular expression, to be matched in full. No star but the last gives anything back: never exponential."""
        pieces: list[bytearray] = [bytearray()]
        for token in self._tokens:
            if isinstance(token, _Star):
                pieces.append(bytearray())
            else:
                pieces[-1] += _one(token)
        if len(pieces) == 1:
            return bytes(pieces[0])
        middle = b"".join(b"(?>.*?" + p + b")" for p in pieces[1:-1] if p)
        return bytes(pieces[0]) + middle + b".*" + bytes(pieces[-1])

    def matches(self, name: bytes) -> bool:
        if self._regex is None:
            self._regex = re.compile(self.source(), re.DOTALL)
        return self._regex.fullmatch(name) is not None


ANY_DEPTH = Component((STAR,))


def _one(token: int | frozenset[int]) -> bytes:
    if isinstance(token, int):
        return re.escape(bytes((token,)))
    if token == _ANY:
        return b"."
    inside = len(token) < 128
    members = sorted(token if inside else _ANY - token)
    runs: list[tuple[int, int]] = []
    for c in members:
        if runs and runs[-1][1] == c - 1:
            runs[-1] = (runs[-1][0], c)
        else:
            runs.append((c, c))
    return (b"[" if inside else b"[^") + b"".join(b"\\x%02x-\\x%02x" % r for r in runs) + b"]"


def _expand(parts: tuple[Token, ...]) -> list[bytes]:
    choices: list[list[int]] = []
    count = 1
    for token in parts:
        if isinstance(token, int):
            choices.append([token])
        else:
            assert isinstance(token, frozenset)
            count *= len(token)
            if count > _EXPANSIONS:
                return []
            choices.append(sorted(token))
    return [bytes(c) for c in itertools.product(*choices)]


Alternative = tuple[Component, ...]


def component(pattern: bytes) -> Component | None:
    """A pattern for one name, where `**` is no more than `*`; None where it can match nothing."""
    parts = tokens(pattern, deep=False)
    found = None if parts is None else Component(tuple(parts))
    return found if found is not None and found.possible() else None


def alternatives(pattern: bytes, *, start: int = 0) -> list[Alternative]:
    """The ways a pattern for whole paths can be met; none where it can match nothing. `start`: see `tokens`."""
    parts = tokens(pattern, deep=True, start=start)
    if parts is None:
        return []
    split: list[list[Token]] = [[]]
    for token in parts:
        if token == _SLASH:
            split.append([])
        else:
            split[-1].append(token)
    return [tuple(way) for way in _ways(split) if all(c.possible() for c in way)]


def _ways(split: list[list[Token]]) -> Iterator[list[Component]]:
    """`a**/b`, with the `**` at `start`, is `ab`, or `a*`, any depth, `b`; everything else is met in one way."""
    done: list[Component] = []
    for i, parts in enumerate(split):
        if parts == [_DEEP]:
            done.append(ANY_DEPTH)
        elif parts == [_DEEP_ONCE]:
            done += [Component((STAR,)), ANY_DEPTH]
        elif parts and parts[-1] in (_DEEP, _DEEP_ONCE):
            head = parts[:-1]
            rest = split[i + 1 :]
            if parts[-1] is _DEEP:
                joined = [head + rest[0], *rest[1:]] if rest else [[*head, STAR]]
                for way in _ways(joined):
                    yield done + way
            for way in _ways(rest) if rest else [[]]:
                yield [*done, Component((*head, STAR)), ANY_DEPTH, *way]
            return
        else:
            done.append(Component(tuple(parts)))
    yield done


def begin(way: Alternative) -> int:
    """The places in an alternative before any component of a path was read, as a set of bits."""
    return _close(way, 1)


def advance(way: Alternative, places: int, name: bytes) -> int:
    """The places after the next component `name`; 0 when the alternative can no longer be met."""
    after = 0
    i = 0
    while places:
        if places & 1 and i < len(way):
            if way[i] is ANY_DEPTH:
                after |= 1 << i
            elif way[i].matches(name):
                after |= 1 << (i + 1)
        places >>= 1
        i += 1
    return _close(way, after)


def only_names(way: Alternative, places: int) -> list[bytes] | None:
    """The names of directories that alone can lead on, where these are few; None where others may."""
    i = places.bit_length() - 1
    if places != 1 << i or way[i] is ANY_DEPTH:
        return None
    return [] if i == len(way) - 1 else way[i].literals() or None


def _close(way: Alternative, places: int) -> int:
    for i, part in enumerate(way):
        if part is ANY_DEPTH and places >> i & 1 and i + 1 < len(way):
            places |= 1 << (i + 1)
    return places


def last(way: Alternative, places: int) -> Component | None:
    """What the next name must match to end the alternative; None where more components must come first."""
    return way[-1] if places >> (len(way) - 1) & 1 else None


def matches(pattern: bytes, path: bytes, *, ignore_case: bool = False) -> bool:
    """Does the pattern match the whole of a path? `ignore_case` knows ASCII letters only, as git does."""
    if ignore_case:
        pattern, path = pattern.lower(), path.lower()
    *above, name = path.split(b"/")
    for way in alternatives(pattern):
        places = begin(way)
        for part in above:
            places = advance(way, places, part)
        end = last(way, places) if places else None
        if end is not None and end.matches(name):
            return True
    return False
