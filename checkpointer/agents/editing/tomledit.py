"""Our entries put behind a TOML file, between two comments, and taken out again; every other byte stays."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any

from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.editing.values import Entry, Ours, minus, plus

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
    try:
        same = value_of(text) == wanted
    except Unfit:
        same = False
    if not same:
        raise Unfit("is written in a way that cannot be changed safely")
    return text


def removed(text: str, ours: Ours) -> str:
    """The text without what is ours. Raises Unfit where ours is not between the comments any more."""
    wanted = minus(value_of(text), ours)

    def without(match: re.Match[str]) -> str:
        return match["lead"] if match["end"] or not match["lead"] else ""

    left = _BLOCK.sub(without, text)
    if value_of(left) != wanted:
        raise Unfit("holds entries of ckpt outside the lines that ckpt wrote; take them out by hand")
    return left
