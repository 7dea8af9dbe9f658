"""Writes docs/events.md from the vocabulary: `python docs/make_events.py > docs/events.md`."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any, get_args

from checkpointer import record
from checkpointer.events import ENVELOPE, TYPES, Event, Fact, RecordOnly, content_fields
from checkpointer.events.envelope import Mark
from checkpointer.state import CALL, RUN

GROUPS = ("run", "context", "tools", "oversight", "workspace")

INTRO = """\
# The events of a run

This page is generated from the code (`python docs/make_events.py`); a test compares.

A run is a file of lines, `runs/<run>/events.jsonl`. Every line is one event, a fact that never changes. All that is
known about a run is folded from its events, by one pure function.

## A line

    {"e":{"seq":842,"w":842,"v":1,"type":"tool_call_started",...,"dd":"..."},"sum":"...","salt":"...","d":{...}}

* A line MUST be UTF-8 and end with one newline. Lines are split on newlines and on nothing else.
* `e` holds the event's *facts*: all that the fold needs. `d` holds its *contents*: what was said, asked and answered.
  A purge can drop `salt` and `d`; the facts and the chain stay, and every state can still be folded.
* `dd` is the SHA-256 of the salt's text and the stored bytes of `d`. It MUST stand last in `e`.
* `sum` is the SHA-256 of the text of the previous line's `sum` (of nothing, for the first line) and the stored bytes
  of `e`. Both are lower-case hex. Digests are of stored bytes: a reader MUST NOT serialise anew to check them.
* `seq` counts from 1 without gaps. `w` is the first `seq` of the write that a line came in, and `n` how many lines
  that write had (left out for one). A write is kept or cut whole. At most one write is not yet on stable storage.
* A reader stops before a *torn tail*: a last write that is not whole. Whoever holds the lock and writes next sets its
  bytes aside (`torn/`) and cuts it. A line that cannot be right and is followed by a later write is *damage*: the log
  is refused from there on, and nothing is shortened.
* A contents field of more than {large} bytes stands beside the log: in `d`,
  `"objects":{{"result":{{"bytes":n,"sha256":"..."}}}}` names `objects/<sha256>`, which was on stable storage before the
  line was.
* A field that is null is left out. An unknown field is ignored, and kept, since lines are never written anew. An
  unknown type or a newer version is refused by name.
* JSON is strict: no NaN, no infinity, no number that overflows, no name twice in an object. Names are in order of their
  code points. Text is not normalised. Bytes, and text with lone surrogates, are escaped: see `checkpointer/canon.py`.

Every event carries:

| field | |
|---|---|
| `seq` `w` `n` | its place, as above |
| `v` | the version of its type |
| `type` | one of those below |
| `id` | 32 hex digits, by which an append can be asked about afterwards |
| `at` | when it was appended: RFC 3339, UTC, microseconds |
| `epoch` | the claim under which it was written; it grows by one with each owner |
| `context` | `main`, or a subagent's own conversation |
| `commit` | the checkpoint that was current: `kind`, `id`, `number`; `captured`: the files were verified against it |
| `unprotected` | why there is none, beside `"commit":null` |
"""

OUTRO = """\
## What may follow what

A run, by the types that change it (`*`: every type that is not named):

{runs}

A call. `accept` is a model turn that asks for it, `join` one that asks for the same action again; the other moves are
`tool_call_started`, the effects of `tool_call_completed` (`again`: a proven failure that is tried in the same slot),
the verdicts of `tool_call_reconciled`, and a denial.

{calls}
"""


def _type(annotation: Any) -> str:
    text = annotation.__name__ if inspect.isclass(annotation) else str(annotation)
    text = re.sub(r"\b(?:[a-z_]+\.)+([A-Za-z_]\w*)", r"\1", text)
    text = text.replace("NoneType", "None").replace("Literal[", "[").replace("'", "")
    return text.replace(" | None", "").replace("|", "or")


def _fields(cls: type[Fact], hidden: tuple[str, ...] = ()) -> list[str]:
    contents = content_fields(cls) if issubclass(cls, Event) else {}
    rows = []
    for name, info in cls.model_fields.items():
        if name in hidden:
            continue
        if name in contents:
            what, default = "contents" + ("" if contents[name] else ", may be left out"), ""
        else:
            what = f"`{_type(info.annotation)}`"
            default = "" if info.is_required() else f"{info.default!r}" if info.default is not None else "null"
            default = "as there" if isinstance(info.default, Fact) else default
        rows.append(f"| `{name}` | {what} | {default.replace('()', 'none')} |")
    return rows


def _doc(cls: type[Any]) -> str:
    return inspect.cleandoc(cls.__doc__ or "")


def _parts(cls: type[Fact], found: dict[str, type[Fact]]) -> None:
    """Every class that fields of `cls` are made of."""
    for info in cls.model_fields.values():
        for part in _inside(info.annotation):
            if part.__name__ not in found and part.__name__ != "Commit":
                found[part.__name__] = part
                _parts(part, found)


def _inside(annotation: Any) -> list[type[Fact]]:
    if inspect.isclass(annotation) and issubclass(annotation, Fact):
        return [annotation]
    return [part for arg in get_args(annotation) if not isinstance(arg, (str, Mark)) for part in _inside(arg)]


def page() -> str:
    lines = [INTRO.replace("{large}", f"{record.LARGE:,}").replace("{{", "{").replace("}}", "}")]
    parts: dict[str, type[Fact]] = {}
    for group in GROUPS:
        lines.append(f"## {group.capitalize()}\n")
        for name, cls in TYPES.items():
            if cls.group != group:
                continue
            only = " (record only: it changes no state)" if cls in get_args(RecordOnly) else ""
            lines += [f"### `{name}` version {cls.version}{only}\n", _doc(cls), ""]
            rows = _fields(cls, ENVELOPE)
            if rows:
                lines += ["| field | type | default |", "|---|---|---|", *rows, ""]
            _parts(cls, parts)
    lines.append("## Parts of events\n")
    for name, cls in sorted(parts.items()):
        lines += [f"### {name}\n", _doc(cls), "", "| field | type | default |", "|---|---|---|", *_fields(cls), ""]
    runs = "\n".join(
        ["| is | event | becomes |", "|---|---|---|", *(f"| {a} | `{b}` | {c} |" for (a, b), c in RUN.items())]
    )
    calls = "\n".join(
        ["| is | move | becomes |", "|---|---|---|", *(f"| {a} | {b} | {c} |" for (a, b), c in CALL.items())]
    )
    lines.append(OUTRO.format(runs=runs, calls=calls))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
