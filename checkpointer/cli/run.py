"""`ckpt run` and `ckpt runs`: a command whose changes can be undone; the runs there were."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Verbatim
from checkpointer.cli.call import Call
from checkpointer.cli.naming import named_paths
from checkpointer.cli.saving import Weighing, note_prompt, open_or_make, say_if_nothing
from checkpointer.errors import CheckpointerError, Usage
from checkpointer.run.child import CannotStart, Child
from checkpointer.workspace.entry import to_json

if TYPE_CHECKING:
    from checkpointer.run.command import CommandRun, Report
    from checkpointer.run.roster import RunInfo
    from checkpointer.run.tally import Tally
    from checkpointer.workspace.outcome import Saved
    from checkpointer.workspace.workspace import Workspace

NOT_STARTED = 125
"""The exit status where the workspace could not be protected, so that nothing was started."""


@click.command(cls=Verbatim, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--agent", metavar="NAME", help="What to call the agent; its program's name if not given.")
@click.option("--unprotected", is_flag=True, help="Start it even where its changes cannot be kept.")
@click.option("--force-root", is_flag=True, help="Even where a workspace should not be: a home, /, /tmp, a mount.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[--] CMD...")
@click.pass_obj
def run(call: Call, argv: tuple[str, ...], agent: str | None, unprotected: bool, force_root: bool) -> int:
    """Run CMD, an agent or anything else, so that what it changes can be undone.

    The files are in a checkpoint before CMD starts and after it ends, and at quiet moments between. CMD has the
    terminal, its signals and its exit status to itself; what else this prints goes to stderr, one line before and one
    after. Whatever changes while CMD works counts as its work, also what you type meanwhile.

    stdout is CMD's: with --json one document about the run is the last line on stderr instead of those two lines. Where
    nothing could be started it is on stdout, as everywhere.

    Exit status: that of CMD, 128+n for signal n; 125 where the directory cannot be protected (nothing was started),
    126 and 127 as in a shell.
    """
    words = argv[1:] if argv[:1] == ("--",) else argv
    if not words:
        raise Usage("run what? There is no command after ckpt run", next=("ckpt run -- COMMAND",))
    if words is argv and words[0].startswith("-"):
        raise Usage(f"ckpt run has no option {words[0]}", next=("ckpt run --help", f"ckpt run -- {words[0]} ..."))
    try:
        os.chdir(call.directory)
    except OSError as e:
        from checkpointer.cli import failure

        where = phrase.directory(call.directory)
        failure.report(Usage(f"{where}: {e.strerror}", kept="nothing was started"), as_json=call.out.json)
        return NOT_STARTED
    try:
        started = _begin(call, words, agent, force_root)
    except CheckpointerError as e:
        return _unprotected(call, words, e) if unprotected else _refuse(call, e)
    if started is None:
        return Child(words, os.environ).wait()
    workspace, running, base = started
    from checkpointer.cli import resident

    call.out.quiet |= call.out.json
    _say_before(call, workspace, running, base)
    try:
        with resident.beside(workspace.directory, workspace.root, words) as found:
            report = running.carry_out({**os.environ, **found})
    except CannotStart as e:
        say(call, e.message, always=True)
        return e.status
    say_after(call, workspace, running, report)
    if call.out.json:
        call.out.error(json.dumps(_ended(workspace, running, report)))
    return report.status


def _ended(workspace: Workspace, running: CommandRun, report: Report) -> dict[str, Any]:
    """What a run came to, for programs."""
    found = _tally(workspace, running, report)
    trouble = report.trouble
    return {
        "schema": 1,
        "run": running.handle,
        "turns": report.turns,
        "before": report.before,
        "after": report.after,
        "changed": [to_json(path) for path in named_paths(found.changed)],
        "outside": [to_json(path) for path in named_paths(found.outside)],
        "protected": trouble is None,
        "reason": trouble.message if trouble is not None else None,
        "exit": report.status,
    }


def _begin(
    call: Call, words: tuple[str, ...], agent: str | None, force_root: bool
) -> tuple[Workspace, CommandRun, Saved] | None:
    """The begun run; None inside a run of the same workspace, which protects the command already."""
    from checkpointer.run.command import CommandRun

    workspace = open_or_make(call, force_root=force_root)
    above = call.inside_agent()
    told_elsewhere = call.elsewhere() and above == os.environ.get("CKPT_RUN")  # another store's run of that name
    if above is not None and not told_elsewhere and _is_run_of(workspace, above):
        return None
    running = CommandRun(
        workspace,
        words,
        agent=agent or os.path.basename(words[0]),
        typed=sys.stdin.isatty(),
        warn=lambda e: say(call, f"NOT PROTECTED from here on: {e.message}", always=True),
    )
    with call.progress() as bar:
        first = workspace.store.tip() is None
        base = running.begin(progress=Weighing(call, workspace, bar) if first else bar)
    return workspace, running, base


def _is_run_of(workspace: Workspace, run: str) -> bool:
    from checkpointer.run import roster

    return any(info.run == run and info.alive != "dead" for info in roster.running(workspace.directory))


def _refuse(call: Call, error: CheckpointerError) -> int:
    from checkpointer.cli import failure

    failure.report(error, as_json=call.out.json)
    if not call.out.json:
        call.out.error("nothing was started; ckpt run --unprotected starts it all the same")
    return NOT_STARTED


def _unprotected(call: Call, words: tuple[str, ...], error: CheckpointerError) -> int:
    say(call, f"NOT PROTECTED: {error.message}", always=True)
    try:
        return Child(words, os.environ).wait()
    except CannotStart as e:
        say(call, e.message, always=True)
        return e.status


def say(call: Call, text: str, *, always: bool = False) -> None:
    (call.out.error if always else call.out.note)(f"ckpt: {text}")


def _say_before(call: Call, workspace: Workspace, running: CommandRun, base: Saved) -> None:
    if running.closed:
        gone = ", ".join(running.closed)
        say(call, f"{gone} died before its end; what changed since is in checkpoint {base.checkpoint.number}")
    where = phrase.directory(workspace.root)
    who = "what changes while it works is its turn, your own edits too"
    say(call, f"{running.handle} protects {where} from checkpoint {base.checkpoint.number} on; {who}")
    if not base.present.files:
        say_if_nothing(call, workspace)
    if base.uncovered:
        from checkpointer.cli.saving import uncovered_words

        say(call, "not covered: " + uncovered_words(workspace, base.uncovered))
    call.notices(workspace)


def say_after(call: Call, workspace: Workspace, running: CommandRun, report: Report) -> None:
    call.notices(workspace)
    if report.trouble is not None:
        say(call, f"NOT PROTECTED: {report.trouble.message}", always=True)
        say(call, f"the files as of before the trouble are in checkpoint {report.after}", always=True)
        for command in report.trouble.next:
            call.out.error(f"next: {command}")
        return
    note_prompt(workspace)
    if report.lost is not None:
        say(call, f"watching was incomplete ({report.lost}): steps may be joined, nothing is missing")
    found = _tally(workspace, running, report)
    say(call, _of_turns(running, report, found))
    if outside := named_paths(found.outside):
        say(call, f"{phrase.paths(outside)} changed outside the turns: not the agent's, as far as ckpt can tell")


def _tally(workspace: Workspace, running: CommandRun, report: Report) -> Tally:
    from checkpointer.run.tally import tally

    return tally(workspace.timeline(), running.handle, report.turns, report.before, report.after)


def _of_turns(running: CommandRun, report: Report, found: Tally) -> str:
    changed = named_paths(found.changed)
    if not report.turns:
        return f"{running.handle} changed nothing"
    turns = report.turns[0] if len(report.turns) == 1 else f"{report.turns[0]} to {report.turns[-1]}"
    if not changed:
        return f"{turns} changed files and changed them back"
    return f"{turns} changed {phrase.count(len(changed), 'file')}: {phrase.paths(changed)}   (undo: {found.undo})"


class _Listing(Verbatim):
    split_paths = True
    needs_directory = True


@click.command(cls=_Listing)
@click.option("-n", "number", type=int, default=20, show_default=True, help="How many.")
@click.option("--dismiss", "dismissed", multiple=True, metavar="RUN", help="Do not list it as cut off any more.")
@click.pass_obj
def runs(call: Call, number: int, dismissed: tuple[str, ...]) -> int:
    """The runs of this workspace, newest first: who worked, since when, how it ended.

    A run that did not come to its end is listed by `ckpt` until it is gone on with, or dismissed (--dismiss may be
    given again). That is written in its log; `ckpt resume RUN` goes on with it all the same, and no file is touched.
    """
    from checkpointer.run import roster

    if dismissed:
        from checkpointer.cli.dismissal import dismiss

        return dismiss(call, dismissed)
    workspace = call.workspace()
    found = [roster.read(workspace.directory, name) for name in roster.names(workspace.directory)]
    found.sort(key=lambda info: info.started.timestamp() if info.started else 0.0, reverse=True)
    if not found and not call.out.json:
        call.out.line("no runs yet")
        call.out.hint("next: ckpt run -- COMMAND")
    for info in found[:number]:
        if call.out.json:
            call.out.document(_document(info))
        else:
            call.out.line(_line(call, info))
    return 0


def how_it_stands(info: RunInfo) -> str:
    """`running`, `died`, `ended`, `ended with 3`, `interrupted`, `interrupted, dismissed`, `damaged`."""
    if info.problem:
        return "damaged"
    if not info.ended:
        return {"dead": "died", "alive": "running"}.get(info.alive, "running, as far as can be told")
    stood = info.status if not info.exit else f"{info.status} with {info.exit}"
    return f"{stood}, dismissed" if info.dismissed else stood


def _line(call: Call, info: RunInfo) -> str:
    age = phrase.age(info.started) if info.started else ""
    stands = how_it_stands(info)
    coloured = call.out.style(f"{stands:18}", *(("red",) if stands in ("died", "damaged", "interrupted") else ()))
    turns = phrase.count(len(info.turns), "turn")
    words = " ".join(info.command) or (next(iter(info.turns.values())).prompt if info.turns else "")
    return f"{info.handle:>5}  {age:8} {info.agent[:16]:10} {coloured} {turns:8}  {phrase.quoted(words)}".rstrip()


def _document(info: RunInfo) -> dict[str, Any]:
    return {
        "run": info.handle,
        "id": info.run,
        "agent": info.agent or None,
        "mode": info.mode,
        "command": list(info.command),
        "status": info.status,
        "dismissed": info.dismissed,
        "exit": info.exit,
        "owner": info.alive if not info.ended else None,
        "started": phrase.stamp(info.started) if info.started else None,
        "last": phrase.stamp(info.last) if info.last else None,
        "turns": [f"t{n}" for n in sorted(info.turns)],
        "checkpoint": info.checkpoint,
        "events": info.events,
        "problem": info.problem or None,
    }
