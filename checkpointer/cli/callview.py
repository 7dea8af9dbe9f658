"""One tool call as a run's log has it: what was asked, what came of it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from checkpointer.cli import phrase
from checkpointer.cli.call import Call
from checkpointer.errors import CheckpointerError

if TYPE_CHECKING:
    from checkpointer.events import AnyEvent, ToolCallStarted
    from checkpointer.log import JsonlLog
    from checkpointer.workspace.workspace import Workspace

_WIDTH = 2000


@dataclass(frozen=True)
class Made:
    """A start, and the newest event about that attempt, None while there is none. `run` is the run's handle."""

    run: str
    start: ToolCallStarted
    end: AnyEvent | None

    @property
    def ending(self) -> str:
        """`completed`, `failed`, `partial`, `uncertain`, `open`, or the verdict of a person or a rule."""
        from checkpointer.events import ToolCallCompleted, ToolCallReconciled

        if isinstance(self.end, ToolCallCompleted):
            return {"done": "completed", "none": "failed", "partial": "partial"}[self.end.effect]
        if isinstance(self.end, ToolCallReconciled):
            return {"retry": "to be run again", "abandon": "given up"}.get(self.end.verdict, "uncertain")
        return "open" if self.end is None else "uncertain"


def find(workspace: Workspace, turn: int, step: int) -> Made | None:
    """The call of a step handle (`t3.2`), or None where no log has one. Damaged logs are passed over."""
    from checkpointer.log import JsonlRuns
    from checkpointer.run import roster

    runs = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory)))
    for name in runs.runs():
        log = runs.log(name)
        try:
            made = _in(log, turn, step)
        except CheckpointerError:
            continue
        finally:
            log.close()
        if made is not None:
            return made
    return None


def _in(log: JsonlLog, turn: int, step: int) -> Made | None:
    from checkpointer.events import (
        RunStarted,
        ToolCallCompleted,
        ToolCallReconciled,
        ToolCallStarted,
        ToolCallUncertain,
    )

    handle, start, end = log.run, None, None
    for record in log.read():
        event = record.event
        if isinstance(event, RunStarted) and event.number is not None:
            handle = f"r{event.number}"
        elif isinstance(event, ToolCallStarted) and (event.turn, event.step) == (turn, step):
            start = record
        elif (
            start is not None
            and isinstance(event, ToolCallCompleted | ToolCallReconciled | ToolCallUncertain)
            and isinstance(start.event, ToolCallStarted)
            and (event.key, event.attempt) == (start.event.key, start.event.attempt)
        ):
            end = record
    if start is None:
        return None
    begun, ended = start.load(log.fetch), end.load(log.fetch) if end is not None else None
    assert isinstance(begun, ToolCallStarted)
    return Made(handle, begun, ended)


def show(call: Call, handle: str, made: Made) -> None:
    """Print it, without its files."""
    at = datetime.fromisoformat(made.start.at)
    took = f" ({phrase.span((datetime.fromisoformat(made.end.at) - at).total_seconds())})" if made.end else ""
    again = f", attempt {made.start.attempt}" if made.start.attempt > 1 else ""
    head = f"{handle} {made.start.tool} {made.run} {phrase.clock(at)}{took}  {made.ending}{again}"
    call.out.line(call.out.style(head, "bold"))
    call.out.line(f"  arguments  {_text(made.start.arguments)}")
    for name in ("result", "rule", "detail", "evidence"):
        value = getattr(made.end, name, None)
        if value is not None:
            call.out.line(f"  {name:9}  {_text(value)}")


def document(made: Made) -> dict[str, Any]:
    """The same for programs."""
    return {
        "run": made.run,
        "tool": made.start.tool,
        "effect": made.start.effect,
        "key": made.start.key,
        "attempt": made.start.attempt,
        "started": made.start.at,
        "ended": made.end.at if made.end is not None else None,
        "ending": made.ending,
        "arguments": _plain(made.start.arguments),
        "result": _plain(getattr(made.end, "result", None)),
    }


def _plain(value: Any) -> Any:
    from checkpointer import canon
    from checkpointer.events import ABSENT

    return None if value is ABSENT else json.loads(canon.dumps(value))


def _text(value: Any) -> str:
    from checkpointer.events import ABSENT

    if value is ABSENT:
        return "(redacted)"
    text = json.dumps(_plain(value), ensure_ascii=False)
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
