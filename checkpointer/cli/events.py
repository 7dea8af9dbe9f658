"""`ckpt events`: a run's log, a line for each event."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.errors import CheckpointerError, LogDamaged, NeedsMigration, Usage

if TYPE_CHECKING:
    from checkpointer.events import Event
    from checkpointer.log import JsonlLog
    from checkpointer.record import Record
    from checkpointer.workspace.workspace import Workspace

PAUSE = 0.2
"""Seconds between two looks of `--follow`."""
_ENVELOPE = ("seq", "w", "n", "v", "type", "id", "at", "epoch", "context", "commit", "unprotected")
_WIDTH = 100
_DULL = ("owner", "previous", "writer", "fold", "tools", "durability", "environment", "args_digest", "terms")
"""Facts that a line for people leaves out, unless it is to be long (`-v`)."""


@click.command(cls=Command)
@click.option("--follow", "-f", is_flag=True, help="Go on as events come, until Ctrl-C or the run is finished.")
@click.option("--salvage", is_flag=True, help="Read on past damage: what is whole by itself, and what is not.")
@click.option("--type", "types", multiple=True, metavar="T", help="Only this type (may be given again).")
@click.argument("run", required=False, metavar="[RUN]")
@click.pass_obj
def events(call: Call, run: str | None, follow: bool, salvage: bool, types: tuple[str, ...]) -> int:
    """The events of a run, oldest first; of the newest run if none is named. Nothing is written.

    With --json, a line for each: what the log holds, contents included. A damaged log is refused where its damage
    begins; with --salvage the events after it follow, as far as they are whole, and lines that are not are named
    (--json: `{"damaged": ...}`). Nothing proves that those belong where they stand.
    """
    from checkpointer.events import TYPES

    unknown = [t for t in types if t not in TYPES]
    if unknown:
        raise Usage(f"no type of event is called {unknown[0]}: there are {', '.join(sorted(TYPES))}")
    if follow and salvage:
        raise Usage("--salvage reads what is there, and --follow waits for more: one of them")
    log = log_of(call.workspace(), run)
    try:
        if salvage:
            return _salvage(call, log, types)
        if follow:
            _follow(call, log, types)
        else:
            with call.out.paged(str(call.config["ui.pager"])):
                for record in log.read():
                    _print(call, log, record, types)
    except NeedsMigration as e:
        e.next = (f"ckpt migrate {run or log.run}",)
        raise
    except LogDamaged as e:
        e.next = (f"ckpt events {run or log.run} --salvage", *e.next)
        raise
    finally:
        log.close()
    return 0


def _salvage(call: Call, log: JsonlLog, types: tuple[str, ...]) -> int:
    """What is whole by itself, in the order of the file. The exit status of damage where there is any."""
    from checkpointer.log.salvage import Damage, salvage

    status = 0
    with call.out.paged(str(call.config["ui.pager"])):
        for part in salvage(log):
            if not isinstance(part, Damage):
                _print(call, log, part, types)
                continue
            status = status if part.tail else LogDamaged.exit
            if call.out.json:
                lines = {"first_line": part.first, "last_line": part.last}
                call.out.document({"damaged": {**lines, "why": part.why, "tail": part.tail}})
            else:
                where = f"line {part.first}" if part.first == part.last else f"lines {part.first} to {part.last}"
                torn = "; it was never written whole" if part.tail else ""
                call.out.line(call.out.style(f"{'':>6}  damaged: {where}: {part.why}{torn}", "red"))
    return status


def log_of(workspace: Workspace, run: str | None) -> JsonlLog:
    """The log of a run by its handle or its own name; the newest one for None. Raises `Usage` where there is none."""
    from checkpointer.log import JsonlRuns
    from checkpointer.run import roster

    runs = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory)))
    names = runs.runs()
    if not names and run is None:
        raise Usage("there are no runs yet", next=("ckpt run -- COMMAND",))
    if run is None:
        return runs.log(max(names, key=lambda name: os.stat(os.path.join(runs.directory, name)).st_mtime_ns))
    if run in names:
        return runs.log(run)
    for name in names:
        if roster.read(workspace.directory, name).handle == run:
            return runs.log(name)
    from checkpointer.run import retirement

    if retirement.gone(workspace.directory, run) is not None:
        raise Usage(f"the log of {run} was let go by ckpt gc", next=("ckpt runs",))
    raise Usage(f"there is no run {run}", next=("ckpt runs",))


def _follow(call: Call, log: JsonlLog, types: tuple[str, ...]) -> None:
    from checkpointer.log import Cut

    def wait() -> bool:
        time.sleep(PAUSE)
        return True

    for record in log.follow(wait=wait):
        if isinstance(record, Cut):
            if call.out.json:
                call.out.document({"cut_after": record.seq})
            else:
                call.out.line(f"what was shown after event {record.seq} is not in the log any more")
            continue
        _print(call, log, record, types)
        if record.event.type == "run_finished":
            return


def _print(call: Call, log: JsonlLog, record: Record, types: tuple[str, ...]) -> None:
    from checkpointer import machine

    if types and record.event.type not in types:
        return
    try:
        event, problem = record.load(log.fetch), ""
    except CheckpointerError as e:
        event, problem = record.event, e.message
    plain = as_json(event)
    if call.out.json:
        call.out.document({**plain, **({"redacted": True} if record.redacted else {})})
        return
    moment = machine.moment(event.at)
    at = phrase.clock(moment) if moment is not None else "no time"
    left_out = _ENVELOPE if call.verbose else (*_ENVELOPE, *_DULL)
    facts = {k: v for k, v in plain.items() if k not in left_out and v not in (None, "", [], {}, False)}
    words = " ".join(f"{k}={v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}" for k, v in facts.items())
    words = "".join(c if c.isprintable() else " " for c in words)
    words = words if len(words) <= _WIDTH or call.verbose else words[: _WIDTH - 3] + "..."
    more = "  (redacted)" if record.redacted else f"  ({problem})" if problem else ""
    call.out.line(f"{event.seq:>6}  {at}  {call.out.style(f'{event.type:20}', 'cyan')}  {words}{more}".rstrip())


def as_json(event: Any) -> dict[str, Any]:
    """An event with its contents as JSON values; what was redacted or is not here is left out."""
    from checkpointer import canon
    from checkpointer.events import ABSENT, content_fields

    cls: type[Event] = type(event)
    contents = content_fields(cls)
    plain = dict(event.model_dump(mode="json", exclude=set(contents)))
    for name in contents:
        value = getattr(event, name)
        if value is not ABSENT:
            plain[name] = json.loads(canon.dumps(value))  # bytes as the log has them
    return plain
