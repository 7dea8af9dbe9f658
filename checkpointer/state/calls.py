"""What an event does to calls, approvals and the queue: it changes the draft, or refuses."""

from __future__ import annotations

from collections.abc import Iterable

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
from checkpointer.state.draft import Draft, move
from checkpointer.state.parts import Approval, Attempt, Call, Doubt, Place, Waiting
from checkpointer.state.tables import AGAIN, LIVE, CallStatus

_new = tuple.__new__
"""Makes a `Call` of all its fields in their order, in half the time that its own way takes."""


def _at_attempt(draft: Draft, key: str, attempt: int) -> Call:
    """The call of a key, which must be at this attempt."""
    call = draft.call(key)
    if call is None:
        raise IllegalEvent(f"no call {key} is known", key=key, status="new")
    if attempt != call.attempt:
        raise IllegalEvent(f"call {key} is at attempt {call.attempt}, not {attempt}", key=key)
    return call


def _move(draft: Draft, call: Call, what: str) -> CallStatus:
    """Where a call goes that has begun once at least."""
    if call.status == "accepted" and call.key in draft.doubts and what in AGAIN:
        return AGAIN[what]
    return move(call, what, call.key)


def accept(draft: Draft, e: ModelTurn, context: str) -> None:
    """The calls of a model turn take their slots. One that joins a call which is over is answered at once."""
    for nth, asked in enumerate(e.calls):
        slot = (e.seq, nth)
        known = draft.call(asked.key)
        if asked.joined != (known is not None):
            raise IllegalEvent(f"call {asked.key} {'joins none' if asked.joined else 'is known already'}")
        if known is None:
            if asked.signature is not None:
                _occurs(draft, asked.signature, asked.occurrence, asked.key)
            call = _accepted(asked, slot, context)
        else:
            call = known._replace(status=move(known, "join", asked.key))
        if known is None or call.status != known.status:
            draft.keep(call)
        if call.status in LIVE:
            draft.waiting[slot] = Waiting(asked.key, context)
        else:
            draft.say(context, e.seq, "tool", call.trust, call.ended, call.key, slot)


def _accepted(asked: AcceptedCall, slot: Place, context: str) -> Call:
    return _new(Call, (
        asked.key, asked.tool, asked.effect, "accepted", context, slot, slot[0], 0, 0, 0, 0, "", "", "untrusted",
        False, asked.signature, asked.occurrence, asked.risk, asked.args_digest, None, None,
    ))  # fmt: skip


def _occurs(draft: Draft, signature: str, occurrence: int, key: str) -> None:
    """Occurrences of a signature are counted from 1, without gaps."""
    newest = draft.signatures.get(signature)
    known = None if newest is None else draft.call(newest)
    due = 1 if known is None else known.occurrence + 1
    if occurrence != due:
        raise IllegalEvent(f"call {key} says that it is occurrence {occurrence}, but {due} is next", key=key)
    draft.signatures.put(signature, key)


def carry(draft: Draft, carried: Iterable[CarriedCall]) -> None:
    """The calls of other runs that this one begins with."""
    for c in carried:
        if draft.call(c.key) is not None:
            raise IllegalEvent(f"call {c.key} is carried twice", key=c.key)
        status: CallStatus = "uncertain" if c.status == "uncertain" else "completed"
        call = Call(
            c.key, c.tool, c.effect, status, MAIN, signature=c.signature, occurrence=c.occurrence,
            attempt=1, origin=(c.run, c.seq), source=c.status, risk=c.risk or "normal",
        )  # fmt: skip
        draft.keep(call)
        if c.signature is not None:
            draft.signatures.put(c.signature, c.key)
        if status == "uncertain":
            draft.doubts[c.key] = Doubt(c.key, None, c.seq, draft.at, "carried")


def started(draft: Draft, e: ToolCallStarted) -> None:
    call = draft.call(e.key)
    status = move(call, "start", e.key)
    if call is None:
        call = _unasked(draft, e)
    approval = draft.approvals.get(e.key)
    if approval is not None and (approval.status, approval.attempt) != ("approved", e.attempt):
        raise IllegalEvent(f"attempt {e.attempt} of call {e.key} is not approved", key=e.key, status=approval.status)
    if e.attempt != call.attempt + 1 or e.tool != call.tool:
        raise IllegalEvent(f"attempt {call.attempt + 1} of {call.tool} is next for call {e.key}", key=e.key)
    before = call.newest
    renewed = call.proven and (before is None or before.terms is None or before.terms.after_failure == "new_key")
    if e.generation != call.generation + renewed:
        raise IllegalEvent(f"call {e.key} goes on under generation {call.generation + renewed}", key=e.key)
    first_at = e.at if renewed or before is None else before.first_at
    newest = Attempt(first_at, e.at, e.commit, e.terms, e.parent, e.compensates)
    draft.live[e.key] = _new(Call, (
        e.key, e.tool, e.effect, status, call.context, call.slot, call.accepted, e.seq, 0, e.attempt, e.generation,
        "", "", "untrusted", False, call.signature, call.occurrence, e.risk, e.args_digest or call.args_digest, newest,
        call.origin,
    ))  # fmt: skip
    draft.trajectory.append((e.seq, e.key, e.tool, e.attempt, e.turn, e.step))  # a Step


def _unasked(draft: Draft, e: ToolCallStarted) -> Call:
    """A call that no model turn accepted: it stands in a caller's slot, or was observed."""
    if isinstance(e.slot, TurnSlot):
        raise IllegalEvent(f"no model turn accepted call {e.key}", key=e.key)
    if e.signature is not None:
        _occurs(draft, e.signature, e.occurrence, e.key)
    if e.slot is not None:
        draft.name(e.slot, e.seq, e.key)
    return Call(
        e.key, e.tool, e.effect, "accepted", e.context or MAIN, e.slot, signature=e.signature, occurrence=e.occurrence
    )  # fmt: skip


def completed(draft: Draft, e: ToolCallCompleted) -> None:
    call = _at_attempt(draft, e.key, e.attempt)
    if e.again and e.effect != "none":
        raise IllegalEvent("only a proven failure is tried again", key=e.key)
    if e.effect == "partial" and e.source == "tool":
        raise IllegalEvent("a call that went halfway is uncertain until it is settled", key=e.key)
    status = _move(draft, call, "again" if e.again else e.effect)
    if e.effect != "none" and (e.fresh_for_s is not None or _may_be_checked_again(call)):
        draft.watched.put(f"{call.tool} {call.args_digest or ''}", e.seq)
    if e.files:
        draft.readings.append(e.seq)
    if e.again:
        draft.doubts.pop(e.key, None)
        draft.keep(call._replace(status=status, outcome=e.effect, source=e.source, proven=True))
    else:
        doubt = draft.doubts.get(e.key)
        _over(draft, call, e.seq, status, e.effect, e.source, e.trust)
        if doubt is not None and doubt.told:  # what the model was told is not the last word
            draft.say(call.context, e.seq, "user", e.trust, e.seq, e.key)


def _may_be_checked_again(call: Call) -> bool:
    terms = call.newest.terms if call.newest is not None else None
    return terms is not None and "recheck" in terms.offers


def _over(
    draft: Draft, call: Call, seq: int, status: CallStatus, outcome: str, source: str, trust: Trust = "trusted"
) -> None:  # fmt: skip
    """A call ends: it leaves the queue, and every slot that waits for it gets its answer."""
    key, proven = call.key, outcome == "none"
    row = (
        key, call.tool, call.effect, status, call.context, call.slot, call.accepted, call.started, seq, call.attempt,
        call.generation, outcome, source, trust, proven, call.signature, call.occurrence, call.risk, call.args_digest,
        call.newest if proven else None, call.origin,
    )  # fmt: skip
    draft.live.pop(key, None)
    draft.over.put(key, row)  # a Call
    if draft.doubts:
        draft.doubts.pop(key, None)
    if draft.approvals:
        draft.approvals.pop(key, None)
    if draft.waiting:
        draft.answer(key, seq, trust)


def uncertain(draft: Draft, e: ToolCallUncertain) -> None:
    call = _at_attempt(draft, e.key, e.attempt)
    draft.keep(call._replace(status=move(call, "uncertain", e.key)))
    doubt = Doubt(e.key, e.number, e.seq, e.at, e.reason)
    before = draft.doubts.get(e.key)
    if before is not None:  # an earlier attempt is in question too, and has been for longer
        doubt = doubt._replace(since=before.since, tries=before.tries, earlier=before.earlier)
    draft.doubts[e.key] = doubt


def reconciled(draft: Draft, e: ToolCallReconciled) -> None:
    call = _at_attempt(draft, e.key, e.attempt)
    status = _move(draft, call, e.verdict)
    if e.verdict in ("abandon", "unreported"):
        _over(draft, call, e.seq, status, e.verdict, e.by)
        return
    if status != call.status:
        draft.keep(call._replace(status=status))
    if e.verdict == "retry":
        _retried(draft, call, e)
        return
    doubt = draft.doubts.get(e.key)
    if doubt is None:
        return
    escalated = doubt.escalated or e.verdict == "escalate"
    told = doubt.told or e.verdict == "tell"
    draft.doubts[e.key] = doubt._replace(tries=doubt.tries + 1, escalated=escalated, told=told, retry="")
    if e.verdict == "tell":
        draft.answer(e.key, e.seq, "trusted")


def _retried(draft: Draft, call: Call, e: ToolCallReconciled) -> None:
    """It may run again. Where nothing proved that the earlier attempts came to nothing - the files do, or a receiver
    that takes none of them any more - the doubt stays until an attempt ends.
    """
    doubt = draft.doubts.pop(e.key, None)
    if (denied := draft.approvals.get(e.key)) is not None and denied.status == "denied":
        del draft.approvals[e.key]  # this word is the newer one
    proven = call.effect == "read" or e.by not in ("policy", "person")
    if proven or (call.effect == "workspace" and e.by == "person"):  # who had its files put back
        return
    doubt = doubt or Doubt(e.key, None, e.seq, e.at, "crash")
    draft.doubts[e.key] = doubt._replace(tries=doubt.tries + 1, retry=e.by, earlier=True)


def _next_attempt(draft: Draft, key: str, attempt: int) -> Call | None:
    """The call that a decision is about, which must be about to start with this attempt."""
    call = draft.call(key)
    if call is not None and call.status != "accepted":
        raise IllegalEvent(f"call {key} is {call.status}: there is nothing to approve", key=key, status=call.status)
    if attempt != (call.attempt if call else 0) + 1:
        raise IllegalEvent(f"attempt {attempt} of call {key} is not the next", key=key)
    return call


def requested(draft: Draft, e: ApprovalRequested) -> None:
    _next_attempt(draft, e.key, e.attempt)
    asked = draft.approvals.get(e.key)
    past = asked is not None and asked.expires_at is not None and asked.expires_at <= e.at
    if asked is not None and asked.attempt == e.attempt and asked.status != "expired" and not past:
        raise IllegalEvent(f"attempt {e.attempt} of call {e.key} has been asked about: {asked.status}", key=e.key)
    draft.approvals[e.key] = Approval(e.key, e.attempt, e.args_digest, "pending", e.seq, e.at, e.expires_at)


def decided(draft: Draft, e: ApprovalDecided) -> None:
    call = _next_attempt(draft, e.key, e.attempt)
    asked = draft.approvals.get(e.key)
    if asked is not None and asked.attempt != e.attempt:
        asked = None
    if asked is None and e.decision != "denied" and e.decided_by != "policy":
        raise IllegalEvent(f"nobody asked about attempt {e.attempt} of call {e.key}", key=e.key)
    if asked is not None and (asked.status, asked.args_digest) != ("pending", e.args_digest):
        raise IllegalEvent(f"what is decided is not what was asked about call {e.key}", key=e.key)
    draft.approvals[e.key] = Approval(e.key, e.attempt, e.args_digest, e.decision, e.seq, e.at, e.expires_at)
    if e.decision != "denied" or call is None:
        return
    status = _move(draft, call, "deny") if e.earlier else move(call, "deny", e.key)
    if status == "denied":
        _over(draft, call, e.seq, status, "denied", e.decided_by)
    else:
        draft.keep(call._replace(status=status))
        draft.doubts[e.key] = draft.doubts[e.key]._replace(retry="")
