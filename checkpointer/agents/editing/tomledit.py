"""Our entries put behind a TOML file, between two comments, and taken out again; every other byte stays."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any

from checkpointer.agents.editing import comments
from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.editing.values import Entry, Ours, minus, ours_in, plus

BEGIN = "# ckpt: these lines were added by `ckpt install`; `ckpt uninstall` takes them out"
END = "# ckpt: end"
_BLOCK = re.compile(
    r"(?P<lead>(?:\r?\n)?)^" + re.escape(BEGIN) + r"\r?$.*?^" + re.escape(END) + r"\r?$(?P<end>\n?)", re.S | re.M
)


def value_of(text: str) -> dict[str, Any]:
    """What the text means. Raises Unfit."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise Unfit(f"is not valid TOML: {e}") from None


def added(text: str, entries: Sequence[Entry]) -> str:
    """The text with the entries at its end. Raises Unfit."""
    import tomlkit

    wanted = plus(value_of(text), entries)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [BEGIN]
    for entry in entries:
        document: dict[str, Any] = {}
        lines += tomlkit.dumps(plus(document, [entry])).rstrip("\n").split("\n")
    body = newline.join([*lines, END])
    # Without a line end at its end before, there is none at its end after: the way back needs no memory.
    text = f"{text}{newline}{body}" if text and not text.endswith("\n") else f"{text}{body}{newline}"
    if not _means(text, wanted):
        raise Unfit("is written in a way that cannot be changed safely")
    return text


def removed(text: str, ours: Ours) -> str:
    """The text without what is ours. Raises Unfit where it cannot be told apart from what is not."""
    wanted = minus(value_of(text), ours)

    def without(match: re.Match[str]) -> str:
        return match["lead"] if match["end"] or not match["lead"] else ""

    why = Unfit("holds entries of ckpt in a way that cannot be taken out safely; take them out by hand")
    for left in (_BLOCK.sub(without, text), _without_groups(text, ours)):
        if not _means(left, wanted):
            continue
        try:
            comments.check("toml", text, left, (BEGIN, END))
        except Unfit as e:
            why = e
        else:
            return left
    raise why


def _means(text: str, wanted: Any) -> bool:
    try:
        return bool(value_of(text) == wanted)
    except Unfit:
        return False


def _without_groups(text: str, ours: Ours) -> str:
    """The text without the tables that are ours, wherever a program that rewrote the file has put others among them."""
    parts: list[list[str]] = [[]]
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            parts.append([])
        parts[-1].append(line)
    kept: list[str] = parts.pop(0)
    while parts:
        group = parts.pop(0)
        name = _header(group[0])
        while parts and _header(parts[0][0]) == f"{name}.hooks":
            group += parts.pop(0)
        end = max(i for i, line in enumerate(group) if line.strip() and not line.lstrip().startswith("#")) + 1
        mine = name.startswith("hooks.") and _is_ours("".join(group[:end]), ours)
        kept += group[end:] if mine else group
    return "".join(line for line in kept if line.strip() not in (BEGIN, END))


def _header(line: str) -> str:
    """What a line names as an element of an array of tables, empty for any other table."""
    match = re.fullmatch(r"\[\[\s*([^\]]+?)\s*\]\]\s*(?:#.*)?", line.strip())
    return match[1] if match is not None else ""


def _is_ours(text: str, ours: Ours) -> bool:
    try:
        value = value_of(text)
    except Unfit:
        return False
    return any(ours_in(value, ours)) and not minus(value, ours)
