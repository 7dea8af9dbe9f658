"""`ckpt resume`: a run that was cut off goes on, with its files, and without doing twice what may have been done."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click

from checkpointer import redaction
from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.errors import Failed, NothingToDo, Usage

if TYPE_CHECKING:
    from checkpointer.recovery import Settled
    from checkpointer.run.resuming import Resumed
    from checkpointer.run.roster import RunInfo
    from checkpointer.workspace.workspace import Workspace

_WIDTH = 10
_PATHS = 8


@click.command(cls=Command)
@click.option("--keep", is_flag=True, help="Go on with the files as they are.")
@click.option("--restore", is_flag=True, help="Go on with the run's files; the present is kept aside.")
@click.option("--no-exec", is_flag=True, help="Settle (with --restore: write files) and report; start nothing.")
@click.option("--take-over", is_flag=True, help="Even where nobody can say that its owner is dead.")
@click.option("--list", "only_list", is_flag=True, help="The runs that could be resumed.")
@click.argument("run", required=False, metavar="[RUN]")
@click.pass_obj
def resume(
    call: Call, run: str | None, keep: bool, restore: bool, no_exec: bool, take_over: bool, only_list: bool
) -> int:
    """Go on with a run that was cut off; with the only one there is, if none is named.

    Finished calls are not made again. What was cut off is settled where the files can tell; its own program settles the
    rest, if its tools can look it up; what remains is for you (exit 3, and nothing is started). Then the run's command
    is started again, where it was started first.

    An agent program that ckpt only watches is started again with its own session, and told at its first prompt what
    was cut off and that nobody knows whether it took effect outside this directory; --no-exec starts nothing.

    Exit status: that of the command; 3 where you must decide, 4 while it still runs.
    """
    from checkpointer.run import resuming

    call.person_only("ckpt resume")
    if keep and restore:
        raise Usage("--keep goes on with the files as they are, --restore with the run's: say one of them")
    workspace = call.workspace(write=True)
    found = resuming.resumable(workspace.directory)
    if only_list or (run is None and len(found) > 1):
        return _list(call, found) if only_list else _ask_which(call, found)
    if run is None and not found:
        raise NothingToDo("no run was cut off", next=("ckpt runs",))
    name = run if run is not None else found[0].run
    from checkpointer.cli.events import log_of

    log = log_of(workspace, name)
    choice: Literal["ask", "keep", "restore"] = "keep" if keep else "restore" if restore else "ask"
    resumed = resuming.take_up(workspace, log, choice, take_over=take_over)
    return _go_on(call, workspace, resumed, no_exec)


def _ask_which(call: Call, found: list[RunInfo]) -> NoReturn:
    """Several could be meant: for people they are listed, for programs they stand in the error."""
    if not call.out.json:
        _list(call, found)
    ways = tuple(f"ckpt resume {info.handle}" for info in reversed(found))
    runs = [_row_of(info) for info in found]
    raise Usage("several runs were cut off: say which one", kept="nothing was started", next=ways[:5], runs=runs)


def _row_of(info: RunInfo) -> dict[str, Any]:
    return {"run": info.handle, "id": info.run, "command": list(info.command), "mode": info.mode}


def _list(call: Call, found: list[RunInfo]) -> int:
    from checkpointer.cli.run import how_it_stands

    for info in found:
        if call.out.json:
            call.out.document(_row_of(info))
            continue
        age = f"{phrase.age(info.last)} ago" if info.last else ""
        call.out.line(f"{info.handle:>5}  {how_it_stands(info)} {age}  {' '.join(info.command)}")
    if not found and not call.out.json:
        call.out.line("no run was cut off")
    return 0


def _go_on(call: Call, workspace: Workspace, resumed: Resumed, no_exec: bool) -> int:
    blocked = resumed.blocked
    waits = bool(blocked) or no_exec
    if call.out.json and waits:
        resumed.let_go()
        call.out.document(_document(resumed))
        return 3 if any(not item.retry for item in resumed.uncertain) else 0
    _report(call, resumed, waits)
    call.notices(workspace)
    if waits:
        resumed.let_go()
        _say_why_not(call, resumed)
        return 3 if any(not item.retry for item in resumed.uncertain) else 0
    if not resumed.command and not _own_way(resumed):
        resumed.let_go()
        raise Failed(
            f"{resumed.handle} is ready to go on, but its log names no command",
            kept="the run is as it was",
            next=("start its program again",),
        )
    if redaction.marked(resumed.command):
        resumed.let_go()
        raise Failed(
            f"{resumed.handle} is ready to go on, but its command held a secret, which no log keeps",
            kept="the run is as it was",
            next=("start its program again, with the secret in a variable",),
        )
    return _start(call, workspace, resumed)


def _report(call: Call, resumed: Resumed, waits: bool) -> None:
    """What was found. The answer of the command where nothing is started; else the command has stdout to itself."""
    say = call.out.line if waits else call.out.note
    stood = "died" if resumed.died else "was let go"
    at = f" at {phrase.clock(resumed.at)}" if resumed.at else ""
    cut = f" with {phrase.count(resumed.open, 'call')} open" if resumed.open else ""
    words = " ".join(resumed.command) or "(no command)"
    say(f"{call.out.style(resumed.handle, 'bold', err=not waits)} {words}: {stood}{at}{cut}")
    finished = f"; {phrase.count(resumed.finished, 'finished call')} will not run again" if resumed.finished else ""
    _row(say, "replayed", f"{phrase.count(resumed.state.seq, 'event')}{finished}")
    for note in resumed.notes:
        _row(say, "files", note)
    for what in resumed.undone:
        _row(say, "meanwhile", what)
    if resumed.missing:
        _row(say, "missing", f"these variables were set and are not now: {' '.join(resumed.missing)}")
    for what in resumed.stale:
        _row(say, "stale", what)
    for asked in resumed.asked:
        _row(say, "waits", f"{asked.name} {asked.words} for approval: ckpt approvals {asked.name}")
    open_keys = {item.key for item in resumed.uncertain}
    for one in resumed.settled:
        if one.key not in open_keys:
            _row(say, "settled", _settled(one))
    for item in resumed.uncertain:
        from checkpointer.cli.uncertain import clock_of, why_open

        started = f" started {clock_of(item.started)}" if item.started else ""
        _row(say, "uncertain", f"{item.name} {item.words}{started}, {why_open(item)}")
        paths = next((one.differing for one in resumed.settled if one.key == item.key), ())
        if paths:
            _row(say, "", f"differing: {' '.join(paths[:_PATHS])}{' ...' if len(paths) > _PATHS else ''}")


def _row(say: Any, name: str, text: str) -> None:
    say(f"  {name:{_WIDTH}} {text}")


def _settled(one: Settled) -> str:
    name = f"u{one.number} {one.tool}" if one.number is not None else one.tool
    ends = {"retry": "it runs again", "complete": "it is over", "abandon": "given up", "unreported": "nothing to do"}
    said = f"{name}: {one.rule}; {ends.get(one.verdict, one.verdict)}"
    if one.put_back:
        more = " ..." if len(one.differing) > _PATHS else ""
        said += (
            f"; put back: {' '.join(one.differing[:_PATHS])}{more}, what stood there is in checkpoint {one.put_back}"
        )
    return said


def _say_why_not(call: Call, resumed: Resumed) -> None:
    if not resumed.uncertain:
        call.out.line("not started: --no-exec")
        return
    on_files = [i for i in resumed.uncertain if i.effect == "workspace"]
    others = [i for i in resumed.uncertain if i.effect != "workspace"]
    if on_files:
        call.out.line("not started. The files are as they are; say one of")
        call.out.line(f"  ckpt resume {resumed.handle} --keep       go on with them: the call went halfway")
        call.out.line(f"  ckpt resume {resumed.handle} --restore    put back those it started with, and run it again")
    for item in others:
        call.out.line("not started. Find out whether it happened, then say one of")
        ways = [f"ckpt settle {item.name} --happened [RESULT.json]", f"ckpt settle {item.name} --did-not-happen"]
        if not item.observed:
            ways.append(f"ckpt settle {item.name} --retry-anyway")
        call.out.line("  " + "    ".join(ways))


def _start(call: Call, workspace: Workspace, resumed: Resumed) -> int:
    """The run's command, as its next owner."""
    from checkpointer.run.child import CannotStart

    try:
        os.chdir(resumed.directory or os.fsdecode(workspace.root))
    except OSError as e:
        resumed.let_go()
        raise Failed(
            f"{resumed.directory} cannot be entered: {e.strerror}",
            kept="the run is as it was",
            next=(f"make it, then ckpt resume {resumed.handle}",),
        ) from e
    try:
        return _watched(call, workspace, resumed) if resumed.state.mode == "observed" else _driven(resumed)
    except CannotStart as e:
        call.out.error(f"ckpt: {e.message}")
        return e.status


def _driven(resumed: Resumed) -> int:
    """Its program claims the run itself, under the next epoch."""
    from checkpointer.run import resuming
    from checkpointer.run.child import Child

    resumed.let_go()
    return Child(resumed.command, resuming.environment(resumed)).wait()


def _watched(call: Call, workspace: Workspace, resumed: Resumed) -> int:
    """Its command works on under our pen, as in `ckpt run`."""
    import sys

    from checkpointer.cli import resident
    from checkpointer.cli.run import say, say_after
    from checkpointer.run.command import CommandRun

    own = _own_way(resumed)
    if own:
        say(call, f"{resumed.handle} goes on as {shlex.join(own)}")
        _leave_word(workspace, resumed)
    running = CommandRun(
        workspace,
        own or resumed.command,
        agent=resumed.state.agent,
        typed=sys.stdin.isatty(),
        warn=lambda e: say(call, f"NOT PROTECTED from here on: {e.message}", always=True),
    )
    tip = workspace.store.tip()
    if tip is None:
        resumed.let_go()
        raise Usage(f"{resumed.handle} has no checkpoint to go on from", next=("ckpt run -- COMMAND",))
    running.go_on(resumed.pen, resumed.handle, tip.number)
    with resident.beside(workspace.directory, workspace.root, running.argv) as found:
        report = running.carry_out({**os.environ, **found})
    say_after(call, workspace, running, report)
    return report.status


def _own_way(resumed: Resumed) -> tuple[str, ...]:
    """How the agent itself goes on with the conversation that it told of; empty where nobody knows."""
    from checkpointer.agents import goingon

    return tuple(goingon.words(resumed.state.agent or "", resumed.state.session or "", resumed.command))


def _leave_word(workspace: Workspace, resumed: Resumed) -> None:
    """What its hooks tell the agent at its first prompt: what was cut off, and what was undone since."""
    from checkpointer.agents import letterbox
    from checkpointer.agents.attaching import cut_off
    from checkpointer.run.session import directory

    undone = "".join(f"\n- {what}" for what in resumed.undone)
    told = [cut_off(resumed.settled)]
    if undone:
        told.append(
            f"Since then the person changed files with ckpt:{undone}\nRead files again before you rely on them."
        )
    letterbox.leave(directory(workspace.directory, resumed.state.run), "\n\n".join(filter(None, told)))


def _document(resumed: Resumed) -> dict[str, Any]:
    from checkpointer.cli import approvals
    from checkpointer.cli.uncertain import document

    settled = [
        {"key": s.key, "tool": s.tool, "verdict": s.verdict, "rule": s.rule, "by": s.by, "differing": list(s.differing)}
        for s in resumed.settled
    ]
    return {
        "schema": 1,
        "run": resumed.handle,
        "id": resumed.state.run,
        "command": list(resumed.command),
        "died": resumed.died,
        "events": resumed.state.seq,
        "finished_calls": resumed.finished,
        "settled": settled,
        "uncertain": [document(item) for item in resumed.uncertain],
        "approvals": [approvals.document(one) for one in resumed.asked],
        "undone": resumed.undone,
        "missing": resumed.missing,
        "stale": resumed.stale,
        "notes": resumed.notes,
        "started": False,
        **resumed.counters.as_json(),
    }
