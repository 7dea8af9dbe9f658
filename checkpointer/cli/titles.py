"""What a turn is called: its prompt, the agent that worked on it and when, as the run logs have it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from checkpointer.replay import Counters
    from checkpointer.workspace.undoing.timeline import OpenTurn
    from checkpointer.workspace.workspace import Workspace


class Call(NamedTuple):
    """One step of a turn: the tool and its arguments on one line; `end` says how it ended where that was not well."""

    tool: str
    about: str
    end: str = ""


class Title(NamedTuple):
    """`agent` and `prompt` are empty where no log tells them. `calls` by step handle. `talk`: it belongs to a
    conversation with an agent, and is told of even if it changed no file; `checkpoint` was the newest one then.
    """

    agent: str = ""
    prompt: str = ""
    started: datetime | None = None
    seconds: float | None = None
    calls: Mapping[str, Call] | None = None
    answer: str = ""
    run: str = ""
    talk: bool = False
    checkpoint: int | None = None


def titles(workspace: Workspace) -> dict[str, Title]:
    """Titles by turn handle (`t3`). A log that is missing or damaged leaves its turns without one."""
    from checkpointer.run import roster

    found = {}
    root = os.fsdecode(workspace.root).rstrip("/") + "/"
    for handle, turn in roster.turns(workspace.directory).items():
        took = (turn.last - turn.started).total_seconds() if turn.last and turn.started else None
        calls = {
            step: Call(tool, _about(arguments, root), turn.ends.get(step, ""))
            for step, (tool, arguments) in turn.calls.items()
        }
        found[handle] = Title(
            turn.agent, turn.prompt, turn.started, took, calls, turn.answer, turn.run, bool(turn.session), turn.since
        )
    return found


_WIDTH = 60
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)


def _about(arguments: Any, root: str) -> str:
    """The arguments of a call on one short line: the one that says most, else all of them."""
    said = _said(arguments).removeprefix(root)
    if said.startswith("*** Begin Patch"):
        said = " ".join(_PATCHED.findall(said))
    line = " ".join("".join(c if c.isprintable() else " " for c in said).split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."


def _said(arguments: Any) -> str:
    if not isinstance(arguments, Mapping):
        return "" if arguments is None else str(arguments)
    from checkpointer.run.roster import SAYING

    for name in SAYING:
        if isinstance(arguments.get(name), str):
            return str(arguments[name])
    commands = arguments.get("commands")
    if isinstance(commands, list | tuple) and commands:
        return "; ".join(map(str, commands))
    return ", ".join(f"{name}={value}" for name, value in arguments.items())


def open_turns(workspace: Workspace) -> list[OpenTurn]:
    """The turns that have not ended, oldest first, as the run logs have them."""
    from checkpointer.run import roster

    return roster.open_turns(workspace.directory)


_ASKING = ("tool_call_started", "approval_requested")
"""Only a log with one of these can leave a question open."""


def open_questions(
    workspace: Workspace, counters: Counters | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What waits for a person: calls whose outcome is not known, and calls that may not run before an approval; each
    with its `about` and whatever else there is to say. `counters` gets what reading the logs cost.
    """
    from checkpointer.log import glance

    runs = os.path.join(workspace.directory, "runs")
    if counters is None and not any(glance.mentions(os.path.join(runs, run), _ASKING) for run in glance.runs(runs)):
        return [], []
    import contextlib

    from checkpointer.cli import approvals, uncertain
    from checkpointer.errors import CheckpointerError
    from checkpointer.recovery import queue
    from checkpointer.run import questions, roster

    doubts: list[queue.Item] = []
    asked: list[questions.Question] = []
    for log, state in queue.unfinished(os.fspath(roster.runs_directory(workspace.directory)), counters):
        with contextlib.suppress(CheckpointerError):
            doubts += queue.items(log, state)
            asked += questions.pending(log, state)
    doubts.sort(key=queue.age)
    return [uncertain.document(item) for item in doubts], [approvals.document(one) for one in asked]
