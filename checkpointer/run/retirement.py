"""Logs of runs that are over are let go when their time has come.

A log stays while anything may still need it: a checkpoint of the run that is kept (its turns have their titles and
their undo from there), a pinned or labelled one that it names, an owner, a question that is open, a run that can be
gone on with. What went is written down in `runs/retired`, durably before anything is removed: a program that asks for a
run of that name must not begin it anew, and do again what was done.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from checkpointer import disk
from checkpointer.errors import Busy, CheckpointerError, Finished
from checkpointer.log import JsonlRuns
from checkpointer.replay import replay
from checkpointer.run import leftoff, pending, roster
from checkpointer.run import session as sessions
from checkpointer.state import RunState
from checkpointer.workspace.checkpoint import Checkpoint

RETIRED = "retired"
_DELETED = ".deleted"


class Gone(NamedTuple):
    """A run whose log went, or would go. `last` is when its last event was written."""

    run: str
    handle: str
    last: datetime
    bytes: int


@dataclass
class Retired:
    runs: list[Gone] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.runs)


def retire(
    store: Path, checkpoints: list[Checkpoint], named: set[int], age: timedelta, *, now: datetime, dry_run: bool = False
) -> Retired:
    """Let the logs go that are older than `age` and that nobody needs. The workspace lock is held, unless `dry_run`.

    `checkpoints` are all that are kept, `named` the numbers of those that are pinned or have a label. What cannot be
    told stays, and is said in `notes`.
    """
    out = Retired()
    directory = roster.runs_directory(store)
    if not dry_run:
        _finish(directory)
    handles = {handle for one in checkpoints for handle in one.meta.runs}
    for run in roster.names(store):
        with contextlib.suppress(FileNotFoundError):
            written = datetime.fromtimestamp(os.stat(directory / run / "events.jsonl").st_mtime, UTC)
            if now - written < age:
                continue  # the cheap answer for most
            if not dry_run:
                pending.settle(store, run)
            info = roster.read(store, run)
            if info.problem:
                out.notes.append(f"the log of {info.handle} is damaged, and stays: {info.problem}")
            elif info.handle not in handles and run not in handles and _may_go(store, info, named, now, age):
                assert info.last is not None
                gone = Gone(run, info.handle, info.last, _bytes(directory / run))
                if dry_run or _remove(store, gone, info, out.notes):
                    out.runs.append(gone)
    return out


def gone(store: Path, run: str) -> dict[str, Any] | None:
    """What is known of a run whose log was let go; None for any other name."""
    for one in _listed(roster.runs_directory(store)):
        if one.get("run") == run:
            return one
    return None


def refuse(store: Path, run: str) -> None:
    """Raises `Finished` for a name whose run is over and whose log was let go: begun anew, it would do all again."""
    known = gone(store, run)
    if known is not None:
        raise Finished(
            f"run {run} is over since {str(known.get('last'))[:10]}, and its log was let go: nobody knows what it did",
            kept="nothing was done again",
            next=("another run_id",),
        )


def _listed(directory: Path) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(OSError), open(directory / RETIRED, "rb") as f:
        for line in f:
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found


def _may_go(store: Path, info: roster.RunInfo, named: set[int], now: datetime, age: timedelta) -> bool:
    """Is the run over, for so long, and does nothing wait for it?"""
    if info.last is None or now - info.last < age or not info.ended:
        return False
    if sessions.journal(sessions.directory(store, info.run))[0]:
        return False  # what hooks told is not in it yet
    if info.status in leftoff.LEFT_OFF and not info.dismissed:
        return False
    log = JsonlRuns(os.fspath(roster.runs_directory(store))).log(info.run)
    try:
        state = replay(log).state
        if state.mode == "driven" and state.status != "finished" and not info.dismissed:
            return False  # its program goes on with it by its name
        if _waits(state) or log.letters("inbox"):
            return False
        return not any(_number(record.e) in named for record in log.raw())
    except CheckpointerError:
        return False
    finally:
        log.close()


def _waits(state: RunState) -> bool:
    """Is the outcome of a call unknown, or does one wait for a person?"""
    asked = any(one.status == "pending" for one in state.approvals.values())
    return asked or bool(state.doubts) or any(c.effect == "external" for c in (*state.open, *state.uncertain))


def _number(facts: dict[str, Any]) -> int | None:
    commit = facts.get("commit")
    return commit.get("number") if isinstance(commit, dict) else None


def _bytes(directory: Path) -> int:
    return sum(os.lstat(os.path.join(where, name)).st_size for where, _, names in os.walk(directory) for name in names)


def _remove(store: Path, one: Gone, info: roster.RunInfo, notes: list[str]) -> bool:
    """Write down that it went; then take it away. False where somebody is at it."""
    directory = roster.runs_directory(store)
    line = {"run": one.run, "handle": one.handle, "last": one.last.isoformat(), "status": info.status}
    known = b""
    with contextlib.suppress(FileNotFoundError):
        known = (directory / RETIRED).read_bytes()
    with disk.plain_errors("the list of runs that were let go"):
        disk.replace(directory / RETIRED, known + json.dumps(line).encode() + b"\n")
    try:
        JsonlRuns(os.fspath(directory)).delete(one.run)
        told = sessions.directory(store, one.run)
        if told.is_dir():
            with disk.plain_errors(os.fspath(told)):
                disk.remove_tree(told)
    except Busy:
        notes.append(f"somebody is at the log of {one.handle}: it stays for now")
        return False
    return True


def _finish(directory: Path) -> None:
    """Take away what a deletion that was cut short left. Who holds the workspace lock is the only one to delete."""
    for left in directory.glob(f"{RETIRED}.*.tmp"):
        with contextlib.suppress(OSError):
            disk.remove(left)
    for left in directory.glob(f".*{_DELETED}"):
        with contextlib.suppress(OSError):
            disk.remove_tree(left)
