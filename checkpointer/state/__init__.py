"""`RunState`, `apply`, `fold`: what a run's events come to.

Two rules. Only `apply` makes one state out of another, so that a live run and its replay pass through the same ones.
And an illegal event is refused before anything changes: whoever appends asks `apply` first. `tables` says which event
may follow which. The fold reads facts only, so that a purge of contents changes no state.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from typing import Any, Final, assert_never

from checkpointer import events as E
from checkpointer.errors import IllegalEvent
from checkpointer.state import calls, contexts
from checkpointer.state.parts import (
    Approval,
    Call,
    Compaction,
    Doubt,
    Message,
    Place,
    Resumption,
    RunState,
    Step,
    Waiting,
    grown,
)
from checkpointer.state.tables import CALL, EDITION, RUN, CallStatus, RunStatus

EMPTY: Final = RunState()
_RUN_GROUP: Final = frozenset(("run_started", "run_resumed", "run_released", "run_finished", "log_redacted"))


def apply(state: RunState, event: E.AnyEvent) -> RunState:
    """The state after one more event. Raises `IllegalEvent`, and then nothing has changed."""
    if event.seq != state.seq + 1:
        raise IllegalEvent(f"event {state.seq + 1} is next, not {event.seq}")
    status = RUN.get((state.status, event.type)) or (
        RUN.get((state.status, "*")) if event.type not in _RUN_GROUP or event.type == "log_redacted" else None
    )
    if status is None:
        raise IllegalEvent(f"the run is {state.status}: {event.type} cannot follow", status=state.status)
    claims = event.type in ("run_started", "run_resumed")
    if event.epoch != state.epoch + claims:
        raise IllegalEvent(f"the log is in epoch {state.epoch}, the event in {event.epoch}")
    changes = _changes(state, event)
    changes["seq"] = event.seq
    changes["at"] = event.at
    if status != state.status:
        changes["status"] = status
    if event.commit is not None:
        changes["commit"] = event.commit
        changes["unprotected"] = None
    elif event.unprotected is not None:
        changes["unprotected"] = event.unprotected
    return grown(state, changes)


def fold(events: Iterable[E.AnyEvent], state: RunState = EMPTY) -> RunState:
    """The state after all of `events`, which follow `state`. Raises `IllegalEvent`."""
    for event in events:
        state = apply(state, event)
    return state


def _changes(state: RunState, event: E.AnyEvent) -> dict[str, Any]:
    match event:
        case E.ToolCallStarted():
            return calls.started(state, event)
        case E.ToolCallCompleted():
            return calls.completed(state, event)
        case E.ModelTurn():
            return contexts.model_turn(state, event)
        case E.UserMessage():
            return contexts.user_message(state, event)
        case E.ToolCallUncertain():
            return calls.uncertain(state, event)
        case E.ToolCallReconciled():
            return calls.reconciled(state, event)
        case E.ApprovalRequested():
            return calls.requested(state, event)
        case E.ApprovalDecided():
            return calls.decided(state, event)
        case E.ContextCompacted():
            return contexts.compacted(state, event)
        case E.ContextRewound():
            return contexts.rewound(state, event)
        case E.WorkspaceChanged():
            return {} if event.turn is None else {"turn": event.turn}
        case E.RunStarted():
            return _started(state, event)
        case E.RunResumed():
            return _resumed(state, event)
        case E.RunReleased():
            return {"released": event.how}
        case E.RunFinished():
            return {"outcome": event.outcome}
        case E.LogRedacted() | E.MemoryWritten() | E.GuardrailTriggered():
            return {}  # record-only: projections beside the fold read them
        case _:
            assert_never(event)


def _owned(event: E.RunStarted | E.RunResumed) -> dict[str, Any]:
    return {
        "epoch": event.epoch,
        "owner": event.owner,
        "writer": event.writer,
        "fold": event.fold,
        "tools": event.tools,
        "prompt": event.prompt,
        "ttl_ms": event.ttl_ms,
        "durability": event.durability.kind,
        "claimed_at": event.at,
        "released": None,
    }


def _started(state: RunState, event: E.RunStarted) -> dict[str, Any]:
    changes = _owned(event)
    changes.update(
        run=event.run,
        number=event.number,
        tenant=event.tenant,
        operation=event.operation or event.run,
        mode=event.mode,
        on_uncertain=event.on_uncertain,
        agent=event.agent,
        session=event.session,
        at=event.at,
    )
    calls.carry(state, event.carried, changes)
    return changes


def _resumed(state: RunState, event: E.RunResumed) -> dict[str, Any]:
    if event.previous_epoch != state.epoch or (event.after == "released") != (state.status == "released"):
        raise IllegalEvent(f"the run is {state.status} in epoch {state.epoch}: not what this resumes")
    changes = _owned(event)
    changes["agent"] = event.agent or state.agent
    changes["session"] = event.session or state.session
    changes["resumptions"] = state.resumptions.add(Resumption(event.seq, event.epoch, event.after, event.at))
    return changes


@cache
def version() -> str:
    """A digest of all that decides what a log folds to: the schema of every event, the tables, the edition."""
    lines = [f"edition {EDITION}"]
    lines += [f"{table}" for table in (sorted(RUN.items()), sorted(CALL.items()))]
    for name, cls in sorted(E.TYPES.items()):
        fields = (f"{field}:{info.annotation!r}={info.default!r}" for field, info in cls.model_fields.items())
        lines.append(f"{name} {cls.version} {' '.join(fields)}")
    lines.append(repr([(n, f.type) for n, f in RunState.__dataclass_fields__.items()]))
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


__all__ = [
    "CALL",
    "EMPTY",
    "RUN",
    "Approval",
    "Call",
    "CallStatus",
    "Compaction",
    "Doubt",
    "Message",
    "Place",
    "Resumption",
    "RunState",
    "RunStatus",
    "Step",
    "Waiting",
    "apply",
    "fold",
    "version",
]
