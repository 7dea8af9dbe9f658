"""What a turn is called: its prompt, the agent that worked on it and when, as the run logs have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkpointer.workspace.timeline import OpenTurn
    from checkpointer.workspace.workspace import Workspace


@dataclass(frozen=True)
class Call:
    """One step of a turn: the tool and its arguments on one line."""

    tool: str
    about: str


@dataclass(frozen=True)
class Title:
    """`agent` and `prompt` are empty where no log tells them. `calls` by step handle."""

    agent: str = ""
    prompt: str = ""
    started: datetime | None = None
    seconds: float | None = None
    calls: Mapping[str, Call] | None = None


def titles(workspace: Workspace) -> dict[str, Title]:
    """Titles by turn handle (`t3`). A log that is missing or damaged leaves its turns without one."""
    return {}


def open_turns(workspace: Workspace) -> list[OpenTurn]:
    """The turns that have not ended, oldest first, as the run logs have them."""
    return []


def uncertain(workspace: Workspace) -> list[dict[str, Any]]:
    """Calls whose outcome is not known: `handle`, `about` and whatever else there is to say."""
    return []
