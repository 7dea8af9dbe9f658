"""`ckpt approvals`: the calls that may not run before a person says so, and that person's word."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.errors import Busy, Usage

if TYPE_CHECKING:
    from checkpointer.run.questions import Figures, Question


_LONG = 200
_EARLIER = "an attempt before this one may have happened; denied, that stays in question (ckpt uncertain)"


@click.command(cls=Command)
@click.option("--approve", is_flag=True, help="Let it run, this once, with these arguments.")
@click.option("--deny", is_flag=True, help="Do not let it run; the model is told why.")
@click.option("--why", metavar="TEXT", default="", help="The reason; kept in the run's log, and told to the model.")
@click.argument("key", required=False, metavar="[KEY]")
@click.pass_obj
def approvals(call: Call, key: str | None, approve: bool, deny: bool, why: str) -> int:
    """The calls that wait for approval, oldest first; all that is known about one; or your word on it.

    KEY is what the list begins with. An answer is for this call, these arguments and this attempt alone. If the run is
    at work, it takes the answer in between two calls; otherwise it finds it when it goes on.
    """
    from checkpointer.run import questions, roster

    deciding = approve or deny
    if deciding:
        call.person_only("to approve or deny a call")
    if approve and deny:
        raise Usage("say one of --approve and --deny", kept="nothing was written")
    if key is None and (deciding or why):
        raise Usage("which call?", kept="nothing was written", next=("ckpt approvals",))
    workspace = call.workspace(write=deciding)
    directory = os.fspath(roster.runs_directory(workspace.directory))
    found = questions.read(directory)
    for run, problem in found.problems.items():
        call.out.note(f"note: run {run} cannot be read: {problem}")
    if key is None:
        _print(call, found)
        return 0
    one = _named(found.open, key)
    if deciding:
        return _decide(call, directory, one, "approved" if approve else "denied", why)
    if call.out.json:
        call.out.document(document(one))
    else:
        _print_one(call, one)
    return 0


def _named(found: list[Question], key: str) -> Question:
    """The question that a word names. Raises `Usage` naming those there are."""
    from checkpointer.run import questions

    matches = questions.named(found, key)
    if len(matches) == 1:
        return matches[0]
    if len(matches) > 1:
        raise Usage(f"{key} begins several keys", kept="nothing was written", next=("ckpt approvals",))
    known = ", ".join(one.name for one in found) or "none"
    raise Usage(
        f"no call that waits for approval is called {key}; there are: {known}",
        kept="nothing was written",
        next=("ckpt approvals",),
    )


def _print(call: Call, found: Figures) -> None:
    if call.out.json:
        call.out.document(_figures(found))
        return
    if not found.open:
        call.out.line("nothing waits for approval")
    for one in found.open:
        call.out.line(line(call, one))
    if found.asked or found.by_policy:
        counts = f"{found.asked} asked, {found.approved} approved, {found.denied} denied, {found.expired} expired"
        policy = f", {found.by_policy} denied by a policy" if found.by_policy else ""
        latency = f"; an answer took {phrase.span(found.latency['median'])}" if found.latency else ""
        call.out.line(call.out.style(counts + policy + latency, "dim"))
    unanswered = [one for one in found.open if not one.answered and not one.expired]
    if unanswered:
        name = unanswered[0].name
        call.out.hint(f"next: ckpt approvals {name} --approve   ckpt approvals {name} --deny --why TEXT")


def line(call: Call, one: Question) -> str:
    """`3f2a9c1d  r9  pay(order=881, cents=4200)  "may I?"  asked 14:31, for another 4 min`."""
    words = f"  {phrase.quoted(one.text, 60)}" if one.text else ""
    about = one.words if len(one.words) <= _LONG else f"{one.words[: _LONG - 3]}..."
    return f"{call.out.style(one.name, 'yellow')}  {one.handle:>4}  {about}{words}  {_when(one)}"


def _when(one: Question) -> str:
    from datetime import UTC, datetime

    asked = f"asked {phrase.clock(one.asked)}" if one.asked else "asked"
    if one.earlier:
        asked += ", attempt 1 may have happened" if one.attempt == 2 else ", an earlier attempt may have happened"
    if one.answered:
        return f"{asked}; {one.answered}, and the run has not looked yet"
    if one.expired:
        return f"{asked}; its time has passed: it is asked again when the run goes on"
    if one.expires is not None:
        return f"{asked}, for another {phrase.span((one.expires - datetime.now(UTC)).total_seconds())}"
    return asked


def _print_one(call: Call, one: Question) -> None:
    out = call.out.line
    out(call.out.style(f"{one.name}  {one.handle}  {one.words}", "bold"))
    rows = [
        ("question", one.text),
        ("tool", f"{one.tool} ({one.effect}, {one.risk} risk)"),
        ("attempt", str(one.attempt) if one.attempt > 1 else ""),
        ("earlier", _EARLIER if one.earlier else ""),
        ("key", one.key),
        ("when", _when(one)),
    ]
    for name, text in rows:
        if text:
            out(f"  {name:9} {text}")
    if not one.answered and not one.expired:
        out()
        out("say one of")
        out(f"  ckpt approvals {one.name} --approve            it runs, this once, with these arguments")
        out(f"  ckpt approvals {one.name} --deny [--why TEXT]  it does not run, and the model is told why")


def _decide(call: Call, directory: str, one: Question, said: Literal["approved", "denied"], why: str) -> int:
    from checkpointer.log import JsonlRuns
    from checkpointer.run import approvals as engine

    if one.expired:
        raise Usage(
            f"the time of {one.name} has passed: an answer would count for nothing",
            kept="nothing was written",
            next=(f"ckpt resume {one.handle}  (it is asked again)",),
        )
    if one.answered:
        raise Busy(
            f"{one.name} was {one.answered} already, and the run has not looked yet",
            kept="nothing was written; that answer stands",
        )
    log = JsonlRuns(directory).log(one.run)
    try:
        _, how = engine.answer(log, one.key, said, who=_user(), reason=why)
    finally:
        log.close()
    if call.out.json:
        call.out.document({"schema": 1, "key": one.key, "run": one.handle, "decision": said, "how": how})
        return 0
    later = "; the run takes it in before its next call" if how == "posted" else ""
    call.out.line(f"{said} {one.words} of {one.handle}{later}")
    if how == "appended":
        call.out.hint(f"next: ckpt resume {one.handle}")
    return 0


def _user() -> str:
    """Who decides, as far as the system says."""
    import contextlib
    import getpass

    with contextlib.suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return ""


def document(one: Question) -> dict[str, Any]:
    """One question for programs."""
    from checkpointer import canon
    from checkpointer.events import ABSENT

    return {
        "name": one.name,
        "key": one.key,
        "run": one.handle,
        "id": one.run,
        "about": one.words,
        "tool": one.tool,
        "arguments": None if one.arguments in (None, ABSENT) else canon.thaw(one.arguments),
        "effect": one.effect,
        "risk": one.risk,
        "attempt": one.attempt,
        "earlier": one.earlier,
        "question": one.text or None,
        "asked": phrase.stamp(one.asked) if one.asked else None,
        "expires": phrase.stamp(one.expires) if one.expires else None,
        "expired": one.expired,
        "answered": one.answered or None,
    }


def _figures(found: Figures) -> dict[str, Any]:
    return {
        "schema": 1,
        "asked": found.asked,
        "approved": found.approved,
        "denied": found.denied,
        "denied_by_policy": found.by_policy,
        "expired": found.expired,
        "latency_s": found.latency,
        "approvals": [document(one) for one in found.open],
        "problems": found.problems,
    }
