"""What a configuration means with our entries and without them: the same change as the editors make, on plain values.

An editor of text compares what it wrote with what stands here, so that a slip in the text is noticed before it is
written.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from checkpointer.agents.editing.trouble import Unfit

Ours = Callable[[dict[str, Any]], bool]
Path = tuple[str | int, ...]


class Entry(NamedTuple):
    """`value` is an element of the list that stands at `keys`; both are made if they are not there."""

    keys: tuple[str, ...]
    value: dict[str, Any]


class _Gone:
    pass


_GONE = _Gone()


def ours_in(value: Any, ours: Ours) -> Iterator[dict[str, Any]]:
    """Every mapping in a value that is ours."""
    if isinstance(value, dict):
        if ours(value):
            yield value
            return
        for inner in value.values():
            yield from ours_in(inner, ours)
    elif isinstance(value, list):
        for inner in value:
            yield from ours_in(inner, ours)


def holds(value: Any, entries: Sequence[Entry], ours: Ours) -> bool:
    """Do exactly these entries of ours stand in the document, wherever among others?"""
    wanted = [e.value for e in entries]
    if len(list(ours_in(value, ours))) != len(list(ours_in(wanted, ours))):
        return False
    return all(list_at(value, e.keys).count(e.value) == 1 for e in entries)


def list_at(value: Any, keys: tuple[str, ...]) -> list[Any]:
    """The list at some keys, empty where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []


def plus(value: Any, entries: Sequence[Entry]) -> Any:
    """The document with the entries. Raises Unfit where something else stands in their place."""
    document = copy.deepcopy(value) if value is not None else {}
    for entry in entries:
        node = document
        for depth, key in enumerate(entry.keys):
            if not isinstance(node, dict):
                raise Unfit(f"has something else than an object at {'.'.join(entry.keys[:depth]) or 'its top'}")
            last = depth == len(entry.keys) - 1
            if node.get(key) is None:
                node[key] = [] if last else {}
            node = node[key]
        if not isinstance(node, list):
            raise Unfit(f"has something else than a list at {'.'.join(entry.keys)}")
        node.append(entry.value)
    return document


def minus(value: Any, ours: Ours, before: Any = None) -> Any:
    """The document without what is ours, and without what is empty because of that.

    What stands in `before`, the document as it was before us, stays even where it is empty now.
    """

    def stood(path: Path) -> Any:
        node = before
        for key in path:
            if not isinstance(node, dict) or key not in node:
                return _GONE
            node = node[key]
        return node

    def without(node: Any, path: Path) -> Any:
        if isinstance(node, dict):
            return _GONE if ours(node) else members(node, path)
        return elements(node, path) if isinstance(node, list) else node

    def members(node: dict[str, Any], path: Path) -> Any:
        kept = {k: without(v, (*path, k)) for k, v in node.items()}
        lost = [k for k, v in kept.items() if v is _GONE]
        if lost and path and isinstance(path[-1], int) and any(isinstance(node[k], list) for k in lost):
            return _GONE  # a group of hooks that holds none any more
        left = {k: v for k, v in kept.items() if v is not _GONE}
        return emptied(path, left) if lost and not left and path else left

    def elements(node: list[Any], path: Path) -> Any:
        kept = [without(v, (*path, i)) for i, v in enumerate(node)]
        left = [v for v in kept if v is not _GONE]
        return emptied(path, left) if len(left) < len(kept) and not left and path else left

    def emptied(path: Path, left: Any) -> Any:
        was = stood(path)
        return left if was is not None and was is not _GONE else was

    return without(value, ())
