"""From a report to the run that it belongs to: begun, found again, claimed anew where another process goes on with it.

A session is one run, named after it. The owner is the agent's process; a new one claims the run under the next epoch
once the one before is gone or has let go. Inside `ckpt run` the run is the one that was begun there, and hooks act
under its epoch, so that they are fenced with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkpointer import lease, machine
from checkpointer.agents import ancestry
from checkpointer.agents.dialects.report import Report
from checkpointer.agents.intake import Intake
from checkpointer.agents.observing import PATIENCE
from checkpointer.errors import Busy, Fenced, NoStore
from checkpointer.events import Commit, Holder, RunStarted
from checkpointer.log import Folded, JsonlLog, JsonlRuns, claim, delegate
from checkpointer.recovery import Scene, Settled, settle
from checkpointer.run import closing, pending, roster
from checkpointer.run import session as sessions
from checkpointer.run.files import Files
from checkpointer.run.session import Session
from checkpointer.state import RunState
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.checkpoint import By
from checkpointer.workspace.workspace import Workspace

_RETURNS = ("session-start", "prompt")
_BEGINS = (*_RETURNS, "tool-start")


@dataclass
class Attached:
    """`based`: the files were captured for it just now. `notes` are for the hook log, `second` for the person; `cut`
    are the calls that were cut off when the agent died.
    """

    session: Session
    based: bool = False
    notes: list[str] = field(default_factory=list)
    second: str = ""
    cut: list[Settled] = field(default_factory=list)


def attach(
    workspace: Workspace,
    intake: Intake,
    report: Report,
    process: ancestry.Process | None,
    environ: Mapping[str, str],
    *,
    anew: bool = False,
) -> Attached:
    """The session of a report's run. The gate is held. `anew`: its log is known to be lost. Raises `LogDamaged` where
    that is news, `Fenced`, `Finished`, `Busy`, what a first checkpoint or reading and writing the log raise.
    """
    log = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory))).log(intake.run)
    before = intake.known()
    try:
        known = pending.folded(log)
        refused: list[str] = []
        if known.state.status != "new":
            known, refused = pending.flush(log, intake.place, known)
            pending.emptied(intake.place, before)
        elif not anew and (before is not None or sessions.journal(intake.place)[0]):
            raise pending.nothing_left()
        if environ.get("CKPT_RUN"):
            found = _inside(log, intake, known, report, environ, before)
        elif known.state.status == "new":
            found = _begin(workspace, log, report, process)
            _goes_on(before, found.session, intake.place)
        else:
            found = _again(workspace, log, intake, known, report, process, before)
        found.notes += refused
        return found
    finally:
        log.close()


def set_aside(workspace: Workspace, intake: Intake) -> str:
    """Give the run of a session another name, as it is, so that the session can begin one anew: the name, empty where
    there is no such run any more. The gate is held. Raises `Busy`, what renaming raises.
    """
    runs = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory)))
    return runs.set_aside(intake.run) if intake.run in runs.runs() else ""


_OF_RUN = ("run", "handle", "epoch", "owner", "known", "commit", "released")
"""What a session has of its run, and not of what its agent told."""


def _goes_on(before: Session | None, session: Session, place: Path) -> None:
    """A session whose log is gone goes on as another run: what its hooks told, and what of it waits in the journal, is
    as it was.
    """
    kept = {name: getattr(session, name) for name in _OF_RUN}
    if before is not None:
        session.__dict__.update(before.__dict__)
    else:
        sessions.catch_up(session, place)
    session.__dict__.update(kept)


def holder(process: ancestry.Process | None) -> Holder:
    """The agent as the owner of its run. Where nobody can tell who started us, the first of all processes stands for
    it: that one does not end before its agents.
    """
    return machine.holder(process.pid if process is not None else 1)


def _inside(
    log: JsonlLog,
    intake: Intake,
    known: Folded,
    report: Report,
    environ: Mapping[str, str],
    before: Session | None,
) -> Attached:
    state = known.state
    if state.status == "new":
        raise NoStore(f"run {log.run} has no log here")
    if str(state.epoch) != environ.get("CKPT_EPOCH", ""):
        log.count_fenced()
        raise Fenced(f"run {log.run} is in epoch {state.epoch} now, and this agent is of an older one")
    session = before if before is not None else pending.rebuilt(log, known, intake.place)
    session.session, session.agent, session.epoch = report.session, report.agent, state.epoch
    session.inside = True
    return Attached(session)


def _begin_event(report: Report, process: ancestry.Process | None, **more: Any) -> RunStarted:
    return RunStarted(
        mode="observed",
        owner=holder(process),
        agent=report.agent,
        session=report.session or None,
        command=[_text(word) for word in process.words] if process and ancestry.is_agent(process.words) else None,
        directory=_text(report.directory) if report.directory else None,
        **more,
    )


def _text(word: str) -> str:
    return os.fsencode(word).decode("utf-8", "backslashreplace")


def _begin(workspace: Workspace, log: JsonlLog, report: Report, process: ancestry.Process | None) -> Attached:
    """A run begins: the files as they are now are its first checkpoint."""
    with workspace.locked("beginning a run", PATIENCE):
        dead = closing.dead(workspace)
        others = roster.others(workspace.directory, log.run)
        by: By = "agent" if others.runs else "person"
        saved = workspace.save(kind="crash" if dead else "base", runs=others.runs, steps=others.steps, by=by)
        base = saved.checkpoint
        closing.close(workspace, dead, base)
        facts = workspace.facts
        facts.last_run += 1
        facts.had_run = True
        facts_file.save(workspace.directory, facts)
        number = facts.last_run
    commit = Commit(id=base.id, number=base.number, captured=True)
    pen = claim(log, _begin_event(report, process, run=log.run, number=number, commit=commit), shared=True)
    session = Session(
        run=log.run,
        handle=f"r{number}",
        agent=report.agent,
        session=report.session,
        epoch=pen.epoch,
        owner=_owner(pen.state),
        known=base.number,
        commit=base.id,
        told=base.number,
    )
    return Attached(session, based=True)


def _owner(state: RunState) -> list[Any]:
    one = state.owner
    return [one.host, one.boot, one.namespace, one.pid, one.started] if one is not None else []


def _again(
    workspace: Workspace,
    log: JsonlLog,
    intake: Intake,
    known: Folded,
    report: Report,
    process: ancestry.Process | None,
    before: Session | None,
) -> Attached:
    """A run that was there before: gone on with under its epoch, or claimed under the next one."""
    state = known.state
    found = Attached(before if before is not None else pending.rebuilt(log, known, intake.place))
    found.session.session = report.session
    dead = state.status == "owned" and _liveness(state) == "dead"
    returns = report.kind in _RETURNS or (process is not None and ancestry.is_agent(process.words))
    if state.status == "released" and report.kind not in _BEGINS:
        return found
    if state.status == "owned" and not (dead and returns):
        if not dead and process is not None and not _same(state, process):
            found.second = _second(state, report, process)
        return found
    begin = _begin_event(report, process, run=log.run, commit=state.commit)
    try:
        pen = claim(log, begin, shared=True, take_over=True, known=known)
    except Busy as e:
        found.notes.append(e.message)
        return found
    if dead:
        files = Files(workspace, state.run, found.session.handle)
        files.take_up(pen.state)
        found.cut = settle(Scene(pen, files, None, "keep"))
        found.session = pending.rebuilt(log, pen.folded, intake.place)
        found.session.open = False
        _carry(before, found.session)
    found.session.epoch, found.session.owner, found.session.released = pen.epoch, _owner(pen.state), False
    return found


def _carry(before: Session | None, session: Session) -> None:
    """What no log tells: which reports were taken in, and what was asked."""
    if before is not None:
        session.slots, session.shape = before.slots, before.shape
        session.answered, session.asked = before.answered, before.asked


def _liveness(state: RunState) -> lease.Liveness:
    if state.owner is None:
        return "unknown"
    return lease.liveness(state.owner, machine.holder(), machine.started(state.owner.pid))


def _same(state: RunState, process: ancestry.Process) -> bool:
    """Is the owner this process, or one above or below it?"""
    assert state.owner is not None
    mine = (state.owner.pid, state.owner.started)
    if (process.pid, process.started) == mine:
        return True
    if any((one.pid, one.started) == mine for one in ancestry.above(process.pid)):
        return True
    return any(one.pid == process.pid for one in ancestry.above(state.owner.pid))


def _second(state: RunState, report: Report, process: ancestry.Process) -> str:
    assert state.owner is not None
    return (
        f"ckpt: this session is open in another process, too ({state.owner.pid} beside {process.pid}): "
        "what both change is kept, and cannot be told apart"
    )


def interrupted(workspace: Workspace, intake: Intake, session: Session) -> tuple[Session, list[Settled]]:
    """Say of each call that was cut off what the files can tell. The journal is empty. Raises what appending raises."""
    log = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory))).log(intake.run)
    try:
        pen = delegate(log, session.epoch, known=pending.folded(log))
        files = Files(workspace, session.run, session.handle)
        files.take_up(pen.state)
        settled = settle(Scene(pen, files, None, "keep"))
        again = pending.rebuilt(log, pen.folded, intake.place)
        _carry(session, again)
        return again, settled
    finally:
        log.close()


def let_go(workspace: Workspace, intake: Intake, session: Session, how: str) -> None:
    """The agent ended its session. Raises what appending raises."""
    log = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory))).log(intake.run)
    try:
        pen = delegate(log, session.epoch, known=pending.folded(log))
        if pen.state.status == "owned":
            pen.release("interrupted" if how == "interrupted" else "ended")
    finally:
        log.close()


def flushed(intake: Intake, session: Session) -> list[str]:
    """Bring the run's log up to date with the journal. Gives why single facts were refused."""
    log = JsonlLog(os.fspath(roster.runs_directory(intake.store) / intake.run))
    try:
        _, refused = pending.flush(log, intake.place)
        pending.emptied(intake.place, session)
        return refused
    finally:
        log.close()


def cut_off(settled: list[Settled]) -> str:
    """What an agent is told of its calls that were cut off, in words for a model; empty where none was."""
    if not settled:
        return ""
    lines = ["You were cut off in the middle of your last turn. Of the calls that were open then:"]
    for one in settled:
        paths = f" ({', '.join(one.differing[:20])})" if one.differing else ""
        state = {"complete": "over", "unreported": "of no consequence"}.get(one.verdict, "UNKNOWN")
        lines.append(f"- {one.tool}: {state}: {one.rule}{paths}")
    lines.append(
        "Nothing was run again. Look at the files before you go on, and do not repeat a call whose outcome is unknown "
        "without asking the person: outside this folder its effect is not known."
    )
    return "\n".join(lines)
