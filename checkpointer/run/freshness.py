"""What a run has seen, and what became of it since: files that a tool read, observations that are past their time.

A model goes on from what it was told. What it was told may have changed while nobody worked: a resume names that, with
its age. A file that the run itself wrote later is no surprise to it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from checkpointer import canon
from checkpointer.errors import CheckpointerError
from checkpointer.events import ABSENT, AnyEvent, ToolCallCompleted, ToolCallStarted
from checkpointer.log import Writable
from checkpointer.machine import moment
from checkpointer.run.calling import current
from checkpointer.state import Call, RunState
from checkpointer.tools import Tool
from checkpointer.workspace.entry import from_json, show, to_json
from checkpointer.workspace.odb.objects import oid_of
from checkpointer.workspace.workspace import Workspace


@dataclass(frozen=True)
class Stale:
    """An observation that holds no more, or may not. `path` is that of a file that changed, empty otherwise.

    `key` is the call's, `age_s` how many seconds ago it ended.
    """

    tool: str
    key: str
    age_s: float
    why: str
    path: str = ""

    @property
    def words(self) -> str:
        return f"{self.path or self.tool} {self.why}"


def observe(path: str | bytes | os.PathLike[str], data: bytes | None = None) -> None:
    """Called by a tool that reads a file: its content goes into the log by its digest, and a resume that finds another
    one names the file. `data` is what was read, where that is at hand; else the file is read once more.

    Outside a run it does nothing. Raises nothing: a file that is not there, or is none, is noted as such.
    """
    ran = current.get()
    if ran is None:
        return
    full = os.path.abspath(os.fsencode(path))
    full = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
    root = ran.desk.files.workspace.root
    name = full[len(root) :].lstrip(b"/") if full.startswith(root.rstrip(b"/") + b"/") else full
    blob = oid_of("blob", data).hex() if data is not None else _content(full)
    ran.observed[show(name)] = {"path": to_json(name), "blob": blob}


def _content(path: bytes) -> str | None:
    """The id of a file's content; None where there is none."""
    try:
        with open(path, "rb") as f:
            return oid_of("blob", f.read()).hex()
    except OSError:
        return None


def look(
    log: Writable, state: RunState, workspace: Workspace, handle: str, tools: Mapping[str, Tool] | None = None
) -> list[Stale]:
    """The observations of a run that hold no more, or are past their time, oldest first.

    Those of tools that declare `recheck` are asked about where there are `tools`. Never raises for what a tool does.
    """
    now = datetime.now(UTC)
    found = [*_aged(log, state, tools or {}, now), *_changed(log, state, workspace, handle, now)]
    return sorted(found, key=lambda one: -one.age_s)


def _aged(log: Writable, state: RunState, tools: Mapping[str, Tool], now: datetime) -> Iterator[Stale]:
    for seq in state.watched.values():
        event = log.at([seq])[0].event
        call, at = state.call(getattr(event, "key", "")), moment(event.at)
        if not isinstance(event, ToolCallCompleted) or call is None or at is None:
            continue
        age = (now - at).total_seconds()
        tool = tools.get(call.tool)
        good_for = _least(event.fresh_for_s, tool.fresh_for.total_seconds() if tool and tool.fresh_for else None)
        past = good_for is not None and age > good_for
        if tool is not None and tool.recheck is not None and (past or good_for is None):
            why = _checked_again(log, tool, call, age)
        else:
            why = f"is {age:.0f} s old and was good for {good_for:.0f} s" if past and good_for is not None else ""
        if why:
            yield Stale(call.tool, call.key, age, why)


def _least(a: float | None, b: float | None) -> float | None:
    return min((one for one in (a, b) if one is not None), default=None)


def _checked_again(log: Writable, tool: Tool, call: Call, age: float) -> str:
    """Why what a tool once said holds no more; empty where it still does."""
    assert tool.recheck is not None
    started, ended = (_loaded(log, seq) for seq in (call.started, call.ended))
    arguments = getattr(started, "arguments", ABSENT) if isinstance(started, ToolCallStarted) else ABSENT
    result = getattr(ended, "result", ABSENT) if isinstance(ended, ToolCallCompleted) else ABSENT
    if arguments is ABSENT or result is ABSENT:
        return f"is {age:.0f} s old, and cannot be checked again: it was redacted"
    try:
        holds = tool.recheck(canon.thaw(arguments), canon.thaw(result))
        if inspect.iscoroutine(holds):
            import asyncio

            holds = asyncio.run(holds)
    except Exception as e:
        return f"is {age:.0f} s old, and could not be checked again: {type(e).__name__}: {e}"
    return "" if holds else f"is {age:.0f} s old, and was checked again: it holds no more"


def _loaded(log: Writable, seq: int) -> AnyEvent | None:
    try:
        return log.at([seq])[0].load(log.fetch) if seq else None
    except (CheckpointerError, KeyError):
        return None


def _changed(log: Writable, state: RunState, workspace: Workspace, handle: str, now: datetime) -> Iterator[Stale]:
    """Files that hold something else than when a tool last read them, and that the run did not write itself."""
    newest: dict[bytes, tuple[ToolCallCompleted, str | None]] = {}
    for seq in state.readings:
        event = _loaded(log, seq)
        if not isinstance(event, ToolCallCompleted) or not isinstance(event.observed, tuple | list):
            continue
        for one in event.observed:
            newest[from_json(one["path"])] = (event, one["blob"])
    for path, (event, blob) in newest.items():
        present = _content(os.path.join(workspace.root, path))
        call, at = state.call(event.key), moment(event.at)
        if present == blob or call is None or at is None:
            continue
        if present in _own(workspace, handle, path, event):
            continue
        age = (now - at).total_seconds()
        what = "is gone" if present is None else "was not there" if blob is None else "has changed"
        yield Stale(call.tool, call.key, age, f"{what}: {call.tool} read it {age:.0f} s ago", show(path))


def _own(workspace: Workspace, handle: str, path: bytes, since: ToolCallCompleted) -> set[str | None]:
    """What the run itself made of a file after it was read."""
    number = since.commit.number if since.commit is not None and since.commit.number is not None else 0
    found: set[str | None] = set()
    for checkpoint in workspace.store.checkpoints():
        if checkpoint.number > number and handle in checkpoint.meta.runs and checkpoint.meta.steps:
            entry = workspace.store.tree(checkpoint).entry(path)
            found.add(entry.oid.hex() if entry is not None and entry.kind == "file" else None)
    return found
