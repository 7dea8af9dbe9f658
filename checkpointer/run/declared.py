"""What a run is opened with: tools that it can work with, and what is not as it was when it was left."""

from __future__ import annotations

from collections.abc import Iterable

from checkpointer.errors import Usage
from checkpointer.state import RunState
from checkpointer.tools import Tool, check


def checked(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Tools that a run can work with. Raises `Usage`."""
    named = tuple(tools)
    for one in named:
        if not isinstance(one, Tool):
            raise Usage(f"{one!r} is no declared tool", next=("@tool(effect=...)",))
        check(one)
    if len({one.name for one in named}) != len(named):
        raise Usage("two tools have the same name")
    return named


def changed(before: RunState, now: RunState) -> list[str]:
    """What a run is resumed with that it was not left with, as lines for people."""
    if before.status == "new":
        return []
    lines = []
    for what in ("writer", "prompt"):
        if getattr(before, what) != getattr(now, what):
            lines.append({"writer": f"written by {now.writer} from here on", "prompt": "the prompt changed"}[what])
    was, are = ({tool.name: tool.digest for tool in state.tools} for state in (before, now))
    lines += [f"tool {name} is not here any more" for name in sorted(was.keys() - are.keys())]
    lines += [f"tool {name} is new" for name in sorted(are.keys() - was.keys())]
    lines += [f"tool {name} is declared otherwise now" for name in sorted(was) if are.get(name, was[name]) != was[name]]
    return lines
