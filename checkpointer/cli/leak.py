"""`ckpt purge --text`: a text that leaked into logs and checkpoints is found, named and taken out."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from checkpointer.cli import phrase
from checkpointer.cli.call import Call
from checkpointer.errors import NothingToDo, Usage
from checkpointer.workspace.entry import to_json

if TYPE_CHECKING:
    from checkpointer.run.leaks import Leak
    from checkpointer.workspace.workspace import Workspace

LEAST = 4
"""A text shorter than this stands everywhere."""


def purge(call: Call, text: str, *, yes: bool, dry_run: bool) -> int:
    """Find a text, ask, take it out; `-` reads it from stdin."""
    from checkpointer.run import leaks

    text = sys.stdin.read().strip("\n") if text == "-" else text
    if len(text) < LEAST:
        raise Usage(f"a text of at least {LEAST} characters", kept="nothing was written", next=("ckpt purge --text -",))
    workspace = call.acting(dry_run=dry_run)
    found = _in_runs(workspace, text)
    paths = leaks.in_checkpoints(workspace, text)
    if not found and not paths and not leaks.elsewhere(workspace, text):
        raise NothingToDo("no checkpoint and no run holds this text", kept="nothing was changed")
    if not call.out.json:
        _print(call, found, paths)
    if dry_run:
        return _done(call, workspace, text, found, paths, written=False)
    if any(found) or paths:
        call.confirm(
            "this takes the words of these events and these files out for good: no undo brings them back", yes=yes
        )
    _take_out(call, workspace, found, paths)
    return _done(call, workspace, text, found, paths, written=True)


def _in_runs(workspace: Workspace, text: str) -> list[Leak]:
    from checkpointer.log import JsonlRuns
    from checkpointer.run import leaks, roster

    runs, found = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory))), []
    for name in runs.runs():
        log = runs.log(name)
        leak = leaks.look(log, text)
        log.close()
        if leak or leak.problem:
            found.append(leak)
    return found


def _take_out(call: Call, workspace: Workspace, found: list[Leak], paths: dict[bytes, list[int]]) -> None:
    from checkpointer.log import JsonlRuns
    from checkpointer.run import leaks, roster
    from checkpointer.workspace.shadow import purge as purging

    runs = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory)))
    for leak in found:
        if leak and not leak.problem:
            log = runs.log(leak.run)
            try:
                leaks.take_out(log, leak, "a person had a text taken out")
            finally:
                log.close()
    if paths:
        with workspace.locked("purge"):
            workspace.settle()
            done = purging.purge(workspace.store, workspace.facts, sorted(paths))
        for note in done.notes:
            call.out.note(f"note: {note}")
        call.notices(workspace)


def _print(call: Call, found: list[Leak], paths: dict[bytes, list[int]]) -> None:
    out = call.out.line
    for leak in found:
        if leak.problem:
            out(f"  {leak.handle}: cannot be read, and so not cleaned: {leak.problem}")
        if leak.seqs:
            out(f"  {leak.handle}: the words of {phrase.count(len(leak.seqs), 'event')} ({_numbers(leak.seqs)})")
        if leak.facts:
            out(f"  {leak.handle}: names in events {_numbers(leak.facts)}, which hold the log together and stay")
        beside = len(leak.letters) + len(leak.files)
        if beside:
            out(f"  {leak.handle}: {phrase.count(beside, 'file')} beside the log")
    for path, numbers in sorted(paths.items()):
        out(f"  {phrase.shell(path)} in {phrase.count(len(numbers), 'checkpoint')} ({_numbers(numbers)})")


def _numbers(found: list[int]) -> str:
    shown = ", ".join(map(str, found[:8]))
    return shown if len(found) <= 8 else f"{shown} and {len(found) - 8} more"


def _done(
    call: Call, workspace: Workspace, text: str, found: list[Leak], paths: dict[bytes, list[int]], *, written: bool
) -> int:
    """What is left. 0 where nothing is, or nothing was to be written."""
    from checkpointer.run import leaks

    left = leaks.elsewhere(workspace, text) if written else []
    if call.out.json:
        call.out.document(_document(found, paths, left, written=written))
        return 1 if left else 0
    if not written:
        call.out.line("nothing was written")
        return 0
    for path in left:
        call.out.line(f"it still stands in {path}")
    there = [p for p in sorted(paths) if os.path.lexists(os.path.join(workspace.root, p))]
    if there:
        call.out.note(f"note: {phrase.paths(there)} is still on disk; without a rule in .ckptignore it is kept again")
    call.out.note(
        "note: backups, other copies and whoever was sent it are not reached: a secret that leaked is to be changed"
    )
    if not left:
        call.out.line("taken out; the logs stay whole, and ckpt events shows where words are missing")
    return 1 if left else 0


def _document(found: list[Leak], paths: dict[bytes, list[int]], left: list[str], *, written: bool) -> dict[str, Any]:
    return {
        "schema": 1,
        "written": written,
        "runs": [
            {
                "run": leak.handle,
                "id": leak.run,
                "events": leak.seqs,
                "facts": leak.facts,
                "files": len(leak.letters) + len(leak.files),
                "problem": leak.problem or None,
            }
            for leak in found
        ],
        "paths": [{"path": to_json(path), "checkpoints": numbers} for path, numbers in sorted(paths.items())],
        "left": left,
    }
