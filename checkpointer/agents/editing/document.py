"""A configuration file's text in one of the formats agents use: what it means, and our entries in it or out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from checkpointer.agents.editing import comments, jsonedit, tomledit, yamledit
from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.editing.values import Entry, Ours

Format = Literal["json", "jsonc", "toml", "yaml"]
"""`jsonc` is JSON whose reader allows comments and trailing commas."""


def text_of(data: bytes) -> str:
    """A file's bytes as text. Raises Unfit."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise Unfit("is not UTF-8 text") from e


def value_of(form: Format, text: str) -> Any:
    """What the text means, an empty text being an empty object. Raises Unfit."""
    if form == "toml":
        return tomledit.value_of(text)
    return yamledit.value_of(text) if form == "yaml" else jsonedit.value_of(text, comments=form == "jsonc")


def added(form: Format, text: str, entries: Sequence[Entry]) -> str:
    """The text with the entries, every other byte as it was. Raises Unfit."""
    if form == "toml":
        return tomledit.added(text, entries)
    return yamledit.added(text, entries) if form == "yaml" else jsonedit.added(text, entries, comments=form == "jsonc")


def removed(form: Format, text: str, ours: Ours, before: str | None) -> str:
    """The text without what is ours, every other byte as it was. Raises Unfit, also where a comment would be lost.

    `before` is the text as it was before us, where that is known: what was empty then stays, in its own form.
    """
    if form == "toml":
        return tomledit.removed(text, ours)
    if form == "yaml":
        left = yamledit.removed(text, ours, before)
    else:
        left = jsonedit.removed(text, ours, before, comments=form == "jsonc")
    comments.check(form, text, left)
    return left
