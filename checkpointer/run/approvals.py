"""Permission for one attempt of a call: asked for, decided, passed; bound to the key and the arguments' digest.

A question survives a crash: asking again shows the one that is open. Another process decides through the run's inbox
(`decide`), the owner takes it in when it looks (`Desk.hear`).
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from checkpointer import home, machine
from checkpointer.errors import NeedsPerson, NoStore, Usage
from checkpointer.events import ApprovalDecided, ApprovalRequested, Commit
from checkpointer.log import JsonlRuns, Writable
from checkpointer.run import roster
from checkpointer.run.contents import DENIED, result
from checkpointer.run.desk import Ask, Desk, ToolCall
from checkpointer.state import Approval, RunState

Decision = Literal["approved", "denied"]
Standing = Literal["none", "pending", "approved", "denied", "expired"]


def standing(desk: Desk, call: ToolCall) -> Standing:
    """How permission for the next attempt of a call stands, by this machine's clock."""
    known = desk.state.call(call.key)
    asked = desk.state.approvals.get(call.key)
    if known is not None and known.status == "denied":
        return "denied"
    if asked is None or asked.attempt != (known.attempt if known else 0) + 1:
        return "none"
    if asked.status in ("pending", "approved") and _passed(asked):
        return "expired"
    return asked.status


def _passed(asked: Approval) -> bool:
    return asked.expires_at is not None and datetime.fromisoformat(asked.expires_at) <= datetime.now(UTC)


def ask(desk: Desk, call: ToolCall, question: Ask) -> Standing:
    """Ask, unless an open or decided question is there; letters in the inbox are taken in first."""
    desk.hear()
    stands = standing(desk, call)
    if stands not in ("none", "expired"):
        return stands
    asked = desk.state.approvals.get(call.key)
    attempt = _next(desk, call)
    if stands == "expired" and asked is not None and asked.status == "pending":
        desk.append(
            ApprovalDecided(
                key=call.key,
                attempt=attempt,
                args_digest=asked.args_digest,
                decision="expired",
                decided_by="clock",
                context=call.context,
                **desk.files.now(),
            )
        )
    until = datetime.now(UTC) + timedelta(seconds=question.expires_s) if question.expires_s is not None else None
    desk.append(
        ApprovalRequested(
            key=call.key,
            attempt=attempt,
            args_digest=call.digest,
            expires_at=until.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if until else None,
            question=question.question or None,
            **_unheld(desk, call),
            context=call.context,
            **desk.files.now(),
        )
    )
    desk.pen.flush()  # others read it
    return "pending"


def _unheld(desk: Desk, call: ToolCall) -> dict[str, Any]:
    """What a person has to see of a call that stands in no model turn."""
    if isinstance(call.slot, tuple) or call.slot in desk.state.named:
        return {}
    return {"tool": call.name, "arguments": call.arguments}


def as_before(desk: Desk, call: ToolCall) -> Ask:
    """The question whose time has passed, to be asked again for as long."""
    asked = desk.state.approvals[call.key]
    event = desk.contents.one(asked.seq)
    span = None
    if asked.expires_at is not None:
        span = (datetime.fromisoformat(asked.expires_at) - datetime.fromisoformat(asked.at)).total_seconds()
    question = event.question if isinstance(event, ApprovalRequested) else None
    return Ask(question if isinstance(question, str) else "", span)


def words(desk: Desk, call: ToolCall) -> str:
    """Why a call that no model turn accepted was denied."""
    asked = desk.state.approvals.get(call.key)
    return str(result(desk.contents.one(asked.seq))[0]) if asked is not None else DENIED


def _next(desk: Desk, call: ToolCall) -> int:
    known = desk.state.call(call.key)
    return (known.attempt if known is not None else 0) + 1


def deny(desk: Desk, call: ToolCall, reason: str) -> None:
    """A policy's no: the call is over, and the model is told why."""
    desk.append(
        ApprovalDecided(
            key=call.key,
            attempt=_next(desk, call),
            args_digest=call.digest,
            decision="denied",
            decided_by="policy",
            earlier=call.key in desk.state.doubts or None,
            reason=reason,
            context=call.context,
            **desk.files.now(),
        )
    )


def waits(call: ToolCall) -> NeedsPerson:
    """The error of a call that may not run before a person decided."""
    return NeedsPerson(
        f"{call.name} waits for approval ({call.key[:8]})",
        kept="the question is in the run's log",
        next=(f"ckpt approvals {call.key[:8]} --approve", f"ckpt approvals {call.key[:8]} --deny"),
        key=call.key,
    )


def decide(
    directory: str | bytes | os.PathLike[str],
    run: str,
    key: str,
    decision: Decision,
    *,
    who: str = "",
    reason: str = "",
) -> str:
    """Answer an open question of a run from outside it; gives the id of the event.

    An owner that lives takes it in when it looks, between two calls at the latest; where none does, it is in the log at
    once. `directory` is in the workspace, `key` the call's key or the beginning of it. Raises `Usage` where no such
    question is open, `NoStore`, `LogDamaged`, `Busy` where somebody came in between.
    """
    place = home.locate(os.path.realpath(os.fsencode(directory)))
    if place is None:
        raise NoStore(f"there are no runs in {os.fsdecode(directory)}")
    log = JsonlRuns(os.fspath(roster.runs_directory(place.directory))).log(run)
    try:
        return answer(log, key, decision, who=who, reason=reason)[0]
    finally:
        log.close()


def answer(
    log: Writable, key: str, decision: Decision, *, who: str = "", reason: str = ""
) -> tuple[str, Literal["appended", "posted"]]:
    """The same for a log; gives the event's id, and whether it is in the log or in the inbox of who owns the run."""
    from checkpointer.recovery import word  # who only asks needs none of it

    event_id = machine.World().event_id()

    def choose(state: RunState) -> list[ApprovalDecided]:
        found = [a for a in state.approvals.values() if a.key.startswith(key) and a.status == "pending"]
        if len(found) != 1:
            raise Usage(f"{len(found)} open questions of run {log.run} begin with {key!r}", kept="nothing was written")
        asked, commit, call = found[0], state.commit, state.call(found[0].key)
        return [
            ApprovalDecided(
                id=event_id,
                key=asked.key,
                attempt=asked.attempt,
                args_digest=asked.args_digest,
                decision=decision,
                decided_by="person",
                earlier=(decision == "denied" and asked.key in state.doubts) or None,
                expires_at=asked.expires_at,
                who=who or None,
                reason=reason or None,
                context=call.context if call is not None else "main",
                commit=Commit(id=commit.id, number=commit.number, captured=False) if commit is not None else None,
                unprotected=None if commit is not None else "no checkpoint was made yet",
            )
        ]

    return event_id, word.deliver(log, choose)
