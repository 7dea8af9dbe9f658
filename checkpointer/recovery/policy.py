"""The rules: `judge(case)` says what is done about one call whose outcome is unknown; pure.

Nothing here guesses. A call that may have happened is never taken for a failed one, and not finding its effect is no
proof that there will be none. Where no rule gives an answer, a person is asked, and told that it may happen twice.

    read                       retry
    workspace                  the files tell: as at its start, or not
    external                   a late answer; a key that its receiver still knows; what a reconciler finds;
                               a compensation; a person
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from checkpointer import canon
from checkpointer.events import ABSENT, ToolCallCompleted
from checkpointer.recovery.case import Case, Files, Judgement
from checkpointer.tools import Absent, Conflict, Finding, Match, Unknown

MARGIN: Final = timedelta(minutes=5)
"""A key is trusted at most this much less long than its receiver keeps it (a tenth of that time, if shorter)."""

UNKNOWN: Final = "its outcome is unknown"
"""What a compensation came to that was cut off itself."""

TWICE: Final = "if it runs again, this may happen twice"


def judge(case: Case) -> Judgement:
    """The verdict on a call, by the first rule that applies."""
    if case.observed:
        return _observed(case)
    if case.effect == "read":
        return Judgement("append", "retry", "it only reads: it may run again")
    if case.carried is not None:
        where = {"run": case.carried[0], "seq": case.carried[1]}
        return _person(case, "another run of this operation made it, and its outcome is open there", started_in=where)
    if case.children:
        return Judgement(
            "append", "wait", "calls that it made come first", evidence={"calls": list(case.children), **_basis(case)}
        )
    if case.late is not None and not (case.late.effect == "none" and case.earlier):
        return _late(case, case.late)
    if case.effect == "workspace":
        return _workspace(case)
    return _external(case)


def _late(case: Case, late: ToolCallCompleted) -> Judgement:
    return Judgement(
        "append",
        "complete",
        "its owner had its answer, and was too late to write it down",
        by="late",
        evidence={"letter": late.id, "at": late.at, **_basis(case)},
        result=late.result,
        effect=late.effect,
        source="late",
        failed=late.failed,
    )


# -- files


def _workspace(case: Case) -> Judgement:
    files = case.files
    said = _basis(case) | (_files(files) if files is not None else {})
    if case.processes is None or case.processes or case.owner in ("alive", "unknown"):
        rule = "its process may still be at work" if not case.processes else "its process still runs"
        return Judgement("append", "wait", rule, evidence=said)
    if files is not None and files.equal and files.captured:
        return Judgement("append", "retry", "the files are as they were when it started", by="tree", evidence=said)
    if case.choice == "keep":
        return Judgement(
            "append",
            "complete",
            "a person kept the files as they are",
            by="person",
            evidence=said,
            result="This call was cut off. What it had written by then was kept; it may have been halfway.",
            effect="partial",
            source="person",
            failed=True,
        )
    if files is None or not files.captured:
        return _person(case, "its files were not in a checkpoint when it started: nothing can be compared")
    if files.equal is None:
        return Judgement("append", "wait", f"the files cannot be compared: {files.why}", evidence=said)
    if case.choice == "restore":
        return Judgement(
            "put back", "retry", "a person had the files of its start put back", by="person", evidence=said
        )
    if files.explained and case.terms.policy != "person":
        return Judgement("put back", "retry", "only it can have changed these files", by="tree", evidence=said)
    return _person(case, f"files differ from those it started with: {files.unexplained}", **_files(files))


def _files(files: Files) -> dict[str, Any]:
    return {
        "captured": files.captured,
        "equal": files.equal,
        "why": files.why or None,
        "differing": list(files.differing[:100]),
        "explained": files.explained,
        "unexplained": files.unexplained or None,
        "checkpoint": files.start,
    }


# -- agents that are only watched


def _observed(case: Case) -> Judgement:
    """Nothing is run again here, and no file is written: only what is known is said."""
    files = case.files
    said = _basis(case) | (_files(files) if files is not None else {})
    if case.went_on:
        return Judgement("append", "unreported", "its agent went on: only its end was not reported", evidence=said)
    if case.effect == "read":
        return Judgement("append", "unreported", "it only reads: nothing is in question", evidence=said)
    if case.effect == "workspace" and files is not None and files.captured and files.equal is not None:
        return Judgement(
            "append",
            "complete",
            "it changed nothing that is covered" if files.equal else "it changed these files",
            by="tree",
            evidence=said,
            result={"changed": list(files.differing)},
            effect="none" if files.equal else "done",
            failed=bool(files.equal),
        )
    known = _files(files) if files is not None else {}
    return _person(case, "outside this folder nothing is known of it", **known)


# -- effects outside


def _external(case: Case) -> Judgement:
    if case.compensates is not None:
        return _person(case, "it was to take another call back, and was cut off itself")
    if case.terms.policy == "person":
        looked_up = "reconcile" in case.terms.offers or "keys" in case.terms.offers
        return _person(case, "its tool leaves this to a person" if looked_up else "nothing to look it up with")
    expired = "another attempt was not allowed, and an earlier one may have happened" if case.refused else ""
    if "keys" in case.terms.offers and not case.refused:
        expired = key_problem(case)
        if not expired:
            return Judgement(
                "append", "retry", "its receiver still knows the key: the same one again", evidence=_basis(case)
            )
    if case.finding is None:
        if "reconcile" in case.terms.offers and case.known:
            return Judgement("ask", "wait", "its reconciler is asked", evidence=_basis(case))
    else:
        found = _found(case, case.finding)
        if found.verdict != "wait" or not (case.compensated or _may_compensate(case)):
            return found
    if _may_compensate(case) and case.known:
        return Judgement("compensate", "wait", "it is taken back", evidence=_basis(case))
    if case.compensated:
        return _compensated(case)
    if not case.known:
        return _person(case, "its tool is not here, so nothing can be looked up")
    return _person(case, expired or "nothing can tell whether it happened")


def key_problem(case: Case) -> str:
    """Why the key proves nothing now; empty while a receiver still recognises it."""
    kept = case.terms.keys_kept_s
    if kept is None:
        return "nobody says how long its key is known"
    if case.first_at is None:
        return "it is not known when its key was first used"
    newest = max(t for t in (case.first_at, case.at, case.clock) if t is not None)
    if case.now < newest:
        return "the clock was set back since it started, so its key may be older than it seems"
    span = timedelta(seconds=kept)
    if case.now >= case.first_at + span - min(MARGIN, span / 10):
        return "its key is older than its receiver keeps keys"
    return ""


def _may_compensate(case: Case) -> bool:
    return "compensate" in case.terms.offers and not case.compensated and case.arguments is not ABSENT


def _found(case: Case, finding: Finding) -> Judgement:
    match finding:
        case Match():
            return _match(case, finding)
        case Conflict():
            return _conflict(case, finding.fields, "its key stands for another effect")
        case Absent(final=True) if finding.why or _over(case):
            return Judgement(
                "append",
                "retry",
                "it did not happen, and no earlier attempt can happen any more: the same key again",
                by="receiver",
                evidence={"found": "absent", "final": True, "why": finding.why, **_basis(case)},
            )
        case Absent():
            words = "nothing was found yet, which proves nothing"
            if finding.final:
                words = "nothing was found, and nothing says that an earlier attempt cannot still arrive"
            return Judgement(
                "append",
                "wait",
                words,
                by="receiver",
                evidence={"found": "absent", "final": False, "why": finding.why, **_basis(case)},
            )
        case Unknown():
            return Judgement(
                "append",
                "wait",
                "its reconciler could not find out",
                by="receiver",
                evidence={"found": "unknown", "error": finding.error, **_basis(case)},
            )


def _over(case: Case) -> bool:
    """Owner and tool process are proven dead, and the request's deadline, which its receiver enforces, has passed."""
    if case.terms.deadline_s is None or case.at is None or not case.dead or case.processes != ():
        return False
    newest = max(t for t in (case.at, case.clock) if t is not None)
    return case.now >= newest and case.now >= case.at + timedelta(seconds=case.terms.deadline_s)


def _match(case: Case, finding: Match) -> Judgement:
    if case.arguments is ABSENT:
        return _person(case, "its arguments were redacted: what was found cannot be held against them")
    asked = case.arguments if isinstance(case.arguments, Mapping) else {}
    wanted: Sequence[str] = case.effect_fields or [name for name in finding.fields if name in asked]
    other = [n for n in wanted if n not in finding.fields or not _same(finding.fields[n], asked.get(n, ABSENT))]
    if other:
        return _conflict(case, finding.fields, f"what was found differs in {', '.join(other)}")
    return Judgement(
        "append",
        "complete",
        "its receiver has it, with the same fields",
        by="receiver",
        evidence={"found": "match", "fields": _storable(finding.fields), "compared": list(wanted), **_basis(case)},
        result=_storable(finding.result),
    )


def _same(found: Any, asked: Any) -> bool:
    """Equal as values of a log: a tuple is a list, and 1 is not True."""
    try:
        return canon.dumps(canon.freeze(found)) == canon.dumps(canon.freeze(asked))
    except canon.NotJson:
        return False


def _storable(value: Any) -> Any:
    try:
        return canon.freeze(value)
    except canon.NotJson:
        return repr(value)


def _conflict(case: Case, fields: Mapping[str, Any], rule: str) -> Judgement:
    return _person(case, rule, by="receiver", found="conflict", fields=_storable(dict(fields)), asked=_asked(case))


def _compensated(case: Case) -> Judgement:
    if case.compensated.startswith(UNKNOWN):
        return _person(case, "nobody knows whether it was taken back", compensation=case.compensated)
    if case.compensated != "done":
        return _person(case, "taking it back did not work", compensation=case.compensated)
    return Judgement(
        "append",
        "complete",
        "whatever it did was taken back; what others saw of it meanwhile was not",
        evidence={"compensation": "done", "exposure": "visible until it was taken back", **_basis(case)},
        result="The outcome of this call was unknown, so it was taken back. Others may have seen it before that.",
        effect="partial",
        failed=True,
    )


def _person(case: Case, rule: str, *, by: Literal["policy", "receiver"] = "policy", **evidence: Any) -> Judgement:
    said = {"asked": _asked(case), "last_error": case.error, "warning": TWICE, **_basis(case), **evidence}
    return Judgement("append", "escalate", rule, by=by, evidence=said)


def _asked(case: Case) -> Any:
    return None if case.arguments is ABSENT else case.arguments


def _basis(case: Case) -> dict[str, Any]:
    """What every verdict rests on."""
    return {
        "effect": case.effect,
        "key": case.key,
        "started": _stamp(case.at),
        "first_started": _stamp(case.first_at),
        "judged": _stamp(case.now),
        "owner": case.owner,
        "processes": None if case.processes is None else list(case.processes),
        "reason": case.reason,
    }


def _stamp(at: datetime | None) -> str | None:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if at is not None else None
