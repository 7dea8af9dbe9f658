"""The comments of a configuration: no value says whether one of them was lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator

from checkpointer.agents.editing.trouble import Unfit

# What may hold the sign of a comment without being one comes first in each.
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_JSON = re.compile(_STRING + r"|(?P<comment>//[^\n]*|/\*.*?\*/)", re.S)
_TOML = re.compile(r'"""(?:[^\\]|\\.)*?"""|' + r"'''.*?'''|" + _STRING + r"|'[^'\n]*'|(?P<comment>#[^\n]*)", re.S)
_YAML = re.compile(
    r"(?<![^\s\[\]{},:])(?:" + _STRING + r"|'(?:[^'\n]|'')*')|(?:^|(?<=\s))(?P<comment>#[^\n]*)", re.S | re.M
)
_FORMS = {"json": _JSON, "jsonc": _JSON, "toml": _TOML, "yaml": _YAML}


def comments_in(form: str, text: str) -> Iterator[tuple[int, str]]:
    """Each comment with the number of the line on which it begins."""
    for match in _FORMS[form].finditer(text):
        if match["comment"] is not None:
            yield text.count("\n", 0, match.start()) + 1, match["comment"].strip()


def check(form: str, text: str, left: str, but: Container[str] = ()) -> None:
    """Raise Unfit, with the line, where a comment of `text` is not in `left`; `but` are comments of ours."""
    there = Counter(comment for _, comment in comments_in(form, left))
    lost = []
    for line, comment in reversed(list(comments_in(form, text))):  # of equal ones, the last are there still
        there[comment] -= 1
        if there[comment] < 0 and comment not in but:
            lost.append((line, comment))
    if lost:
        line, comment = lost[-1]
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise Unfit(
            f"has a comment within what ckpt put there, which would be lost{more}: line {line}: {comment[:60]}; "
            "move it out of ckpt's part first"
        )
