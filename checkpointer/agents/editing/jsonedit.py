"""Our entries put into JSON, and taken out again; every other byte stays."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from checkpointer.agents.editing import jsontext
from checkpointer.agents.editing.jsontext import Item, Node
from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.editing.values import Entry, Ours, Path, minus, plus

_SAME_LINE = re.compile(r"(?:[ \t]*(?:/\*(?:(?!\*/)[^\n])*\*/|//[^\n]*))+")


def value_of(text: str, *, comments: bool) -> Any:
    """What the text means; an empty text is an empty object. Raises Unfit."""
    return jsontext.parse(text, comments=comments).value if text.strip("\ufeff \t\r\n") else {}


def added(text: str, entries: Sequence[Entry], *, comments: bool) -> str:
    """The text with the entries, each at the end of its list. Raises Unfit."""
    wanted = plus(value_of(text, comments=comments), entries)
    if not text.strip("\ufeff \t\r\n"):
        text = "{}\n"
    for entry in entries:
        text = _add(text, entry, comments)
    if value_of(text, comments=comments) != wanted:
        raise Unfit("is written in a way that cannot be changed safely")
    return text


def removed(text: str, ours: Ours, before: str | None, *, comments: bool) -> str:
    """The text without what is ours. `before` is the text as it was before us, where that is known. Raises Unfit."""
    value = value_of(text, comments=comments)
    old = value_of(before, comments=comments) if before is not None else None
    wanted = minus(value, ours, old)
    while (path := _find(jsontext.parse(text, comments=comments), ours, ())) is not None:
        text, kept = _remove(text, path, before, comments)
        if kept:
            wanted = _with_empty(wanted, kept, _at(jsontext.parse(text, comments=comments), kept).value)
    if value_of(text, comments=comments) != wanted:
        raise Unfit("was changed in a way that does not let us take our part out safely")
    return text


def _add(text: str, entry: Entry, comments: bool) -> str:
    root = jsontext.parse(text, comments=comments)
    node, keys = root, list(entry.keys)
    while keys and (inner := node.member(keys[0])) is not None and inner.value is not None:
        node = inner
        keys.pop(0)
    value: Any = entry.value
    for depth, key in enumerate(reversed(keys)):
        value = {key: [value]} if depth == 0 else {key: value}
    if not keys:
        return _insert(text, root, node, None, value)
    key = keys[0]
    null = node.member(key)
    if null is not None:  # it says null: what would stand there replaces that
        return text[: null.start] + json.dumps(value[key], ensure_ascii=False) + text[null.end :]
    return _insert(text, root, node, key, value[key])


def _insert(text: str, root: Node, container: Node, key: str | None, value: Any) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text, root)
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    if container.items:
        first, last = container.items[0], container.items[-1]
        own_line = "\n" in text[container.start : first.start]
        indent = _indent(text, first.start) if own_line else ""
        lead = newline + indent if own_line else " "
        body = name + (_laid_out(value, unit, indent, newline) if own_line else json.dumps(value, ensure_ascii=False))
        end = last.node.end
        if container.trailing is not None:
            at = _behind_comment(text, container.trailing) if own_line else container.trailing
            return text[:at] + lead + body + "," + text[at:]
        at = _behind_comment(text, end) if own_line else end
        return text[:end] + "," + text[end:at] + lead + body + text[at:]
    inside = text[container.start + 1 : container.end - 1]
    at = container.start + 1 + len(inside.rstrip())  # behind a comment, if there is one
    if root.items and "\n" not in text.strip():
        return text[:at] + name + json.dumps(value, ensure_ascii=False) + text[at:]
    outer = _indent(text, container.start)
    body = newline + outer + unit + name + _laid_out(value, unit, outer + unit, newline)
    if "\n" not in text[at : container.end]:
        body += newline + outer
    return text[:at] + body + text[at:]


def _laid_out(value: Any, unit: str, indent: str, newline: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + indent)


def _unit(text: str, root: Node) -> str:
    """What one level is indented by."""
    for item in root.items:
        if "\n" in text[root.start : item.start]:
            return _indent(text, item.start) or "  "
    return "  "


def _indent(text: str, at: int) -> str:
    """The white space with which the line of `at` begins."""
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _behind_comment(text: str, at: int) -> int:
    """Behind the comments that follow on the same line."""
    match = _SAME_LINE.match(text, at)
    if match is None:
        return at
    return match.end() - 1 if match[0].endswith("\r") else match.end()


def _find(node: Node, ours: Ours, path: Path) -> Path | None:
    """The way to the first value that is ours."""
    if node.kind == "object" and ours(node.value):
        return path
    for i, item in enumerate(node.items):
        found = _find(item.node, ours, (*path, i if item.key is None else item.key))
        if found is not None:
            return found
    return None


def _at(root: Node, path: Path) -> Node:
    node = root
    for step in path:
        inner = node.items[step].node if isinstance(step, int) else node.member(step)
        assert inner is not None
        node = inner
    return node


def _with_empty(value: Any, path: Path, empty: Any) -> Any:
    """The document with what was left empty for the sake of a comment: a list of hooks, or what holds such lists."""
    if not isinstance(value, dict):
        return value
    inner = value.get(path[0])
    if len(path) == 1:
        return {**value, path[0]: empty if inner is None else inner}
    return {**value, path[0]: _with_empty({} if inner is None else inner, path[1:], empty)}


def _remove(text: str, path: Path, before: str | None, comments: bool) -> tuple[str, Path]:
    """Take out the value at a path, and what is empty because of that and was not there before.

    What holds a comment stays, empty: the second value says where, if so.
    """
    old = jsontext.parse(before, comments=comments) if before is not None and before.strip("\ufeff \t\r\n") else None
    while path:
        parent = _at(jsontext.parse(text, comments=comments), path[:-1])
        text = _cut(text, parent, path[-1])
        path = path[:-1]
        container = _at(jsontext.parse(text, comments=comments), path)
        if container.items:
            break
        stood = old.at(path) if old is not None and all(isinstance(k, str) for k in path) else None  # type: ignore[arg-type]
        if stood is not None or not path:
            text = _emptied(text, container, before, stood)
            break
        if path and all(isinstance(k, str) for k in path) and text[container.start + 1 : container.end - 1].strip():
            return text, path
        if container.kind == "array" and len(path) > 1 and isinstance(path[-2], int):
            path = path[:-1]  # a group of hooks that holds none any more
    return text, ()


def _emptied(text: str, container: Node, before: str | None, stood: Node | None) -> str:
    """An empty container as it looked when it was empty before."""
    if stood is not None and stood.value is None and before is not None:
        return text[: container.start] + before[stood.start : stood.end] + text[container.end :]
    inside = text[container.start + 1 : container.end - 1]
    if before is not None and stood is not None and not stood.items and stood.kind == container.kind:
        inside = before[stood.start + 1 : stood.end - 1]
    elif not inside.strip():
        inside = ""
    return text[: container.start + 1] + inside + text[container.end - 1 :]


def _cut(text: str, container: Node, step: str | int) -> str:
    """The text without one item, its comma, and the white space before it."""
    index = step if isinstance(step, int) else [i.key for i in container.items].index(step)
    items = container.items
    item = items[index]
    has_comma = index + 1 < len(items) or container.trailing is not None
    rest = _behind(text, container, index) if has_comma else text[item.node.end :]
    begin = len(text[: item.start].rstrip())
    gap = text[items[index - 1].node.end if index else container.start : begin]
    if "//" in gap.rpartition("\n")[2] and not rest.lstrip(" \t\r").startswith("\n"):
        begin = item.start  # the white space ends a comment
    if has_comma:
        return text[:begin] + rest
    return _without_comma_before(text, items, index, begin) + rest


def _behind(text: str, container: Node, index: int) -> str:
    """What follows an item, without the comma."""
    end = container.items[index].node.end
    last = index + 1 == len(container.items)
    comma = container.trailing if last else None
    if comma is None:
        comma = _comma(text, end) + 1
    return text[end : comma - 1] + text[comma:]


def _without_comma_before(text: str, items: list[Item], index: int, begin: int) -> str:
    """What stands before the last item, without the comma that led to it."""
    if index == 0:
        return text[:begin]
    comma = _comma(text, items[index - 1].node.end)
    return text[:comma] + text[comma + 1 : max(begin, comma + 1)]


def _comma(text: str, at: int) -> int:
    """Where the comma behind a value stands, comments between skipped."""
    while text[at] != ",":
        comment = re.compile(r"//[^\n]*|/\*.*?\*/", re.S).match(text, at)
        at = comment.end() if comment is not None else at + 1
    return at
