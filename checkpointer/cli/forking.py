"""`ckpt fork`: a new run from a point of another, with its own copy of the files in a directory of its own."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.cli.difference import points_of
from checkpointer.cli.events import log_of
from checkpointer.errors import Usage
from checkpointer.workspace import guard
from checkpointer.workspace.entry import to_json

if TYPE_CHECKING:
    from checkpointer.events import AnyEvent
    from checkpointer.log import JsonlLog
    from checkpointer.run.branching import Stop
    from checkpointer.run.forking import Forked
    from checkpointer.workspace.checkpoint import Checkpoint
    from checkpointer.workspace.workspace import Workspace

_TURN = re.compile(r"t(\d{1,9})(?:\.(\d{1,9}))?(-?)")
_SHOWN = 10


@click.command(cls=Command)
@click.argument("run", metavar="RUN")
@click.argument("words", nargs=-1, required=True, metavar="[@POINT] DIR")
@click.pass_obj
def fork(call: Call, run: str, words: tuple[str, ...]) -> int:
    """Begin another run from a point of RUN, with the files as they were then, in DIR; RUN and its files stay.

    DIR must not be there, or be empty. The new run knows the conversation up to the point: the same program, started
    in DIR, goes on from there. What RUN did outside, before the point or after it, is not done again: a call that
    would do the same gets RUN's result, unless it says that it means a repeat. What is not in a checkpoint (ignored
    files, .git) is not in DIR. POINT is a turn, a step, a checkpoint, a label or a time; without one it is RUN's end.
    """
    from checkpointer.places import imported
    from checkpointer.run import forking

    call.person_only("ckpt fork")
    if len(words) > 2 or (len(words) == 2 and not words[0].startswith("@")) or words[-1].startswith("@"):
        raise Usage("fork takes a run, a point and a directory", next=("ckpt fork r7 @t3 ../try",))
    workspace = call.workspace()
    log = log_of(workspace, run)
    root = guard.real(os.path.join(call.directory, os.fsencode(words[-1])))
    try:
        stop, wanted = _point(workspace, log, run, words[0]) if len(words) == 2 else (_never, None)
        done = forking.fork(workspace, log, root, stop=stop, wanted=wanted)
    finally:
        log.close()
    call.notices(workspace)
    if call.out.json:
        call.out.document(_document(done))
        return 0
    _print(call, done, words[-1])
    if imported(workspace.directory) is not None:
        call.out.note(f"note: what {done.parent} did after it was exported is not known here")
    return 0


def _print(call: Call, done: Forked, typed: str) -> None:
    where = phrase.directory(done.root)
    if done.finished:
        call.out.line(f"{where} is a fork of {done.parent} already, which was cut short: its files are there now")
        return
    call.out.line(
        f"forked {done.parent} after its event {done.seq}: {done.handle} in {where}, "
        f"files as of checkpoint {done.checkpoint}"
    )
    if done.since:
        call.out.line(
            f"{done.parent} did this since; the same call is answered with it here, unless it means a repeat:"
        )
        for one in done.since[:_SHOWN]:
            call.out.line(f"  {_words(one)}{'' if one.status == 'done' else '   (nobody knows its outcome)'}")
        if len(done.since) > _SHOWN:
            call.out.line(f"  and {len(done.since) - _SHOWN} more (--json lists them)")
    if done.unknown:
        calls = phrase.count(done.unknown, "call")
        call.out.line(f"{calls} outside cannot be recognised, as their words were purged: the fork might repeat them")
    if done.uncovered:
        call.out.line(f"not in it, as no checkpoint holds it: {phrase.paths(sorted(done.uncovered))}")
    at = phrase.shell(os.fsencode(typed))
    call.out.hint(f"next: ckpt -C {at} resume {done.handle}   or start its program in {at} by open_run")


def _words(one: Any) -> str:
    from checkpointer import canon

    said = canon.thaw(one.arguments)
    given = ", ".join(f"{name}={value!r}" for name, value in said.items()) if isinstance(said, dict) else "..."
    line = "".join(c if c.isprintable() else " " for c in f"{one.tool}({given})")
    return line if len(line) <= 80 else f"{line[:77]}..."


def _document(done: Forked) -> dict[str, Any]:
    from checkpointer import canon

    return {
        "schema": 1,
        "run": done.handle,
        "id": done.run,
        "directory": to_json(done.root),
        "store": os.fspath(done.store),
        "parent": done.parent,
        "after_event": done.seq,
        "checkpoint": done.checkpoint,
        "finished": done.finished,
        "since": [
            {"key": e.key, "tool": e.tool, "arguments": _plain(canon.thaw(e.arguments)), "status": e.status, "at": e.at}
            for e in done.since
        ],
        "unrecognised": done.unknown,
        "uncovered": [{"path": to_json(p), "reason": r} for p, r in sorted(done.uncovered.items())],
    }


def _plain(value: Any) -> Any:
    import json

    from checkpointer import canon

    return json.loads(canon.dumps(canon.freeze(value)))


def _never(event: AnyEvent) -> bool:
    return False


def _point(workspace: Workspace, log: JsonlLog, run: str, typed: str) -> tuple[Stop, Checkpoint | None]:
    """Where the fork begins, and as of which checkpoint, if that was named."""
    rest = typed[1:]
    turn = _TURN.fullmatch(rest)
    if turn:
        return _at_turn(log, run, typed, int(turn[1]), int(turn[2]) if turn[2] else None, bool(turn[3])), None
    points = points_of(workspace)
    labels = {name for c in points.all for name in (c.meta.label, *c.meta.names) if name}
    plain = rest.isascii() and (rest.isdigit() or re.fullmatch(r"[0-9a-f]{7,40}", rest) is not None)
    if rest == "now":
        raise Usage(
            "a fork begins with a checkpoint", kept="nothing was written", next=("ckpt save, then @its number",)
        )
    wanted = points.resolve(rest if plain or rest in labels else typed)
    assert wanted is not None
    moment = points.moment(typed) if not plain and rest not in labels else None

    def stop(event: AnyEvent) -> bool:
        from checkpointer.machine import moment as read

        at = read(event.at)
        number = event.commit.number if event.commit is not None else None
        late = moment is not None and at is not None and at > moment
        return late or (number is not None and number > wanted.number)

    return stop, wanted


def _at_turn(log: JsonlLog, run: str, typed: str, number: int, step: int | None, before: bool) -> Stop:
    """Right after a turn or a step of one, or right before it. Raises `Usage` where the run has none such."""
    from checkpointer.events import ToolCallStarted, UserMessage

    found: set[tuple[int, int]] = set()
    for record in log.read():
        event = record.event
        if isinstance(event, UserMessage) and event.turn is not None:
            found.add((event.turn, 0))
        elif isinstance(event, ToolCallStarted) and event.turn is not None:
            found.add((event.turn, event.step or 0))
    place = (number, step or 0)
    if place not in found:
        turns = ", ".join(f"@t{n}" for n in sorted({n for n, _ in found})[-5:])
        raise Usage(
            f"{run} has no {typed[1:].removesuffix('-')}",
            kept="nothing was written",
            next=(f"ckpt log --run {run}", *((f"its turns: {turns}",) if turns else ())),
        )
    last = place if step is not None else (number, 1 << 40)

    def stop(event: AnyEvent) -> bool:
        if isinstance(event, UserMessage) and event.turn is not None:
            mine = (event.turn, 0)
        elif isinstance(event, ToolCallStarted) and event.turn is not None:
            mine = (event.turn, event.step or 0)
        else:
            return False
        return mine >= place if before else mine > last

    return stop
