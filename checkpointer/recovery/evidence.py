"""Evidence on a call that was cut off: its start, its owner's fate, its processes, late letters, the files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from checkpointer import lease, machine, redaction
from checkpointer.errors import CheckpointerError
from checkpointer.events import (
    ABSENT,
    AnyEvent,
    Holder,
    ModelTurn,
    RunResumed,
    RunStarted,
    Terms,
    ToolCallCompleted,
    ToolCallStarted,
    ToolCallUncertain,
    UserMessage,
)
from checkpointer.log import Pen, open_letter
from checkpointer.machine import moment
from checkpointer.recovery import processes
from checkpointer.recovery.case import Case, Choice, Files, OwnerFate
from checkpointer.state import Call, RunState
from checkpointer.tools import Tool, broader, riskier, stricter
from checkpointer.workspace.checkpoint import OPERATIONS
from checkpointer.workspace.entry import show
from checkpointer.workspace.reading.present import Present
from checkpointer.workspace.trees.tree import diff
from checkpointer.workspace.workspace import Workspace

INTERRUPTED: Final = "interrupted"
"""Why a model turn stopped that a person broke off."""
GRAIN: Final = timedelta(seconds=1)
"""File times may be older than the clock by this much."""


@dataclass(frozen=True)
class Start:
    """The newest start of a call. `event` is None where another run's log holds it.

    `fate` is that of its owner, `last` when that was last heard of, `ttl` the lease it held.
    """

    event: ToolCallStarted | None
    fate: OwnerFate
    dead: bool
    owner: Holder | None
    last: datetime | None
    ttl: timedelta

    @property
    def step(self) -> str:
        """`t3.2`, or nothing."""
        e = self.event
        return f"t{e.turn}.{e.step}" if e is not None and e.turn is not None and e.step is not None else ""


def start_of(pen: Pen, call: Call) -> Start:
    """Read the start of a call, and what became of the process that wrote it."""
    ttl = timedelta(milliseconds=pen.state.ttl_ms)
    if not call.started:
        return Start(None, "unknown", False, None, None, ttl)
    record = pen.log.at([call.started])[0]
    try:
        event = record.load(pen.log.fetch)
    except CheckpointerError:  # its arguments are lost: what is known is still true
        event = record.event
    assert isinstance(event, ToolCallStarted)
    if event.epoch == pen.epoch:
        return Start(event, "ours", False, pen.state.owner, None, ttl)
    ttl = _lease_of(pen, event.epoch)
    after = next((r for r in pen.state.resumptions if r.epoch == event.epoch + 1), None)
    if after is None:
        return Start(event, "unknown", False, None, None, ttl)
    claim = pen.log.at([after.seq])[0].event
    assert isinstance(claim, RunResumed)
    last = moment(claim.last_at)
    lives = _lives(claim.previous)
    if claim.after == "crash" or lives == "dead":
        return Start(event, "dead", True, claim.previous, last, ttl)
    fate: OwnerFate = "released" if claim.after == "released" else lives
    return Start(event, fate, False, claim.previous, last, ttl)


def _lease_of(pen: Pen, epoch: int) -> timedelta:
    """How long the owner of an epoch might be silent."""
    seq = next((r.seq for r in pen.state.resumptions if r.epoch == epoch), 1)
    claim = pen.log.at([seq])[0].event
    return timedelta(milliseconds=claim.ttl_ms if isinstance(claim, RunStarted | RunResumed) else 0)


def _lives(owner: Holder | None) -> lease.Liveness:
    return "unknown" if owner is None else lease.liveness(owner, machine.holder(), machine.started(owner.pid))


def case_of(pen: Pen, call: Call, start: Start, tool: Tool | None, workspace: Workspace | None, choice: Choice) -> Case:
    """All that can be known without asking a receiver. `workspace` is looked at for calls whose effect is on it."""
    state, recorded = pen.state, call.newest.terms if call.newest is not None else None
    doubt = state.doubts.get(call.key)
    effect = broader(call.effect, tool.effect) if tool is not None else call.effect
    arguments = start.event.arguments if start.event is not None else ABSENT
    own = start.event.process if start.event is not None else None
    begun = moment(start.event.at) if start.event is not None else None
    observed, looks = state.mode == "observed", effect == "workspace"
    return Case(
        tool=call.tool,
        effect=effect,
        key=call.sent_key,
        risk=riskier(call.risk, tool.risk) if tool is not None else call.risk,
        terms=stricter(recorded, tool) if tool is not None else _without_tool(recorded),
        known=tool is not None,
        now=datetime.now(UTC),
        first_at=moment(call.newest.first_at) if call.newest is not None else None,
        at=moment(call.newest.at) if call.newest is not None else None,
        clock=max(filter(None, (moment(state.at), start.last)), default=None),
        owner=start.fate,
        dead=start.dead,
        processes=processes.living(call.key, own, start.owner, begun) if call.started and effect != "read" else (),
        reason=doubt.reason if doubt is not None else "crash",
        error=_error(pen, state, call),
        arguments=ABSENT if redaction.marked(arguments) else arguments,
        effect_fields=tool.effect_fields if tool is not None else (),
        children=children(state, call.key),
        late=late_letter(pen, call),
        files=files_of(pen, call, start, workspace) if workspace is not None and (looks or observed) else None,
        compensates=call.newest.compensates if call.newest is not None else None,
        carried=call.origin if not call.started else None,
        choice=choice,
        observed=observed,
        went_on=observed and went_on(pen, start),
        earlier=doubt is not None and doubt.earlier,
        refused=_refused(state, call),
    )


def _refused(state: RunState, call: Call) -> bool:
    """Was the next attempt of a call denied?"""
    asked = state.approvals.get(call.key)
    return asked is not None and (asked.status, asked.attempt) == ("denied", call.attempt + 1)


def went_on(pen: Pen, start: Start) -> bool:
    """Did the agent say anything under the same epoch after it had begun this call? That it was interrupted is no word
    of its own.
    """
    if start.event is None:
        return False
    since = start.event
    said = (r for r in pen.log.read() if r.seq > since.seq and r.event.epoch == since.epoch)
    return any(_is_word(r.event) for r in said)


def _is_word(event: AnyEvent) -> bool:
    return isinstance(event, UserMessage) or (isinstance(event, ModelTurn) and event.stop != INTERRUPTED)


def _without_tool(recorded: Terms | None) -> Terms:
    return (recorded or Terms(policy="person")).model_copy(update={"offers": ()})


def _error(pen: Pen, state: RunState, call: Call) -> Any:
    """The last transport error, as its event has it."""
    doubt = state.doubts.get(call.key)
    if doubt is None or call.started == 0:
        return None
    with contextlib.suppress(CheckpointerError, KeyError):
        event = pen.log.at([doubt.seq])[0].load(pen.log.fetch)
        if isinstance(event, ToolCallUncertain) and event.detail not in (None, ABSENT):
            return event.detail
    return None


def children(state: RunState, key: str) -> tuple[str, ...]:
    """The calls made by this one that are not over."""
    return tuple(
        c.key
        for c in state.live.values()
        if c.newest is not None and c.newest.parent == key and c.status in ("open", "uncertain")
    )


def late_letter(pen: Pen, call: Call) -> ToolCallCompleted | None:
    """A completion of this very attempt, by the tool itself, that came after its owner had lost the run."""
    for event_id, line in pen.log.letters("late"):
        try:
            event = open_letter(line)
        except ValueError:
            continue
        if not isinstance(event, ToolCallCompleted) or event.source != "tool" or event.effect == "partial":
            continue
        if (event.key, event.attempt) == (call.key, call.attempt) and event.result is not ABSENT:
            return event.model_copy(update={"id": event_id})
    return None


def files_of(pen: Pen, call: Call, start: Start, workspace: Workspace) -> Files:
    """The files now against those at the call's start."""
    commit = call.newest.commit if call.newest is not None else None
    if commit is None or commit.number is None or not commit.captured:
        return Files(False, why="they were in no checkpoint when it started")
    try:
        checkpoint = workspace.store.by_number(commit.number)
        if checkpoint.id != commit.id:
            return Files(True, None, f"checkpoint {commit.number} is another one now", start=commit.number)
        present = workspace.look()
        changed = diff(workspace.store.tree(checkpoint), present.tree)
    except CheckpointerError as e:
        return Files(True, None, e.message, start=commit.number)
    if present.torn:
        names = ", ".join(show(p) for p in sorted(present.torn)[:5])
        return Files(True, None, f"something still writes: {names}", start=commit.number)
    if not changed:
        return Files(True, True, start=commit.number)
    paths = sorted(changed)
    why = _shared(pen.state, call, start, workspace, commit.number) or _foreign(pen.state, call, start, present, paths)
    return Files(
        True, False, differing=tuple(show(p) for p in paths), explained=not why, unexplained=why, start=commit.number
    )


def _shared(state: RunState, call: Call, start: Start, workspace: Workspace, number: int) -> str:
    """Why others' work may be among what differs, as far as log and timeline tell."""
    for other in (*state.live.values(), *state.over.values()):
        if other.key == call.key or other.status in ("accepted", "denied"):
            continue
        nested = other.newest is not None and other.newest.parent == call.key
        if other.ended > call.started or other.started > call.started or nested:
            return f"{other.tool} ran at the same time, or later"
    for checkpoint in workspace.store.checkpoints():
        if checkpoint.number > number and checkpoint.kind in OPERATIONS:
            return f"there was a {checkpoint.kind} since (checkpoint {checkpoint.number})"
        others = [step for step in checkpoint.meta.steps if step != start.step]
        if checkpoint.number > number and checkpoint.kind != "crash" and others:
            return f"{', '.join(others)} changed files since"
    return ""


def _foreign(state: RunState, call: Call, start: Start, present: Present, paths: Iterable[bytes]) -> str:
    """Why somebody else may have changed these files; empty where only the call can have."""
    doubt = state.doubts.get(call.key)
    if doubt is not None and doubt.reason in ("exception", "timeout", "partial"):
        return "its tool said that it went wrong halfway"
    terms = call.newest.terms if call.newest is not None else None
    if terms is not None and terms.exclusive:
        return ""
    if start.last is None:
        return "it is not known when its owner was last alive"
    until = start.last + start.ttl
    if datetime.now(UTC) < start.last:
        return "the clock was set back since"
    for path in paths:
        changed = _changed_at(present, path)
        if changed is None or changed > until:
            return f"{show(path)} changed after its owner was last heard of"
    return ""


def _changed_at(present: Present, path: bytes) -> datetime | None:
    """When a path last changed; of one that is gone, when a name last left its directory."""
    seen = present.signature(path)
    while seen is None and path:
        path = os.path.dirname(path)
        seen = present.signature(path)
    return None if seen is None else datetime.fromtimestamp(seen.ctime_ns / 1e9, UTC) - GRAIN
