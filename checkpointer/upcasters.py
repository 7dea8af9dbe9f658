"""Every old fact in today's words: `(type, version) -> the same fact one version later`, in one table.

Three things can happen to a type. A field that is optional and has a default needs nothing here, and no new version.
The same fact in another form gets an upcaster in `FORMS`. A fact whose *meaning* changed cannot be translated line by
line: it gets an entry in `MEANINGS`, the log is refused until `ckpt migrate` has written a new one, and nothing reads
it before. Versions 0 were never released; they keep these ways walked and tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from checkpointer.errors import NeedsMigration, NewerFormat
from checkpointer.events import TYPES

Parts = tuple[dict[str, Any], dict[str, Any] | None]
"""An event as a line holds it: the part `e`, and the part `d` or None where it was redacted. Neither is shared."""


def _user_message_0(e: dict[str, Any], d: dict[str, Any] | None) -> Parts:
    """Version 0 was silent about trust: everything came from the person."""
    return {**e, "trust": "trusted"}, d


def _completed_0(e: dict[str, Any], d: dict[str, Any] | None) -> Parts:
    """Version 0 said `ok`: a call that was not had run, and told the model of an error."""
    e = dict(e)
    ok = e.pop("ok")
    return {**e, "effect": "done", "failed": not ok}, d


def _rewound_0(e: dict[str, Any], d: dict[str, Any] | None, before: Sequence[Mapping[str, Any]]) -> Parts:
    """Version 0 named how many messages went, version 1 names the last that stays."""
    e = dict(e)
    gone = e.pop("messages")
    said = ("user_message", "model_turn", "tool_call_completed", "context_compacted")
    seqs = [int(b["seq"]) for b in before if b["type"] in said and b.get("context") == e.get("context")]
    return {**e, "to_seq": seqs[-gone - 1] if gone < len(seqs) else 0}, d


Form = Callable[[dict[str, Any], dict[str, Any] | None], Parts]
Meaning = Callable[[dict[str, Any], dict[str, Any] | None, Sequence[Mapping[str, Any]]], Parts]

FORMS: Final[Mapping[tuple[str, int], Form]] = MappingProxyType(
    {
        ("user_message", 0): _user_message_0,
        ("tool_call_completed", 0): _completed_0,
    }
)
MEANINGS: Final[Mapping[tuple[str, int], Meaning]] = MappingProxyType({("context_rewound", 0): _rewound_0})


def check(name: str, version: int) -> bool:
    """Is this today's form of a type? False if an upcaster leads there.

    Raises `NewerFormat` for a type or version that this program does not know yet, `NeedsMigration` for one whose
    meaning changed.
    """
    known = TYPES.get(name)
    if known is None:
        raise NewerFormat(f"the log holds an event that this version does not know: {name}", next=("ckpt doctor",))
    if version > known.version:
        raise NewerFormat(f"the log holds {name} in version {version}; this program knows {known.version}")
    for step in range(version, known.version):
        if (name, step) in MEANINGS:
            raise NeedsMigration(
                f"what {name} means has changed since this log was written",
                kept="the log is as it was; nothing reads it until then",
                next=("ckpt migrate RUN",),
            )
        if (name, step) not in FORMS:
            raise NewerFormat(f"no way leads from version {step} of {name} to today's")
    return version == known.version


def upcast(e: dict[str, Any], d: dict[str, Any] | None) -> Parts:
    """An event of any known version in today's form. Raises what `check` raises."""
    while not check(e["type"], e["v"]):
        version = e["v"]
        e, d = FORMS[e["type"], version](e, d)
        e = {**e, "v": version + 1}
    return e, d


def migrate(e: dict[str, Any], d: dict[str, Any] | None, before: Sequence[Mapping[str, Any]]) -> Parts:
    """The same for one whose meaning changed, too: `before` are the parts `e` before it, in today's words."""
    while (e["type"], e["v"]) in MEANINGS or (e["type"], e["v"]) in FORMS:
        version = e["v"]
        if (e["type"], version) in MEANINGS:
            e, d = MEANINGS[e["type"], version](e, d, before)
        else:
            e, d = FORMS[e["type"], version](e, d)
        e = {**e, "v": version + 1}
    check(e["type"], e["v"])
    return e, d
