"""`RunState`, `apply`, `fold`: what a run's events come to.

Two rules. Only `apply` makes one state out of another, so that a live run and its replay pass through the same ones.
And an illegal event is refused before anything changes: whoever appends asks `apply` first. `tables` says which event
may follow which. The fold reads facts only, so that a purge of contents changes no state.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from typing import Final, assert_never, get_args

from checkpointer import events as E
from checkpointer.errors import IllegalEvent
from checkpointer.state import calls, contexts
from checkpointer.state.draft import Draft
from checkpointer.state.parts import (
    Approval,
    Attempt,
    Call,
    Compaction,
    Doubt,
    Message,
    Place,
    Resumption,
    RunState,
    Step,
    Waiting,
)
from checkpointer.state.tables import AGAIN, CALL, EDITION, RUN, CallStatus, RunStatus

EMPTY: Final = RunState()
_CLAIMS: Final = frozenset(("run_started", "run_resumed"))


def _next(status: str) -> dict[str, RunStatus]:
    """What each type leads to, as `RUN` says; `*` there stands for the types that it does not name."""
    named = {name for _, name in RUN}
    return {
        name: after
        for name in E.TYPES
        if (after := RUN.get((status, name)) or (RUN.get((status, "*")) if name not in named else None)) is not None
    }


_NEXT: Final = {status: _next(status) for status in get_args(RunStatus)}


def apply(state: RunState, event: E.AnyEvent) -> RunState:
    """The state after one more event. Raises `IllegalEvent`, and then nothing has changed."""
    return fold((event,), state)


def fold(events: Iterable[E.AnyEvent], state: RunState = EMPTY) -> RunState:
    """The state after all of `events`, which follow `state`. Raises `IllegalEvent`, whose `seq` is the refused one."""
    draft = Draft(state)
    for event in events:
        try:
            _take(draft, event)
        except IllegalEvent as e:
            e.details.setdefault("seq", event.seq)
            raise
    return draft.freeze()


def _take(draft: Draft, event: E.AnyEvent) -> None:
    if event.seq != draft.seq + 1:
        raise IllegalEvent(f"event {draft.seq + 1} is next, not {event.seq}")
    status = _NEXT[draft.status].get(event.type)
    if status is None:
        raise IllegalEvent(f"the run is {draft.status}: {event.type} cannot follow", status=draft.status)
    if event.epoch != draft.epoch + (event.type in _CLAIMS):
        raise IllegalEvent(f"the log is in epoch {draft.epoch}, the event in {event.epoch}")
    _change(draft, event)
    draft.seq = event.seq
    draft.at = event.at
    draft.status = status
    if event.commit is not None:
        draft.commit = event.commit
        draft.unprotected = None
    elif event.unprotected is not None:
        draft.unprotected = event.unprotected


def _change(draft: Draft, event: E.AnyEvent) -> None:
    match event:
        case E.ToolCallStarted():
            calls.started(draft, event)
        case E.ToolCallCompleted():
            calls.completed(draft, event)
        case E.ModelTurn():
            contexts.model_turn(draft, event)
        case E.UserMessage():
            contexts.user_message(draft, event)
        case E.ToolCallUncertain():
            calls.uncertain(draft, event)
        case E.ToolCallReconciled():
            calls.reconciled(draft, event)
        case E.ApprovalRequested():
            calls.requested(draft, event)
        case E.ApprovalDecided():
            calls.decided(draft, event)
        case E.ContextCompacted():
            contexts.compacted(draft, event)
        case E.ContextRewound():
            contexts.rewound(draft, event)
        case E.WorkspaceChanged():
            draft.turn = event.turn or draft.turn
        case E.RunStarted():
            _started(draft, event)
        case E.RunResumed():
            _resumed(draft, event)
        case E.RunReleased():
            draft.rest["released"] = event.how
        case E.RunFinished():
            _finished(draft, event)
        case E.LogRedacted() | E.MemoryWritten() | E.GuardrailTriggered():
            pass  # record-only: projections beside the fold read them
        case _:
            assert_never(event)


def _owned(draft: Draft, event: E.RunStarted | E.RunResumed) -> None:
    draft.epoch = event.epoch
    draft.rest.update(
        owner=event.owner,
        writer=event.writer,
        fold=event.fold,
        tools=event.tools,
        prompt=event.prompt,
        ttl_ms=event.ttl_ms,
        durability=event.durability.kind,
        claimed_at=event.at,
        released=None,
        agent=event.agent or draft.rest["agent"],
        session=event.session or draft.rest["session"],
    )


def _started(draft: Draft, event: E.RunStarted) -> None:
    _owned(draft, event)
    draft.rest.update(
        run=event.run,
        number=event.number,
        tenant=event.tenant,
        operation=event.operation or event.run,
        mode=event.mode,
        on_uncertain=event.on_uncertain,
    )
    draft.at = event.at
    calls.carry(draft, event.carried)


def _resumed(draft: Draft, event: E.RunResumed) -> None:
    if event.previous_epoch != draft.epoch or (event.after == "released") != (draft.status == "released"):
        raise IllegalEvent(f"the run is {draft.status} in epoch {draft.epoch}: not what this resumes")
    _owned(draft, event)
    resumption = Resumption(event.seq, event.epoch, event.after, event.at)
    draft.rest["resumptions"] = (*draft.rest["resumptions"], resumption)


def _finished(draft: Draft, event: E.RunFinished) -> None:
    unclear = [c.key for c in draft.live.values() if c.status != "accepted" or c.key in draft.doubts]
    if unclear:
        raise IllegalEvent("a run is not over while the outcome of a call is open", keys=unclear)
    draft.rest["outcome"] = event.outcome


@cache
def version() -> str:
    """A digest of all that decides what a log folds to: the schema of every event, the tables, the edition."""
    lines = [f"edition {EDITION}"]
    lines += [f"{table}" for table in (sorted(RUN.items()), sorted(CALL.items()), sorted(AGAIN.items()))]
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
    "Attempt",
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
