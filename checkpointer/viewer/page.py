"""A history as one page of HTML: no script, nothing fetched, readable on a phone, in the dark and on paper.

Everything that is shown is an argument. All text is foreign (file names, prompts, contents) and is escaped.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["turn", "save", "restore", "edit", "event"]
LINES = 400
"""Lines of one file's patch that are shown."""
TITLE = 1000
"""Characters of a prompt that are shown."""


class File(NamedTuple):
    """One path that changed. `patch` are the lines of its patch in git's format; `whole`: those are all of them."""

    path: str
    added: int
    removed: int
    what: Literal["new", "gone", "changed"]
    patch: Sequence[str] = ()
    whole: bool = True


class Step(NamedTuple):
    """One tool call, or what was done without one. `end` says how it ended where that was not well."""

    handle: str
    tool: str
    about: str
    end: str
    files: Sequence[File]


class Item(NamedTuple):
    """One thing that happened. `state` is `undone`, `left`, `open`, `cut off` or empty; `tone` colours an event."""

    kind: Kind
    handle: str
    at: datetime
    title: str
    who: str = ""
    took: str = ""
    state: str = ""
    steps: Sequence[Step] = ()
    answer: str = ""
    tone: Literal["", "good", "warn", "bad"] = ""


class Page(NamedTuple):
    """`facts` are (what, value) for the head of the page."""

    name: str
    directory: str
    made: datetime
    facts: Sequence[tuple[str, str]]
    items: Sequence[Item]


BEGINNING = '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="ckpt">'
"""How every page begins: by it a page is known for one that may be written anew."""


def text(value: str) -> str:
    """Foreign text, safe in HTML; what would not be seen, or would turn the line around, is shown as its number."""
    return html.escape("".join(c if _visible(c) else f"\\u{ord(c):04x}" for c in value), quote=True)


def _visible(c: str) -> bool:
    return c in "\t\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _style() -> str:
    return Path(__file__).with_name("page.css").read_text(encoding="utf-8")


def render(page: Page) -> Iterator[str]:
    """The page, in parts."""
    yield (
        f"{BEGINNING}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        f"<title>{text(page.name)}: what happened</title><style>\n{_style()}</style></head><body>\n"
    )
    yield f'<header><h1>{text(page.name)}</h1><p class="dir">{text(page.directory)}</p><dl class="facts">'
    for what, value in page.facts:
        yield f"<div><dt>{text(what)}</dt><dd>{text(value)}</dd></div>"
    yield "</dl></header>\n"
    turns = [item for item in page.items if item.kind == "turn"]
    if turns:
        yield '<nav aria-label="Turns"><ol>'
        for item in reversed(turns):
            state = f' <span class="chip {_slug(item.state)}">{text(item.state)}</span>' if item.state else ""
            link = f'<a href="#{_slug(item.handle)}"><b>{text(item.handle)}</b> {text(_short(item.title))}</a>'
            yield f"<li>{link}{state}</li>"
        yield "</ol></nav>\n"
    yield "<main>\n"
    day = ""
    for item in page.items:
        local = item.at.astimezone()
        if (today := local.strftime("%A, %-d %B %Y")) != day:
            day = today
            yield f'<h2 class="day">{text(day)}</h2>\n'
        yield from _item(item, local)
    if not page.items:
        yield '<p class="nothing">Nothing has happened here yet.</p>'
    made = page.made.astimezone().strftime("%Y-%m-%d %H:%M")
    note = f"written by ckpt on {text(made)}; times are local to where it was written"
    yield f"</main><footer>{note}</footer></body></html>\n"


def _item(item: Item, local: datetime) -> Iterator[str]:
    mark = {"turn": "●", "restore": "↺", "save": "◆", "edit": "✎", "event": "!"}[item.kind]
    classes = " ".join(filter(None, ("item", item.kind, item.tone, _slug(item.state))))
    yield f'<article class="{classes}" id="{_slug(item.handle)}">'
    at = local.strftime("%H:%M")
    yield f'<div class="rail"><span class="mark" aria-hidden="true">{mark}</span><time>{at}</time></div>'
    yield '<div class="body">'
    chips = f' <span class="chip {_slug(item.state)}">{text(item.state)}</span>' if item.state else ""
    meta = " · ".join(text(w) for w in (item.handle if item.kind != "event" else "", item.who, item.took) if w)
    tag = "h3" if item.kind == "turn" else "p"
    title = item.title if len(item.title) <= TITLE else f"{item.title[:TITLE]}…"
    yield f'<{tag} class="title">{text(title)}</{tag}><p class="meta">{meta}{chips}</p>'
    if item.steps:
        yield '<ol class="steps">'
        for step in item.steps:
            yield from _step(step)
        yield "</ol>"
    if item.answer:
        yield f'<blockquote class="answer">{text(item.answer)}</blockquote>'
    yield "</div></article>\n"


def _step(step: Step) -> Iterator[str]:
    tool = f'<span class="tool">{text(step.tool)}</span> ' if step.tool else ""
    about = f"<code>{text(step.about)}</code>" if step.about else ""
    end = f' <span class="chip bad">{text(step.end)}</span>' if step.end else ""
    handle = f'<span class="handle">{text(step.handle)}</span> ' if step.handle else ""
    call = f"{handle}{tool}{about}{end}"
    yield f'<li><p class="call">{call}</p>' if call else "<li>"
    for file in step.files:
        yield from _file(file)
    yield "</li>"


def _file(file: File) -> Iterator[str]:
    counts = "".join(
        f' <span class="{name}">{sign}{n}</span>'
        for name, sign, n in (("add", "+", file.added), ("del", "−", file.removed))
        if n
    )
    said = {"new": "new", "gone": "deleted", "changed": ""}[file.what]
    what = f' <span class="what">{said}</span>' if said else ""
    head = f'<span class="path">{text(file.path)}</span>{what}{counts}'
    if not file.patch:
        yield f'<p class="file">{head}</p>'
        return
    yield f'<details class="file"><summary>{head}</summary><pre class="patch">'
    for line in file.patch:
        kind = {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "")
        shown = text(line) or " "
        yield f'<span class="{kind}">{shown}</span>\n' if kind else f"{shown}\n"
    rest = "" if file.whole else '<span class="hunk">… more is not shown here</span>\n'
    yield f"{rest}</pre></details>"


def _short(title: str, width: int = 72) -> str:
    line = " ".join(title.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _slug(value: str) -> str:
    """A name that may stand in an attribute: letters, digits, `-` and `.` of it."""
    return "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "-" for c in value)


def write(page: Page) -> bytes:
    """The whole page."""
    parts: Iterable[str] = render(page)
    return "".join(parts).encode("utf-8")
