"""What a graph saves: its state with the values that are new with it, and what tasks wrote meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Typed = tuple[str, bytes]
"""A value as a serializer gives it: the kind, and the bytes."""
Version = str | int | float
Name = tuple[str, str]
"""A saved state's namespace and id."""


class State(NamedTuple):
    """A saved state: its id is in order with those of later ones. `blobs` are the values that were new with it."""

    namespace: str
    id: str
    parent: str | None
    state: Typed
    meta: Typed
    blobs: Mapping[tuple[str, Version], Typed]
    run: str | None = None


class Write(NamedTuple):
    """A value that a task wrote after a state, before the next one. `nth` is its place among the task's writes."""

    task: str
    path: str
    nth: int
    channel: str
    value: Typed


def as_content(state: State) -> dict[str, Any]:
    """A state as an event holds it."""
    return {
        "namespace": state.namespace,
        "id": state.id,
        "parent": state.parent,
        "run": state.run,
        "state": list(state.state),
        "meta": list(state.meta),
        "blobs": [[channel, version, list(value)] for (channel, version), value in state.blobs.items()],
    }


def typed(value: Any) -> Typed:
    """A value as it was given, from an event."""
    return str(value[0]), bytes(value[1])
