"""`ckpt export` and `ckpt import`: a run as one file that can be checked without us, and back into a store."""

from __future__ import annotations

import os
from typing import Any

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.errors import NeedsMigration, Usage
from checkpointer.workspace import guard
from checkpointer.workspace.entry import to_json

SUFFIX = b".ckpt"


@click.command(cls=Command)
@click.argument("run", metavar="RUN")
@click.argument("file", metavar="FILE")
@click.pass_obj
def export(call: Call, run: str, file: str) -> int:
    """Write a run to FILE, which must not be there: its log, and every checkpoint from its first to its last.

    FILE is a tar. It holds the contents of all covered files at those checkpoints, and all that was said to the
    agent and by it: whoever has it can read that, secrets included. `ckpt purge` takes something out beforehand.
    How FILE is checked without ckpt stands in docs/format.md.
    """
    from checkpointer.bundle import exporting
    from checkpointer.cli.events import log_of
    from checkpointer.run import roster
    from checkpointer.run import session as sessions

    call.person_only("ckpt export")
    workspace = call.workspace()
    log = log_of(workspace, run)
    target = os.path.normpath(os.path.join(call.directory, os.fsencode(file)))
    if os.path.isdir(target):
        raise Usage(f"{phrase.directory(target)} is a directory", kept="nothing was written", next=("name a file",))
    info = roster.read(workspace.directory, log.run)
    try:
        done = exporting.export(workspace.store, workspace.root, log, info.handle, target)
    except NeedsMigration as e:
        e.next = (f"ckpt migrate {run}", "then the same again")
        raise
    finally:
        log.close()
    call.notices(workspace)
    said = done.manifest
    if call.out.json:
        call.out.document(
            {"schema": 1, "file": to_json(done.path), "bytes": done.size, "ended": info.ended, **_document(said)}
        )
        return 0
    call.out.line(
        f"exported {said.handle} to {phrase.shell(os.fsencode(file))}: {phrase.count(said.events, 'event')}, "
        f"{phrase.count(len(said.chain) + len(said.alone), 'checkpoint')}, {phrase.size(done.size)}"
    )
    if said.missing:
        call.out.line(f"kept no more, so not in it: {_numbers(said.missing)}")
    if sessions.journal(sessions.directory(workspace.directory, log.run))[0]:
        call.out.note("note: what its hooks told since the end of its last turn is not in its log yet, nor in the file")
    if not info.ended and info.alive != "dead":
        call.out.note(f"note: {said.handle} goes on; this is what it was after event {said.events}")
    if _inside(target, workspace.root):
        call.out.note("note: it lies in this directory, so the next checkpoint holds it too")
    call.out.note("note: it holds the contents of all these files; whoever has it can read them")
    call.out.hint(f"next: ckpt import {phrase.shell(os.fsencode(file))}")
    return 0


@click.command("import", cls=Command)
@click.argument("file", metavar="FILE")
@click.argument("directory", required=False, metavar="[DIR]")
@click.pass_obj
def import_(call: Call, file: str, directory: str | None) -> int:
    """Verify a run that was exported to FILE, and keep it to be looked at: log, show, diff, cat, events with -C DIR.

    DIR is only the name it is found by (that of FILE without .ckpt, if none is given): it need not exist, and
    nothing is written in it. Undo and resume are refused there, as the run stands where it came from. A FILE that
    is not whole, or holds anything that an export does not write, is refused, and nothing is written.
    """
    from checkpointer.bundle import importing

    call.person_only("ckpt import")
    source = os.path.join(call.directory, os.fsencode(file))
    name = os.fsencode(directory) if directory else os.path.basename(source).removesuffix(SUFFIX)
    if not directory and os.path.join(call.directory, name) == os.path.normpath(source):
        name += b".run"
    root = guard.real(os.path.join(call.directory, name))
    done = importing.bring(source, root)
    said = done.manifest
    if call.out.json:
        call.out.document(
            {
                "schema": 1,
                "directory": to_json(root),
                "store": os.fspath(done.place.directory),
                "created": done.made,
                **_document(said),
            }
        )
        return 0
    where = phrase.directory(root)
    if not done.made:
        call.out.line(f"{said.handle} stands in {where} already, just as it is in the file: nothing to do")
        return 0
    counts = f"{phrase.count(said.events, 'event')}, {phrase.count(len(said.chain) + len(said.alone), 'checkpoint')}"
    call.out.line(f"imported {said.handle} of {phrase.directory(said.workspace)} as {where}: {counts}, verified")
    if said.missing:
        call.out.line(f"not in it, as they were kept no more: {_numbers(said.missing)}")
    typed = phrase.shell(name)
    call.out.hint(f"next: ckpt -C {typed} log   ckpt -C {typed} events   ckpt forget {typed}")
    return 0


def _document(said: Any) -> dict[str, Any]:
    return {
        "run": said.handle,
        "id": said.run,
        "workspace": to_json(said.workspace),
        "events": said.events,
        "sum": said.sum,
        "checkpoints": [one.number for one in (*said.alone, *said.chain)],
        "missing": list(said.missing),
    }


def _numbers(numbers: tuple[int, ...]) -> str:
    few = ", ".join(map(str, numbers[:8]))
    words = "checkpoint" if len(numbers) == 1 else "checkpoints"
    return f"{words} {few}" + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")


def _inside(path: bytes, root: bytes) -> bool:
    return (
        guard.real(os.path.dirname(path)).startswith(root.rstrip(b"/") + b"/")
        or guard.real(os.path.dirname(path)) == root
    )
