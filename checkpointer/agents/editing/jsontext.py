"""JSON as text: every value with the place where it stands, so that a change can leave all other bytes alone.

Comments (`//`, `/* */`) and trailing commas are read where the caller allows them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import Any

from checkpointer.agents.editing.trouble import Unfit

DEEPEST = 200
_SPACE = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"true|false|null")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_WORDS = {"true": True, "false": False, "null": None}


@dataclass
class Item:
    """One member of an object or element of an array: from `start` (of its key, if it has one) to `node.end`."""

    key: str | None
    start: int
    node: Node


@dataclass
class Node:
    """A value of the text, which is `text[start:end]`. `items` are an object's members or an array's elements."""

    kind: str  # "object", "array" or "scalar"
    start: int
    end: int
    value: Any
    items: list[Item] = field(default_factory=list)
    trailing: int | None = None  # where a comma behind the last item ends

    def member(self, key: str) -> Node | None:
        """The value at a key. Raises Unfit where the key stands there twice."""
        found = [i.node for i in self.items if i.key == key]
        if len(found) > 1:
            raise Unfit(f"holds {key!r} twice in one object")
        return found[0] if found else None

    def at(self, keys: tuple[str, ...]) -> Node | None:
        """The value below several keys; None where there is none, or something else than an object on the way."""
        node: Node | None = self
        for key in keys:
            if node is None or node.kind != "object":
                return None
            node = node.member(key)
        return node


def parse(text: str, *, comments: bool) -> Node:
    """The document's value. Raises Unfit with the line where it is no JSON."""
    reader = _Reader(text, comments)
    at = reader.skip(1 if text.startswith("\ufeff") else 0)
    node, at = reader.value(at, 0)
    if reader.skip(at) != len(text):
        raise reader.unfit(at, "something stands behind its end")
    return node


class _Reader:
    def __init__(self, text: str, comments: bool) -> None:
        self.text = text
        self.comments = comments

    def unfit(self, at: int, what: str) -> Unfit:
        return Unfit(f"is not valid JSON: line {self.text.count(chr(10), 0, at) + 1}: {what}")

    def skip(self, at: int) -> int:
        """Past white space and comments."""
        while True:
            match = _SPACE.match(self.text, at)
            assert match is not None
            at = match.end()
            comment = _COMMENT.match(self.text, at)
            if comment is None:
                return at
            if not self.comments:
                raise self.unfit(at, "a comment, which this agent does not read")
            at = comment.end()

    def value(self, at: int, depth: int) -> tuple[Node, int]:
        if depth > DEEPEST:
            raise Unfit("is nested too deeply")
        first = self.text[at : at + 1]
        if first in ("{", "["):
            return self.container(at, depth, "object" if first == "{" else "array")
        if first == '"':
            value, end = self.string(at)
            return Node("scalar", at, end, value), end
        word = _WORD.match(self.text, at)
        if word is not None:
            return Node("scalar", at, word.end(), _WORDS[word[0]]), word.end()
        number = _NUMBER.match(self.text, at)
        if number is None:
            raise self.unfit(at, "a value is missing" if first in ("", "}", "]", ",") else f"unexpected {first!r}")
        integral = not any(c in number[0] for c in ".eE") and len(number[0]) < 4000
        return Node("scalar", at, number.end(), int(number[0]) if integral else number[0]), number.end()

    def string(self, at: int) -> tuple[str, int]:
        try:
            value, end = scanstring(self.text, at + 1, True)
        except JSONDecodeError as e:
            raise self.unfit(e.pos, e.msg) from None
        return value, end

    def container(self, at: int, depth: int, kind: str) -> tuple[Node, int]:
        node = Node(kind, at, at, None)
        closing = "}" if kind == "object" else "]"
        at = self.skip(at + 1)
        while self.text[at : at + 1] != closing:
            start, key = at, None
            if kind == "object":
                key, at = self.key(at)
            value, at = self.value(at, depth + 1)
            node.items.append(Item(key, start, value))
            node.trailing = None
            at = self.skip(at)
            if self.text[at : at + 1] == ",":
                node.trailing = at + 1
                at = self.skip(at + 1)
            elif self.text[at : at + 1] != closing:
                raise self.unfit(at, f"a comma or {closing!r} is missing")
        if node.trailing is not None and not self.comments:
            raise self.unfit(node.trailing - 1, "a comma behind the last value, which this agent does not read")
        node.end = at + 1
        values = [i.node.value for i in node.items]
        node.value = dict(zip([i.key for i in node.items], values, strict=True)) if kind == "object" else values
        return node, node.end

    def key(self, at: int) -> tuple[str, int]:
        if self.text[at : at + 1] != '"':
            raise self.unfit(at, "a key in double quotes is missing")
        key, at = self.string(at)
        at = self.skip(at)
        if self.text[at : at + 1] != ":":
            raise self.unfit(at, "a colon is missing")
        return key, self.skip(at + 1)
