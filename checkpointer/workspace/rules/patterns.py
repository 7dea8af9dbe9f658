"""The lines of an ignore file, and the question which of many such lines is the last to match a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from checkpointer.workspace.rules import wildmatch
from checkpointer.workspace.rules.wildmatch import Alternative, Component


class Line(NamedTuple):
    """One pattern. Either `floating` (it matches a name in any directory) or `ways` (whole paths from the file on)."""

    number: int
    text: bytes
    negative: bool
    only_directories: bool
    floating: Component | None
    ways: tuple[Alternative, ...]


class Patterns:
    """One ignore file's patterns, read when first asked for."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._floating: dict[bool, Finder] = {}
        self._anchored: dict[tuple[tuple[int, ...], bool], Finder] = {}

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        found = [_line(number, text) for text, number in _texts(self._content).items()]
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

    def here(self, ending: tuple[int, ...], *, is_dir: bool) -> Here:
        """What counts in a directory whose names can complete these alternatives: for directories, or all else."""
        floating = self._floating.get(is_dir)
        if floating is None:
            lines = [(i, line) for i, line in enumerate(self.lines) if is_dir or not line.only_directories]
            parts = [(i, line.floating) for i, line in lines if line.floating is not None]
            floating = self._floating[is_dir] = Finder(parts)
        ending = tuple(n for n in ending if is_dir or not self.lines[self.anchored[n][0]].only_directories)
        if not ending:
            return Here(self.lines, floating, None)
        anchored = self._anchored.get((ending, is_dir))
        if anchored is None:
            if len(self._anchored) >= _KEPT:
                self._anchored.clear()
            ways = [self.anchored[n] for n in ending]
            anchored = self._anchored[ending, is_dir] = Finder([(i, way[-1]) for i, way in ways])
        return Here(self.lines, floating, anchored)


_KEPT = 256


BRING_ALL_BACK = Patterns(b"!*")
"""Stands for rules that could not be read: nothing weaker than they are ignores anything there."""


def _texts(content: bytes) -> dict[bytes, int]:
    """Each pattern once, in the order of their last lines: an earlier line like a later one never decides."""
    found: dict[bytes, int] = {}
    for number, text in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if text and not text.startswith(b"#"):
            text = _trimmed(text.removesuffix(b"\r").partition(b"\0")[0])
            found.pop(text, None)
            found[text] = number
    return found


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
    if len(ways) == 1 and len(ways[0]) == 2 and ways[0][0] is wildmatch.ANY_DEPTH:
        return Line(number, text, negative, only_directories, ways[0][1], ())
    return Line(number, text, negative, only_directories, None, ways) if ways else None


class Finder:
    """Components by the numbers of their lines: which is the last that matches a name?"""

    _CHUNK = 200

    def __init__(self, parts: Sequence[tuple[int, Component]]) -> None:
        self.empty = not parts
        self.lowest = -1  # the strongest part that matches every name; weaker ones never count
        self.names: dict[bytes, int] = {}
        self.extensions: dict[bytes, int] = {}
        self.endings: dict[bytes, int] = {}
        rest: list[tuple[int, Component]] = []
        for i, component in parts:
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
        """The number of the last part that matches, -1 for none."""
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


class Here(NamedTuple):
    """One ignore file as it counts in one directory."""

    lines: tuple[Line, ...]
    floating: Finder
    anchored: Finder | None

    def find(self, name: bytes) -> Line | None:
        """The deciding line, negative or not; None where none matches."""
        i = self.floating.find(name)
        if self.anchored is not None:
            i = max(i, self.anchored.find(name))
        return self.lines[i] if i >= 0 else None
