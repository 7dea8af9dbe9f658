"""What every event carries: its place in the log, its time, its context, the checkpoint that was current.

An event has two parts. Its *facts* are what the fold needs: numbers, names, keys, digests. They stand in the part `e`
of a line, under the chain. Its *contents* are what people, models and tools said: text, arguments, results. They
stand in the part `d`, which only its digest ties to the chain, so that a purge can drop them and every state can
still be folded. A field is a fact unless it is declared as `Content`. The fold reads facts only.

`ABSENT` stands for contents that are not here: not loaded, or redacted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, PlainValidator

from checkpointer import canon

MAIN: Final = "main"
Trust = Literal["trusted", "model", "untrusted"]
"""Where words come from: the person or operator, the model, or anything else (tools, the web, summaries)."""


class Absent:
    """The type of `ABSENT`; there is one."""

    _only: ClassVar[Absent | None] = None

    def __new__(cls) -> Absent:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()


class Mark:
    """Marks a field as contents, which a writer must give (`required`) or may leave out."""

    def __init__(self, required: bool) -> None:
        self.required = required

    def __repr__(self) -> str:
        return "content" if self.required else "note"


def _freeze(value: Any) -> Any:
    return value if value is ABSENT else canon.freeze(value)


Content = Annotated[Any, PlainValidator(_freeze), Mark(required=True)]
"""A value of `canon`, frozen. Kept in `d`, or beside the log if it is large."""

Note = Annotated[Any, PlainValidator(_freeze), Mark(required=False)]
"""Contents that may be left out; read back, what was left out is None."""


class Fact(BaseModel):
    """A part of an event: strict and immutable. A newer writer's unknown fields are ignored when a line is read."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)


class Commit(Fact):
    """A checkpoint by its commit. `captured`: the files were verified against it then, and only that is evidence."""

    kind: Literal["shadow", "git", "environment"] = "shadow"
    id: str
    number: int | None = None
    captured: bool


class Event(Fact):
    """The root of all events; itself never written.

    `seq` is 0 until the event is in a log; then the log has set everything down to `epoch`. `w` is the first seq of
    the write it came in and `n` how many events that write holds. `at` is RFC 3339, UTC, with microseconds.
    `context`, `commit` and `unprotected` are the caller's to give: see `missing`.
    """

    group: ClassVar[Literal["run", "context", "tools", "oversight", "workspace"]]
    version: ClassVar[int] = 1

    seq: int = 0
    w: int = 0
    n: int = 1
    v: int = 1
    type: str
    id: str = ""
    at: str = ""
    epoch: int = 0
    context: str | None = None
    commit: Commit | None = None
    unprotected: str | None = None

    def missing(self) -> str:
        """Why this event may not be written, as far as it can tell alone; empty if it may."""
        if self.group != "run" and (self.commit is None) == (self.unprotected is None):
            return "it names neither a checkpoint nor why there is none, or both"
        if self.group in ("context", "tools", "oversight") and self.context is None:
            return "it has no context"
        fields = content_fields(type(self)).items()
        gone = [name for name, required in fields if required and getattr(self, name) is ABSENT]
        return f"its contents are not here: {', '.join(gone)}" if gone else ""


ENVELOPE: Final = tuple(Event.model_fields)


@cache
def content_fields(cls: type[Event]) -> Mapping[str, bool]:
    """The fields of a class that are contents, by name in order, and whether a writer must give them."""
    marks = ((name, m) for name, field in sorted(cls.model_fields.items()) for m in field.metadata)
    return MappingProxyType({name: m.required for name, m in marks if isinstance(m, Mark)})
