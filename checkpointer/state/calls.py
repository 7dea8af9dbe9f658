"""What an event does to calls, approvals and the queue. Each function gives the fields that change, or refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from checkpointer.canon import FrozenDict
from checkpointer.errors import IllegalEvent
from checkpointer.events import (
    MAIN,
    AcceptedCall,
    ApprovalDecided,
    ApprovalRequested,
    CarriedCall,
    ModelTurn,
    ToolCallCompleted,
    ToolCallReconciled,
    ToolCallStarted,
    ToolCallUncertain,
    Trust,
    TurnSlot,
)
from checkpointer.state.parts import Approval, Call, Doubt, Message, Place, RunState, Step, Waiting
from checkpointer.state.tables import CALL, LIVE, CallStatus
from checkpointer.trail import Ledger

Changes = dict[str, Any]


def _move(call: Call | None, move: str, key: str) -> CallStatus:
    status = "new" if call is None else call.status
    try:
        return CALL[status, move]
    except KeyError:
        raise IllegalEvent(f"call {key} is {status}: {move} cannot follow", key=key, status=status) from None


def _known(state: RunState, key: str) -> Call:
    call: Call | None = state.calls.get(key)
    if call is None:
        raise IllegalEvent(f"no call {key} is known", key=key, status="new")
    return call


def _attempt(call: Call, attempt: int) -> None:
    if attempt != call.attempt:
        raise IllegalEvent(f"call {call.key} is at attempt {call.attempt}, not {attempt}", key=call.key)


def _with(entries: Mapping[Any, Any], key: Any, value: Any) -> FrozenDict[Any, Any]:
    return FrozenDict({**entries, key: value})


def _without(entries: Mapping[Any, Any], *keys: Any) -> FrozenDict[Any, Any]:
    return FrozenDict({k: v for k, v in entries.items() if k not in keys})


def _keep(state: RunState, changes: Changes, call: Call) -> None:
    """Put a call in place, among the live ones if it is not over."""
    changes["calls"] = changes.get("calls", state.calls).put(call.key, call)
    live: Mapping[str, None] = changes.get("live", state.live)
    if (call.status in LIVE) != (call.key in live):
        changes["live"] = _with(live, call.key, None) if call.status in LIVE else _without(live, call.key)


def name(state: RunState, slot: str, seq: int, key: str | None) -> Ledger[str, tuple[int, str | None]]:
    """The named slots with this one filled; a name is filled once."""
    if slot in state.named:
        raise IllegalEvent(f"the slot {slot!r} was filled by event {state.named[slot][0]}")
    return state.named.put(slot, (seq, key))


def accept(state: RunState, e: ModelTurn, context: str, changes: Changes) -> None:
    """The calls of a model turn take their slots. One that joins a call which is over is answered at once."""
    waiting = dict(state.waiting)
    answers: list[Message] = []
    for index, asked in enumerate(e.calls):
        slot = Place(e.seq, index)
        known: Call | None = changes.get("calls", state.calls).get(asked.key)
        if asked.joined != (known is not None):
            raise IllegalEvent(f"call {asked.key} {'joins none' if asked.joined else 'is known already'}")
        if known is None:
            call = _accepted(state, changes, asked, slot, context)
        else:
            call = known._replace(status=_move(known, "join", asked.key))
        _keep(state, changes, call)
        if call.status in LIVE:
            waiting[slot] = Waiting(asked.key, context)
        else:
            answers.append(Message(e.seq, "tool", call.trust, call.ended, call.key, slot))
    changes["waiting"] = FrozenDict(waiting)
    if answers:
        trail = changes["messages"][context]
        for answer in answers:
            trail = trail.add(answer)
        changes["messages"] = _with(changes["messages"], context, trail)


def _accepted(state: RunState, changes: Changes, asked: AcceptedCall, slot: Place, context: str) -> Call:
    if asked.signature is not None:
        _occurs(state, changes, asked.signature, asked.occurrence, asked.key)
    return Call(
        asked.key, asked.tool, asked.effect, "accepted", context, asked.risk, asked.signature, asked.occurrence,
        asked.args_digest, slot, accepted=slot.seq,
    )  # fmt: skip


def _occurs(state: RunState, changes: Changes, signature: str, occurrence: int, key: str) -> None:
    """Occurrences of a signature are counted from 1, without gaps."""
    signatures = changes.get("signatures", state.signatures)
    newest = signatures.get(signature)
    due = 1 if newest is None else changes.get("calls", state.calls)[newest].occurrence + 1
    if occurrence != due:
        raise IllegalEvent(f"call {key} says that it is occurrence {occurrence}, but {due} is next", key=key)
    changes["signatures"] = signatures.put(signature, key)


def carry(state: RunState, carried: Iterable[CarriedCall], changes: Changes) -> None:
    """The calls of other runs that this one begins with."""
    for c in carried:
        status: CallStatus = "uncertain" if c.status == "uncertain" else "completed"
        call = Call(
            c.key, c.tool, c.effect, status, MAIN, signature=c.signature, occurrence=c.occurrence,
            attempt=1, origin=(c.run, c.seq), source=c.status,
        )  # fmt: skip
        if c.signature is not None:
            changes["signatures"] = changes.get("signatures", state.signatures).put(c.signature, c.key)
        if status == "uncertain":
            doubt = Doubt(c.key, None, c.seq, changes["at"], "carried")
            changes["doubts"] = _with(changes.get("doubts", state.doubts), c.key, doubt)
        _keep(state, changes, call)


def started(state: RunState, e: ToolCallStarted) -> Changes:
    call: Call | None = state.calls.get(e.key)
    status = _move(call, "start", e.key)
    approval = state.approvals.get(e.key)
    if approval is not None and (approval.status, approval.attempt) != ("approved", e.attempt):
        raise IllegalEvent(f"attempt {e.attempt} of call {e.key} is not approved", key=e.key, status=approval.status)
    changes: Changes = {}
    slot = Place(e.slot.seq, e.slot.index) if isinstance(e.slot, TurnSlot) else e.slot
    if call is None:
        if e.signature is not None:
            _occurs(state, changes, e.signature, e.occurrence, e.key)
        if isinstance(slot, str):
            changes["named"] = name(state, slot, e.seq, e.key)
        call = Call(e.key, e.tool, e.effect, status, e.context or MAIN, signature=e.signature, slot=slot)
    else:
        slot = call.slot
    if (e.tool, e.attempt) != (call.tool, call.attempt + 1):
        raise IllegalEvent(f"attempt {call.attempt + 1} of {call.tool} is next for call {e.key}", key=e.key)
    renewed = call.proven and call.after_failure == "new_key"
    if e.generation != call.generation + renewed:
        raise IllegalEvent(f"call {e.key} goes on under generation {call.generation + renewed}", key=e.key)
    call = Call(
        e.key, e.tool, e.effect, status, call.context, e.risk, call.signature, call.occurrence if call.accepted
        else e.occurrence, e.args_digest or call.args_digest, slot, call.accepted, e.seq, 0, e.attempt, e.generation,
        call.first_at if call.first_at and not renewed else e.at, e.at, e.commit, e.keys_kept_s, e.deadline_s,
        e.recovery_s, e.after_failure, e.exclusive, parent=e.parent, compensates=e.compensates, origin=call.origin,
    )  # fmt: skip
    _keep(state, changes, call)
    changes["trajectory"] = state.trajectory.add(Step(e.seq, e.key, e.tool, e.attempt, e.turn, e.step))
    return changes


def completed(state: RunState, e: ToolCallCompleted) -> Changes:
    call = _known(state, e.key)
    _attempt(call, e.attempt)
    if e.again and e.effect != "none":
        raise IllegalEvent("only a proven failure is tried again", key=e.key)
    if e.effect == "partial" and e.source == "tool" and call.effect == "external":
        raise IllegalEvent("an external call that went halfway is uncertain until it is settled", key=e.key)
    status = _move(call, "again" if e.again else e.effect, e.key)
    changes: Changes = {}
    over = call._replace(
        status=status, ended=0 if e.again else e.seq, outcome=e.effect, source=e.source, trust=e.trust,
        proven=e.effect == "none",
    )  # fmt: skip
    _keep(state, changes, over)
    if not e.again:
        _close(state, changes, e.key, e.seq, e.trust)
    return changes


def _close(state: RunState, changes: Changes, key: str, seq: int, trust: Trust) -> None:
    """A call is over: it leaves the queue, and every slot that waits for it gets its answer."""
    if key in state.doubts:
        changes["doubts"] = _without(state.doubts, key)
    if key in state.approvals:
        changes["approvals"] = _without(state.approvals, key)
    _answer(state, changes, key, seq, trust)


def _answer(state: RunState, changes: Changes, key: str, seq: int, trust: Trust) -> None:
    slots = [(slot, w.context) for slot, w in state.waiting.items() if w.key == key]
    if not slots:
        return
    messages = dict(state.messages)
    for slot, context in slots:
        messages[context] = messages[context].add(Message(seq, "tool", trust, seq, key, slot))
    changes["messages"] = FrozenDict(messages)
    changes["waiting"] = _without(state.waiting, *(slot for slot, _ in slots))


def uncertain(state: RunState, e: ToolCallUncertain) -> Changes:
    call = _known(state, e.key)
    _attempt(call, e.attempt)
    changes: Changes = {}
    _keep(state, changes, call._replace(status=_move(call, "uncertain", e.key)))
    changes["doubts"] = _with(state.doubts, e.key, Doubt(e.key, e.number, e.seq, e.at, e.reason))
    return changes


def reconciled(state: RunState, e: ToolCallReconciled) -> Changes:
    call = _known(state, e.key)
    _attempt(call, e.attempt)
    status = _move(call, e.verdict, e.key)
    changes: Changes = {}
    doubt = state.doubts.get(e.key)
    if e.verdict in ("abandon", "unreported"):
        _keep(state, changes, call._replace(status=status, ended=e.seq, outcome=e.verdict, source=e.by))
        _close(state, changes, e.key, e.seq, "trusted")
        return changes
    if status != call.status:
        _keep(state, changes, call._replace(status=status))
    if e.verdict == "retry":
        changes["doubts"] = _without(state.doubts, e.key)
    elif doubt is not None:
        escalated = doubt.escalated or e.verdict == "escalate"
        told = doubt.told or e.verdict == "tell"
        newer = doubt._replace(tries=doubt.tries + 1, escalated=escalated, told=told)
        changes["doubts"] = _with(state.doubts, e.key, newer)
        if e.verdict == "tell":
            _answer(state, changes, e.key, e.seq, "trusted")
    return changes


def requested(state: RunState, e: ApprovalRequested) -> Changes:
    call = state.calls.get(e.key)
    if call is not None and call.status != "accepted":
        raise IllegalEvent(f"call {e.key} is {call.status}: there is nothing to approve", key=e.key)
    if e.attempt != (call.attempt if call else 0) + 1:
        raise IllegalEvent(f"attempt {e.attempt} of call {e.key} is not the next", key=e.key)
    asked = state.approvals.get(e.key)
    if asked is not None and asked.attempt == e.attempt and asked.status != "expired":
        raise IllegalEvent(f"attempt {e.attempt} of call {e.key} has been asked about: {asked.status}", key=e.key)
    approval = Approval(e.key, e.attempt, e.args_digest, "pending", e.seq, e.at, e.expires_at)
    return {"approvals": _with(state.approvals, e.key, approval)}


def decided(state: RunState, e: ApprovalDecided) -> Changes:
    call: Call | None = state.calls.get(e.key)
    asked = state.approvals.get(e.key)
    if asked is None and e.decided_by != "policy":
        raise IllegalEvent(f"nobody asked about call {e.key}", key=e.key)
    if asked is not None and (asked.status, asked.attempt, asked.args_digest) != ("pending", e.attempt, e.args_digest):
        raise IllegalEvent(f"what is decided is not what was asked about call {e.key}", key=e.key)
    if e.attempt != (call.attempt if call else 0) + 1 or (call is not None and call.status != "accepted"):
        raise IllegalEvent(f"attempt {e.attempt} of call {e.key} is not what comes next", key=e.key)
    approval = Approval(e.key, e.attempt, e.args_digest, e.decision, e.seq, e.at, e.expires_at)
    changes: Changes = {"approvals": _with(state.approvals, e.key, approval)}
    if e.decision == "denied" and call is not None:
        denied = call._replace(status=_move(call, "deny", e.key), ended=e.seq, outcome="denied", source=e.decided_by)
        _keep(state, changes, denied)
        _close(state, changes, e.key, e.seq, "trusted")
    return changes
