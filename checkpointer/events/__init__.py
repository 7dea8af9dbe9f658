"""The vocabulary: one frozen class per fact, each with a schema version, joined in a discriminated union.

Every type either changes the state (`StateChange`) or is deliberately record-only (`RecordOnly`). One that is in
neither fails here, on import; `kind` makes a type checker say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, assert_never, get_args

from checkpointer.events.context import (
    AcceptedCall,
    ContextCompacted,
    ContextRewound,
    MemoryWritten,
    ModelTurn,
    Usage,
    UserMessage,
)
from checkpointer.events.envelope import ABSENT, ENVELOPE, MAIN, Absent, Commit, Event, Fact, Trust, content_fields
from checkpointer.events.oversight import ApprovalDecided, ApprovalRequested, GuardrailTriggered
from checkpointer.events.run import (
    Declared,
    Durability,
    Holder,
    LogRedacted,
    LogRef,
    Mode,
    RunFinished,
    RunReleased,
    RunResumed,
    RunStarted,
)
from checkpointer.events.tools import (
    CarriedCall,
    Effect,
    Process,
    Risk,
    Slot,
    Source,
    Terms,
    ToolCallCompleted,
    ToolCallReconciled,
    ToolCallStarted,
    ToolCallUncertain,
    TurnSlot,
    Verdict,
)
from checkpointer.events.workspace import WorkspaceChanged

StateChange = (
    RunStarted
    | RunResumed
    | RunReleased
    | RunFinished
    | UserMessage
    | ModelTurn
    | ContextCompacted
    | ContextRewound
    | ToolCallStarted
    | ToolCallCompleted
    | ToolCallUncertain
    | ToolCallReconciled
    | ApprovalRequested
    | ApprovalDecided
    | WorkspaceChanged
)
RecordOnly = LogRedacted | MemoryWritten | GuardrailTriggered
AnyEvent = StateChange | RecordOnly


def kind(event: AnyEvent) -> Literal["S", "R"]:
    """Does it change the state (`S`), or is it record-only (`R`)?"""
    if isinstance(event, StateChange):
        return "S"
    if isinstance(event, RecordOnly):
        return "R"
    assert_never(event)


def _written(cls: type[Event]) -> Iterator[type[Event]]:
    """The classes below `cls` that name a type, which those that only share fields do not."""
    for below in cls.__subclasses__():
        if "type" in below.__annotations__:
            yield below
        yield from _written(below)


def classify(cls: type[Event]) -> Mapping[str, type[Event]]:
    """Every type below `cls` by its name. Raises TypeError where one is in neither set, in both, or named twice."""
    by_name: dict[str, type[Event]] = {}
    for found in _written(cls):
        name = str(found.model_fields["type"].default)
        if (found in get_args(StateChange)) == (found in get_args(RecordOnly)):
            raise TypeError(f"{found.__name__} must be in exactly one of StateChange and RecordOnly")
        if name in by_name:
            raise TypeError(f"two events are called {name}")
        by_name[name] = found
    return MappingProxyType(by_name)


TYPES: Final = classify(Event)

__all__ = [
    "ABSENT",
    "ENVELOPE",
    "MAIN",
    "TYPES",
    "Absent",
    "AcceptedCall",
    "AnyEvent",
    "ApprovalDecided",
    "ApprovalRequested",
    "CarriedCall",
    "Commit",
    "ContextCompacted",
    "ContextRewound",
    "Declared",
    "Durability",
    "Effect",
    "Event",
    "Fact",
    "GuardrailTriggered",
    "Holder",
    "LogRedacted",
    "LogRef",
    "MemoryWritten",
    "Mode",
    "ModelTurn",
    "Process",
    "RecordOnly",
    "Risk",
    "RunFinished",
    "RunReleased",
    "RunResumed",
    "RunStarted",
    "Slot",
    "Source",
    "StateChange",
    "Terms",
    "ToolCallCompleted",
    "ToolCallReconciled",
    "ToolCallStarted",
    "ToolCallUncertain",
    "Trust",
    "TurnSlot",
    "Usage",
    "UserMessage",
    "Verdict",
    "WorkspaceChanged",
    "classify",
    "content_fields",
    "kind",
]
