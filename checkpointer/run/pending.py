"""From the facts that hooks wrote down to the events of the run's log, and back to a session where its cache is lost.

Facts wait in a journal until the turn ends; whoever reads the log before that reads them as events too, and whoever
claims the run appends them first. An append is one write, so a kill leaves all of them in the log or none; those that
are there already are known by their ids.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkpointer import canon, disk
from checkpointer.errors import CheckpointerError, IllegalEvent, LogDamaged, NoStore
from checkpointer.events import (
    MAIN,
    AnyEvent,
    Commit,
    ContextCompacted,
    ModelTurn,
    RunReleased,
    ToolCallCompleted,
    ToolCallReconciled,
    ToolCallStarted,
    UserMessage,
    WorkspaceChanged,
)
from checkpointer.lock import Gate
from checkpointer.log import Folded, JsonlLog, delegate
from checkpointer.replay import replay
from checkpointer.run import session as sessions
from checkpointer.run.session import Fact, Open, Session
from checkpointer.snapshot import Snapshots
from checkpointer.state import RunState

WENT_ON = "its agent went on: only its end was not reported"
GATE = "gate"
_SILENT = ("asked",)
"""Facts that hooks need to know, and that are no part of the run's history."""


def folded(log: JsonlLog) -> Folded:
    """The state of a run's log; that of no log where there is none. Raises what reading raises."""
    try:
        return replay(log, Snapshots(os.path.join(log.directory, "snapshots")))
    except NoStore:
        return Folded()


def event(fact: Fact, state: RunState) -> AnyEvent | None:
    """The event that a fact becomes after `state`; None for one that says nothing new, or that nobody knows."""
    place = _place(fact)
    kind, context = fact.get("f"), fact.get("ctx", MAIN)
    if kind == "turn":
        named = {name: fact[name] for name in ("agent", "session") if fact.get(name)}
        return UserMessage(turn=fact["n"], content=_value(fact.get("text")), context=context, **named, **place)
    if kind == "heard":
        return UserMessage(trust="model", content=_value(fact.get("text")), context=context, **place)
    if kind == "start":
        return ToolCallStarted(
            key=fact["key"],
            tool=fact["tool"],
            effect=fact["effect"],
            call_id=fact.get("id") or None,
            turn=fact["turn"],
            step=fact["step"],
            arguments=_value(fact.get("args")),
            context=context,
            **place,
        )
    if kind == "end":
        return ToolCallCompleted(
            key=fact["key"],
            source="report",
            failed=bool(fact.get("failed")),
            paired="guess" if fact.get("guess") else "id",
            result=_value(fact.get("result")),
            context=context,
            **place,
        )
    if kind == "lost":
        return ToolCallReconciled(
            key=fact["key"], verdict="unreported", rule=WENT_ON, by="agent", context=context, **place
        )
    if kind == "said":
        said = _value(fact.get("text"))
        return ModelTurn(content=said, model=fact.get("model"), stop=fact.get("stop"), context=context, **place)
    if kind == "changed":
        numbers = {name: fact[name] for name in ("checkpoint", "before", "turn", "step") if fact.get(name) is not None}
        return WorkspaceChanged(cause=fact["cause"], by=fact["by"], **numbers, **place)
    if kind == "compacted":
        return _compacted(state, context, place)
    if kind == "ended":
        return RunReleased(how=fact["how"], id=place["id"], at=place["at"])
    return None


def _place(fact: Fact) -> dict[str, Any]:
    commit = fact.get("commit")
    where: dict[str, Any] = {"id": fact["uid"], "at": fact["at"]}
    if commit:
        where["commit"] = Commit(id=commit[0], number=commit[1], captured=bool(commit[2]))
    else:
        where["unprotected"] = fact.get("why") or "no checkpoint was made yet"
    return where


def _value(value: Any) -> Any:
    try:
        return canon.freeze(value)
    except canon.NotJson:
        return repr(value)


def _compacted(state: RunState, context: str, place: dict[str, Any]) -> ContextCompacted | None:
    """What was said up to now gave way to a summary that nobody showed us."""
    said = list(state.context(context))
    if not said or said[-1].role == "gap":
        return None
    return ContextCompacted(
        from_seq=said[0].seq, to_seq=said[-1].seq, summarised=False, summary=None, context=context, **place
    )


def flush(log: JsonlLog, place: Path, known: Folded | None = None) -> tuple[Folded, list[str]]:
    """Append what waits in the journal, then empty it; the hooks' gate is held. Gives the log's state, and why single
    facts were refused.

    Raises `LogDamaged` where no event is left of the run, what `delegate` and appending raise; the journal stays then.
    """
    facts = [fact for fact in sessions.journal(place)[0] if fact["f"] not in _SILENT]
    if known is None:
        known = folded(log)
    if not facts:
        return known, []
    if known.state.status == "new":
        raise nothing_left()
    pen = delegate(log, known.state.epoch, known=known)
    if log.resolve(facts[0]["uid"]) is not None or log.resolve(facts[-1]["uid"]) is not None:
        facts = [fact for fact in facts if log.resolve(fact["uid"]) is None]
    refused: list[str] = []
    try:
        pen.decide(lambda state: _events(facts, state, refused))
    except (IllegalEvent, ValueError):
        for fact in facts:
            try:
                pen.decide(lambda state, fact=fact: _events([fact], state, refused))  # type: ignore[misc]
            except (IllegalEvent, ValueError) as e:
                refused.append(f"{fact.get('f')}: {e}")
    return pen.folded, refused


def nothing_left() -> LogDamaged:
    """Hooks told of a run that has no event: they do so only after its first one was durable."""
    return LogDamaged("nothing is left of it", seq=1, kept="what hooks told since waits", next=("ckpt verify",))


def _events(facts: Sequence[Fact], state: RunState, refused: list[str]) -> list[AnyEvent]:
    out: list[AnyEvent] = []
    for fact in facts:
        try:
            made = event(fact, state)
        except (KeyError, TypeError, ValueError, IndexError) as e:
            refused.append(f"{fact.get('f')}: {type(e).__name__}: {e}"[:300])
            continue
        if made is not None:
            out.append(made)
    return out


def emptied(place: Path, session: Session | None) -> None:
    """The journal is in the log: start a new one. A kill in between has the same facts taken in twice, which changes
    nothing.
    """
    if session is not None:
        session.offset = 0
        save(place, session)
    disk.remove(place / sessions.JOURNAL, missing_ok=True)


def save(place: Path, session: Session) -> None:
    """Keep the cache. Raises OSError."""
    disk.replace(place / sessions.CACHE, session.encode(), durable=False)


def settle(store: Path, run: str, *, taken_over: bool = False) -> None:
    """Append what waits, for whoever is about to claim or end the run. Never raises: what cannot be appended waits on.

    `taken_over`: the cached session goes too, for the one who claims knows better what has become of it.
    """
    place = sessions.directory(store, run)
    if not place.is_dir():
        return
    log = JsonlLog(os.fspath(store / "runs" / run))
    gate = Gate(place / GATE)
    with contextlib.suppress(CheckpointerError, OSError), gate.held(wait=5.0):
        session = sessions.load(store, run)
        if (place / sessions.JOURNAL).exists():
            flush(log, place)
            emptied(place, session)
        if taken_over:
            disk.remove(place / sessions.CACHE, missing_ok=True)
    gate.close()
    log.close()


def rebuilt(log: JsonlLog, known: Folded, place: Path) -> Session:
    """The session that a log and its journal tell of, where the cache is lost."""
    state = known.state
    owner = state.owner
    said = [m for m in state.context() if m.role in ("user", "model")]
    asked = next((m for m in reversed(said) if m.role == "user"), None)
    steps = [step for step in state.trajectory if step.turn == state.turn and step.number is not None]
    session = Session(
        run=state.run,
        handle=f"r{state.number}" if state.number is not None else state.run,
        agent=state.agent or "",
        session=state.session or "",
        epoch=state.epoch,
        owner=[owner.host, owner.boot, owner.namespace, owner.pid, owner.started] if owner is not None else [],
        turn=state.turn or 0,
        open=bool(said) and said[-1].role == "user",
        steps=max((step.number or 0 for step in steps), default=0),
        known=state.commit.number or 0 if state.commit is not None else 0,
        commit=state.commit.id if state.commit is not None else "",
        released=state.status == "released",
    )
    by_key = {step.key: step for step in state.trajectory}
    for call in state.open:
        step = by_key.get(call.key)
        if step is not None and step.turn is not None and step.number is not None:
            session.calls[call.key] = Open(step.number, step.turn, call.tool, call.context, effect=call.effect)
    session.over = [key for key in by_key if key not in session.calls][-400:]
    if asked is not None:
        with contextlib.suppress(CheckpointerError, KeyError):
            commit = log.at([asked.seq])[0].event.commit
            session.told = commit.number or 0 if commit is not None else session.known
    sessions.catch_up(session, place)
    return session
