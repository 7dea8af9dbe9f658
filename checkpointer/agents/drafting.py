"""From reports to facts: what each report adds to a session, whose the files' changes are, whether files must be read.

Pure but for the number of a turn that begins, which the caller gives out. Reports that were told before add nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from checkpointer.agents import answering, excerpt
from checkpointer.agents.dialects import toolset
from checkpointer.agents.dialects.report import Call, Report
from checkpointer.fields import Fields, made
from checkpointer.run.session import Fact, Open, Session

PROMPT: Final = 20_000
"""Characters of a prompt or an answer that are kept."""
CLOSING: Final = ("turn-end", "turn-done", "interrupt", "idle", "session-end")
_AFTER: Final = (*CLOSING, "prompt", "tool-end", "batch-end")


def name_of_fact() -> str:
    """A name that no other event has; the event that a fact becomes is called so."""
    return os.urandom(16).hex()


class Draft(Fields):
    """What a batch of reports comes to. `owners` are the handles of the steps that own what changed up to now.

    `reads`: files must be read. `flushes`: the log is to be brought up to date. `asked` is a command that the person
    typed, `again` that it was taken in before. Only `mine`, the report of the hook that is at work, can ask for one:
    nobody waits for the answer to any other. `turn` is the handle of a turn whose changes are its own because no call
    of it was told.
    """

    session: Session
    number: Callable[[], int]
    mine: Report | None = None
    facts: list[Fact] = made(default_factory=list)
    begun: list[str] = made(default_factory=list)
    reads: bool = False
    flushes: bool = False
    interrupted: bool = False
    ended: str = ""
    asked: list[str] | None = None
    again: bool = False
    prompted: bool = False
    turn: str = ""
    only_starts: bool = True

    def ready(self) -> None:
        self.before = self.session.owners(closing=False)

    @property
    def owners(self) -> tuple[str, ...]:
        if self.only_starts:
            return self.before
        found = tuple(dict.fromkeys((*self.before, *self.begun)))
        return found or ((self.turn,) if self.turn else ())

    def add(self, report: Report, fact: Fact) -> None:
        fact = {**fact, "uid": name_of_fact(), "at": report.at}
        if report.subagent and "ctx" not in fact:
            fact["ctx"] = f"agent {report.subagent}"
        self.facts.append(fact)
        self.session.take(fact)


def draft(session: Session, reports: Sequence[Report], number: Callable[[], int], mine: Report | None = None) -> Draft:
    """What these reports add to `session`, which takes it in. Raises what `number` raises."""
    made = Draft(session, number, mine)
    for report in reports:
        if _is_foreign(session, report):
            continue
        if report.kind in _AFTER:
            made.only_starts = made.only_starts and not _matters(report)
        _one(made, report)
    return made


def _matters(report: Report) -> bool:
    return not report.calls or any(call.effect != "read" for call in report.calls)


def _is_foreign(session: Session, report: Report) -> bool:
    """Does this come in another form than the session's first report, which tells everything already?"""
    if not report.shape:
        return False
    session.shape = session.shape or report.shape
    return session.shape != report.shape


def _one(made: Draft, report: Report) -> None:
    kind = report.kind
    if kind == "session-start":
        made.reads = True
    elif kind == "prompt":
        _prompt(made, report)
    elif kind == "tool-start":
        for call in report.calls:
            _start(made, report, call)
    elif kind in ("tool-end", "batch-end"):
        for call in report.calls:
            _end(made, report, call)
    elif kind == "subagent-end":
        if report.subagent:
            made.add(report, {"f": "said", "text": _words(report.text), "model": report.model, "stop": "end_turn"})
    elif kind == "compact":
        made.add(report, {"f": "compacted"})
    elif kind == "turn-done":
        _done(made, report)
    elif kind in CLOSING:
        _closing(made, report)


# -- turns


def _prompt(made: Draft, report: Report) -> None:
    session = made.session
    text = report.text or ""
    if report.subagent:
        made.add(report, {"f": "heard", "text": _words(text)})
        return
    slot = answering.slot(report)
    # An agent that hears nothing would give the model the same prompt, and it would be carried out twice.
    call = answering.command(report)
    if call is not None and answering.is_known(session, report):
        made.again = made.again or report is made.mine
        return
    if slot in session.slots and slot:
        return
    if not slot and session.open and session.steps == 0 and session.prompt == text[:200]:
        return
    made.reads = True
    if session.open:
        if session.loose:
            made.turn = f"t{session.turn}"
        _over(made, report)
        if call is not None:
            made.add(report, {"f": "said", "text": None, "stop": "interrupted"})
    if call is None:
        made.prompted = True
        made.add(report, _turn(made, report, _words(text), slot))
    elif report is made.mine:
        made.asked = call
        if answering.changes(call):
            made.add(report, {"f": "asked", "slot": slot, "text": text})


def _turn(made: Draft, report: Report, text: str | None, slot: str) -> Fact:
    fact: Fact = {"f": "turn", "n": made.number(), "text": text, "slot": slot}
    if made.session.inside:  # the run began before anybody knew of this conversation
        fact.update(agent=made.session.agent, session=made.session.session)
    return fact


def _words(text: str | None) -> str | None:
    return excerpt.words(text, PROMPT) if text else None


def _over(made: Draft, report: Report) -> None:
    """The calls that are still open end with their turn: the agent goes on without them."""
    for key, call in list(made.session.calls.items()):
        if call.background:
            made.add(report, {"f": "end", "key": key, "result": None, "ctx": call.context})
        else:
            made.add(report, {"f": "lost", "key": key, "ctx": call.context})


def _closing(made: Draft, report: Report) -> None:
    session = made.session
    made.flushes = True
    if report.kind == "session-end":
        made.reads = True
        made.ended = "interrupted" if session.open else "ended"
    if not session.open or report.subagent:
        return
    made.reads = True
    if session.loose or session.steps == 0:
        made.turn = f"t{session.turn}"
    stop = {"turn-end": "end_turn", "interrupt": "interrupted", "session-end": "session_end"}.get(report.kind, "idle")
    if report.kind == "interrupt":
        made.interrupted = any(call.writes or call.delegates for call in session.calls.values())
        for key, call in list(session.calls.items()):
            if call.effect == "read":
                made.add(report, {"f": "lost", "key": key, "ctx": call.context})
    else:
        _over(made, report)
    if report.source == "error":
        stop = "error"
    made.add(report, {"f": "said", "text": _words(report.text), "model": report.model, "stop": stop})


def _done(made: Draft, report: Report) -> None:
    """A turn that is told of when it is over: usually known, else known only by its ends."""
    session, slot = made.session, answering.slot(report)
    if slot and slot in session.slots:
        if session.open and session.slots[-1] == slot:
            _closing(made, report)
        return
    if not session.open:
        made.add(report, _turn(made, report, _words(report.source), slot))
    _closing(made, report)


# -- calls


def _mark(call: Call) -> str:
    """What two calls with the same words have in common."""
    said = json.dumps([call.tool, call.arguments], sort_keys=True, default=repr)
    return hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()[:24]


def _key(made: Draft, report: Report, call: Call) -> str:
    """The identity of a call. Two turns may use one id twice, and so may a subagent."""
    turn = report.turn or f"t{made.session.turn}"
    name = ["id", call.id] if call.id else ["at", call.tool, _mark(call), report.stamp or report.at]
    said = json.dumps([made.session.session, report.subagent, turn, *name])
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _context(report: Report) -> str:
    return f"agent {report.subagent}" if report.subagent else "main"


def _ensure_turn(made: Draft, report: Report) -> None:
    """Calls belong to a turn, also where nobody told of its beginning."""
    if not made.session.open:
        made.add(report, {**_turn(made, report, None, report.turn), "ctx": "main"})


def _start(made: Draft, report: Report, call: Call) -> None:
    session = made.session
    if toolset.ours(call.tool):
        return
    key = _key(made, report, call)
    if key in session.calls or key in session.over or key in session.lost:
        return
    _ensure_turn(made, report)
    _begin(made, report, call, _key(made, report, call))


def _begin(made: Draft, report: Report, call: Call, key: str) -> None:
    session = made.session
    step = session.steps + 1
    fact: Fact = {
        "f": "start",
        "key": key,
        "tool": call.tool,
        "effect": call.effect,
        "turn": session.turn,
        "step": step,
        "id": call.id,
        "mark": _mark(call) if not call.id else "",
        "args": excerpt.kept(call.arguments),
    }
    if call.background:
        fact["background"] = True
    if call.delegates:
        fact["delegates"] = True
    made.add(report, fact)
    opened = session.calls[key]
    if opened.writes:
        made.begun.append(opened.handle)
    made.reads = made.reads or call.effect != "read"


def _end(made: Draft, report: Report, call: Call) -> None:
    session = made.session
    if toolset.ours(call.tool):
        return
    key, guessed = _open_call(made, report, call)
    result = excerpt.kept(call.result)
    if key is not None:
        opened = session.calls[key]
        made.reads = made.reads or opened.effect != "read"
        if not opened.background:
            fact = _ended(key, call, result, guess=guessed)
            made.add(report, {**fact, "also": _key(made, report, call)} if guessed else fact)
        return
    key = _key(made, report, call)
    if key in session.over:
        return
    if not session.open and report.turn in session.slots:
        return  # told again, or late, of a turn that is over and known
    if key in session.lost:  # it was given up for lost, and comes after all
        session.lost.remove(key)
        made.add(report, _ended(key, call, result))
        return
    _ensure_turn(made, report)
    key = _key(made, report, call)
    _begin(made, report, call, key)
    made.add(report, _ended(key, call, result, alone=True))


def _ended(key: str, call: Call, result: Any, *, guess: bool = False, alone: bool = False) -> Fact:
    fact: Fact = {"f": "end", "key": key, "failed": call.failed, "result": result}
    return {**fact, **({"guess": True} if guess else {}), **({"alone": True} if alone else {})}


def _open_call(made: Draft, report: Report, call: Call) -> tuple[str | None, bool]:
    """The open call that has ended, and whether that is a guess: by id, else the oldest with the same words."""
    context = _context(report)
    mark = "" if call.id else _mark(call)

    def fits(opened: Open) -> bool:
        if opened.context != context:
            return False
        return opened.id == call.id if call.id else opened.mark == mark and not opened.id

    own = _key(made, report, call)
    if call.id and own in made.session.calls:
        return own, False
    found = [key for key, opened in made.session.calls.items() if fits(opened)]
    if not found:
        return None, False
    return found[-1 if call.id else 0], not call.id
