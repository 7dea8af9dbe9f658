"""Our entries put into YAML as lines of their own, and taken out again; every other byte stays.

Only files in block style are changed, where the keys on the way are; anything else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.editing.values import Entry, Ours, Path, minus, plus

Node = Any
"""A node of the composer: it knows where it stands."""
EMPTY = ("{}", "[]", "null", "~")


def value_of(text: str) -> Any:
    """What the text means; an empty text is an empty mapping. Raises Unfit."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        value = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, RecursionError, ValueError) as e:
        raise Unfit(f"is not valid YAML: {' '.join(str(e).split())[:120]}") from None
    return {} if value is None else value


def added(text: str, entries: Sequence[Entry]) -> str:
    """The text with the entries. Raises Unfit."""
    wanted = plus(value_of(text), entries)
    for entry in entries:
        text = _add(text, entry)
    _check(text, wanted, "is written in a way that cannot be changed safely")
    return text


def removed(text: str, ours: Ours, before: str | None) -> str:
    """The text without what is ours. `before` is the text as it was before us, where that is known. Raises Unfit."""
    old = value_of(before) if before is not None else None
    wanted = minus(value_of(text), ours, old)
    while (path := _find(value_of(text), ours, ())) is not None:
        text = _remove(text, path, before)
    if text and not text.endswith("\n") and not _means(text, wanted):
        text += "\r\n" if "\r\n" in text else "\n"  # a block of text ends here, which has to keep its line end
    _check(text, wanted, "was changed in a way that does not let us take our part out safely")
    return text


def _check(text: str, wanted: Any, otherwise: str) -> None:
    if not _means(text, wanted):
        raise Unfit(otherwise)


def _means(text: str, wanted: Any) -> bool:
    try:
        return bool(value_of(text) == wanted)
    except Unfit:
        return False


def _compose(text: str) -> Node:
    """The document as nodes, None where it holds nothing."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="rt", pure=True).compose(text)
    except YAMLError as e:
        raise Unfit("is written in a way that cannot be changed safely") from e


def _pairs(node: Node) -> list[tuple[Node, Node]]:
    return list(node.value) if type(node).__name__ == "MappingNode" else []


def _member(node: Node, key: str) -> tuple[Node, Node] | None:
    return next(((k, v) for k, v in _pairs(node) if k.value == key), None)


def _is_flow(node: Node) -> bool:
    return bool(getattr(node, "flow_style", False))


def _end(text: str, node: Node) -> int:
    """The end of the last line of a node, behind its line end; the end marks of blocks lie further down."""
    last = node
    while type(last).__name__ != "ScalarNode" and not _is_flow(last) and last.value:
        key, last = last.value[-1] if type(last).__name__ == "MappingNode" else (None, last.value[-1])
        if key is not None and last.value == "" and last.start_mark.index == last.end_mark.index:
            last = key  # nothing stands behind it, and the marks of nothing lie further down
    at = last.end_mark.index
    if at and text[at - 1] == "\n" and at > last.start_mark.index:  # a block of text ends behind its line
        return int(at)
    line_end = text.find("\n", at)
    return len(text) if line_end < 0 else line_end + 1


def _column(text: str, node: Node) -> int:
    return int(node.start_mark.index - (text.rfind("\n", 0, node.start_mark.index) + 1))


def _lines(text: str, at: int, lines: list[str]) -> str:
    """Put lines in at the beginning of a line, or behind a last line that has no end."""
    newline = "\r\n" if "\r\n" in text else "\n"
    body = newline.join(lines)
    if at and text[at - 1] != "\n":
        return text[:at] + newline + body + text[at:]
    return text[:at] + body + newline + text[at:]


def _item(value: dict[str, Any]) -> list[str]:
    fields = [f"{k}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items()]
    return [("- " if i == 0 else "  ") + field for i, field in enumerate(fields)]


def _add(text: str, entry: Entry) -> str:
    group, event = entry.keys
    item = _item(entry.value)
    root = _compose(text)
    if root is None or type(root).__name__ == "ScalarNode":
        return _lines(text, len(text), [f"{group}:", f"  {event}:", *("    " + line for line in item)])
    if _is_flow(root):
        raise Unfit("is written in flow style ({...})")
    found = _member(root, group)
    if found is None:
        pad = " " * _column(text, root)
        whole = [f"{group}:", f"  {event}:", *("    " + line for line in item)]
        return _lines(text, _end(text, root), [pad + line for line in whole])
    key, events = found
    pad = " " * _column(text, key)
    inner = [f"{pad}  {event}:", *(f"{pad}    {line}" for line in item)]
    if not _pairs(events):
        return _lines(_without_empty(text, key, events), _after(text, key), inner)
    if _is_flow(events):
        raise Unfit(f"has {group} in flow style ({{...}})")
    listed = _member(events, event)
    pad = " " * _column(text, events.value[0][0])
    if listed is None:
        return _lines(text, _end(text, events), [f"{pad}{event}:", *(f"{pad}  {line}" for line in item)])
    name, items = listed
    if not items.value:
        return _lines(_without_empty(text, name, items), _after(text, name), [f"{pad}  {line}" for line in item])
    if _is_flow(items):
        raise Unfit(f"has {group}.{event} in flow style ([...])")
    pad = " " * _dash(text, items.value[0])[1]
    return _lines(text, _end(text, items), [pad + line for line in item])


def _after(text: str, key: Node) -> int:
    """Behind the line of a key."""
    line_end = text.find("\n", int(key.end_mark.index))
    return len(text) if line_end < 0 else line_end + 1


def _without_empty(text: str, key: Node, node: Node) -> str:
    """The text with the `{}`, `[]` or null behind a key in blanks: what follows takes its place, the bytes stay put."""
    start, end = int(node.start_mark.index), int(node.end_mark.index)
    if text[start:end] in EMPTY:
        return text[:start] + " " * (end - start) + text[end:]
    if node.value in ([], ""):
        return text
    raise Unfit(f"has something else than entries at {key.value}")


def _dash(text: str, item: Node) -> tuple[int, int]:
    """Where the line of a list's item begins, and the column of its dash."""
    begin = text.rfind("\n", 0, item.start_mark.index) + 1
    dash = text.rfind("-", begin, item.start_mark.index)
    if dash < 0 or text[begin:dash].strip():
        raise Unfit("has a list that is written in an unusual way")
    return begin, dash - begin


def _find(value: Any, ours: Ours, path: Path) -> Path | None:
    if isinstance(value, dict):
        if ours(value):
            return path
        pairs: list[tuple[Any, Any]] = list(value.items())
    else:
        pairs = list(enumerate(value)) if isinstance(value, list) else []
    return next((f for k, v in pairs if (f := _find(v, ours, (*path, k))) is not None), None)


def _remove(text: str, path: Path, before: str | None) -> str:
    """Take out the lines of one item, and of the keys that hold nothing because of that and were not there before."""
    group, event, index = (str(path[0]), str(path[1]), path[2]) if len(path) == 3 else ("", "", 0)
    root = _compose(text)
    found = _member(root, group) if root is not None else None
    listed = _member(found[1], event) if found is not None else None
    if found is None or listed is None or not isinstance(index, int) or _is_flow(listed[1]):
        raise Unfit("was changed in a way that does not let us take our part out safely")
    item = listed[1].value[index]
    old = value_of(before) if before is not None else {}
    alone = len(listed[1].value) == 1
    if alone and event not in (old.get(group) or {}):
        if len(_pairs(found[1])) == 1 and group not in old:
            return _without(text, _line(text, found[0]), _end(text, item))
        text, emptied = _without(text, _line(text, listed[0]), _end(text, item)), (group,)
        return _refilled(text, emptied, before) if len(_pairs(found[1])) == 1 else text
    text = _without(text, _dash(text, item)[0], _end(text, item))
    return _refilled(text, (group, event), before) if alone else text


def _line(text: str, node: Node) -> int:
    return text.rfind("\n", 0, node.start_mark.index) + 1


def _without(text: str, begin: int, end: int) -> str:
    if begin and end == len(text) and not text.endswith("\n"):  # we had put the line end before it, not behind it
        begin -= 2 if text[begin - 2 : begin] == "\r\n" else 1
    return text[:begin] + text[end:]


def _refilled(text: str, path: tuple[str, ...], before: str | None) -> str:
    """The text with what stood behind a key when it was empty before: `{}`, `[]`, or nothing."""
    node, old = _compose(text), _compose(before or "")
    for key in path:
        here, there = _member(node, key), _member(old, key)
        if here is None or there is None:
            return text
        (name, node), (_, old) = here, there
    stood = (before or "")[old.start_mark.index : old.end_mark.index]
    if stood not in EMPTY:
        return text
    at = text.index(":", name.end_mark.index) + 1
    gap = len((before or "")[: old.start_mark.index]) - len((before or "")[: old.start_mark.index].rstrip(" "))
    return text[: at + gap] + stood + text[at + gap + len(stood) :]
