"""The lines of an ignore file, and the question which of many such lines is the last to match a name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from checkpointer.workspace import wildmatch
from checkpointer.workspace.wildmatch import Alternative, Component


class Line(NamedTuple):
    """One pattern. Either `floating` (it matches a name in any directory) or `ways` (whole paths from the file on)."""

    number: int
    text: bytes
    negative: bool
    only_directories: bool
    floating: Component | None
    ways: tuple[Alternative, ...]


class Rule(NamedTuple):
    """A line as it applies in one directory: what a name there must match. `source` numbers the file it is from."""

    component: Component
    line: Line
    source: int


class Patterns:
    """One ignore file's patterns, read when first asked for."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        found = (_line(number, text) for number, text in _texts(self._content))
        return tuple(line for line in found if line is not None)

    @cached_property
    def anchored(self) -> tuple[tuple[int, Alternative], ...]:
        """Every alternative of a whole-path pattern, with the index of its line."""
        return tuple((i, way) for i, line in enumerate(self.lines) for way in line.ways)

    def without(self, dropped: Line) -> Patterns:
        """The same patterns but one."""
        other = Patterns(b"")
        other.__dict__["lines"] = tuple(line for line in self.lines if line is not dropped)
        return other


BRING_ALL_BACK = Patterns(b"!*")
"""Stands for rules that could not be read: nothing weaker than they are ignores anything there."""


def _texts(content: bytes) -> Iterator[tuple[int, bytes]]:
    for number, text in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not text or text.startswith(b"#"):
            continue
        text = text.removesuffix(b"\r").partition(b"\0")[0]
        yield number, _trimmed(text)


def _trimmed(text: bytes) -> bytes:
    """Without the spaces at its end, but for one behind a backslash."""
    if not text.endswith(b" "):
        return text
    end = 0
    i = 0
    while i < len(text):
        if text[i] == ord("\\"):
            if i + 1 == len(text):
                return text
            i += 1
            end = i + 1
        elif text[i] != ord(" "):
            end = i + 1
        i += 1
    return text[:end]


def _line(number: int, text: bytes) -> Line | None:
    negative = text.startswith(b"!")
    pattern = text[1:] if negative else text
    plain = next((i for i, c in enumerate(pattern) if c in wildmatch.SPECIAL), len(pattern))
    only_directories = pattern.endswith(b"/")
    if only_directories:
        pattern = pattern[:-1]
    if b"/" not in pattern:
        floating = wildmatch.component(pattern) if pattern else None
        return Line(number, text, negative, only_directories, floating, ()) if floating is not None else None
    plain = min(plain, len(pattern))
    if pattern.startswith(b"/"):
        pattern, plain = pattern[1:], plain - 1
    ways = tuple(wildmatch.alternatives(pattern, start=plain))
    return Line(number, text, negative, only_directories, None, ways) if ways else None


class _Half:
    """The rules that can apply to directories, or to everything else."""

    _CHUNK = 200

    def __init__(self, rules: Sequence[tuple[int, Component]]) -> None:
        self.lowest = -1  # the strongest rule that matches every name; weaker ones never count
        self.names: dict[bytes, int] = {}
        self.extensions: dict[bytes, int] = {}
        self.endings: dict[bytes, int] = {}
        rest: list[tuple[int, Component]] = []
        for i, component in rules:
            if literals := component.literals():
                self.names.update((name, i) for name in literals)
            elif suffixes := component.suffixes():
                for suffix in suffixes:
                    if not suffix:
                        self.lowest = i
                    elif suffix.rfind(b".") == 0:
                        self.extensions[suffix] = i
                    else:
                        self.endings[suffix] = i
            else:
                rest.append((i, component))
        self.rest = [(i, component) for i, component in reversed(rest) if i > self.lowest]
        self.ends = tuple(self.endings)
        self.lengths = sorted({len(ending) for ending in self.endings})
        sources = [b"(?:%s)" % component.source() for _, component in self.rest]
        chunks = [sources[at : at + self._CHUNK] for at in range(0, len(sources), self._CHUNK)]
        self.any_of_rest = [re.compile(b"|".join(chunk), re.DOTALL).fullmatch for chunk in chunks]

    def find(self, name: bytes) -> int:
        """The number of the last rule that matches, -1 for none."""
        best = self.lowest
        i = self.names.get(name, -1)
        if i > best:
            best = i
        if self.extensions and (dot := name.rfind(b".")) >= 0:
            i = self.extensions.get(name[dot:], -1)
            if i > best:
                best = i
        if self.ends and name.endswith(self.ends):
            for length in self.lengths:
                i = self.endings.get(name[-length:], -1)
                if i > best:
                    best = i
        for fullmatch in self.any_of_rest:
            if fullmatch(name):
                return self._last(name, best)
        return best

    def _last(self, name: bytes, best: int) -> int:
        for i, component in self.rest:
            if i <= best:
                break
            if component.matches(name):
                return i
        return best


class Matcher:
    """Rules of one directory, weakest first; the last that matches decides."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules

    @cached_property
    def _files(self) -> _Half:
        return _Half([(i, r.component) for i, r in enumerate(self.rules) if not r.line.only_directories])

    @cached_property
    def _directories(self) -> _Half:
        return _Half([(i, r.component) for i, r in enumerate(self.rules)])

    def find(self, name: bytes, is_dir: bool) -> Rule | None:
        """The deciding rule, negative or not; None where none matches."""
        i = (self._directories if is_dir else self._files).find(name)
        return self.rules[i] if i >= 0 else None

    def ignored(self, name: bytes, is_dir: bool) -> bool:
        i = (self._directories if is_dir else self._files).find(name)
        return i >= 0 and not self.rules[i].line.negative
