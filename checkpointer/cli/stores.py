"""`ckpt workspaces`, `ckpt gc`, `ckpt verify`: what stores there are, giving space back, checking every promise."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from checkpointer import home
from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.cli.status import bytes_below
from checkpointer.config import parse_size
from checkpointer.errors import CheckpointerError, Damaged, Usage
from checkpointer.home import Place
from checkpointer.workspace.entry import to_json

if TYPE_CHECKING:
    from checkpointer.audit import Audit
    from checkpointer.run.retirement import Retired
    from checkpointer.workspace.workspace import Workspace

_SHOWN = 8
STATES = {
    "here": "",
    "gone": "the directory is gone",
    "remade": "another directory stands there now",
    "moved": "moved",
    "imported": "imported, to be looked at",
}


@click.command(cls=Command)
@click.pass_obj
def workspaces(call: Call) -> int:
    """Every directory that has a store: its newest checkpoint, and the space it takes."""
    home.sweep()
    found = home.places()
    for place in found:
        facts = _facts(place)
        if call.out.json:
            call.out.document(facts)
        else:
            call.out.line(_line(place, facts))
    if not found and not call.out.json:
        call.out.note("no directory has a store yet")
    return 0


def _facts(place: Place) -> dict[str, Any]:
    from checkpointer.workspace.shadow.history import History

    facts: dict[str, Any] = {
        "workspace": to_json(place.root) if place.root else None,
        "store": str(place.directory),
        "state": place.state,
        "checkpoint": None,
        "at": None,
        "checkpoints": 0,
        "store_bytes": bytes_below(place.directory),
        "error": None,
    }
    try:
        history = History(place.directory / "shadow.git")
        chain = history.checkpoints()
        facts["checkpoints"] = len(chain)
        if chain:
            facts["checkpoint"] = chain[-1].number
            facts["at"] = phrase.stamp(chain[-1].meta.at)
            facts["age"] = phrase.age(chain[-1].meta.at)
    except CheckpointerError as e:
        facts["error"] = e.message
    return facts


def _line(place: Place, facts: dict[str, Any]) -> str:
    name = phrase.directory(place.root) if place.root else str(place.directory)
    state = STATES[place.state] if place.root else "workspace.toml is damaged"
    return "  ".join(
        word
        for word in (
            f"{name:40}",
            f"{phrase.size(facts['store_bytes']):>8}",
            f"{phrase.count(facts['checkpoints'], 'checkpoint'):>16}",
            f"{facts.get('age', 'none'):>8}",
            state,
            facts["error"] or "",
        )
        if word
    ).rstrip()


@click.command(cls=Command)
@click.option("--keep-days", type=click.IntRange(min=0), metavar="N", help="Keep what is younger.")
@click.option("--keep-number", type=click.IntRange(min=1), metavar="N", help="Keep so many of the newest.")
@click.option("--keep-runs", type=click.IntRange(min=0), metavar="N", help="Keep logs of runs over for N days.")
@click.option("--budget", metavar="SIZE", help="Drop the oldest until the store fits.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be dropped, do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def gc(
    call: Call,
    keep_days: int | None,
    keep_number: int | None,
    keep_runs: int | None,
    budget: str | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Drop old checkpoints and give space back. Pinned and labelled ones stay.

    Then the logs of runs go that were over long ago and of which no checkpoint is kept: not of one that lives, that can
    be gone on with (unless it was dismissed), or of whose calls an outcome is unknown.
    """
    call.person_only("gc")
    call.place()
    rules = {
        "gc.keep_days": keep_days,
        "gc.keep_number": keep_number,
        "gc.keep_runs": keep_runs,
        "gc.budget": _size(budget) if budget is not None else None,
    }
    below = [name for name, value in rules.items() if value is not None and value < call.config.integer(name)]
    if below and not dry_run:
        call.confirm(f"this keeps less than {', '.join(below)} of the configuration", yes=yes)
    chosen = {name: call.config.integer(name) if value is None else value for name, value in rules.items()}
    return _collect(call, chosen, dry_run)


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError:
        raise Usage(f"{text!r} is no size", next=("ckpt gc --budget '500 MB'",)) from None


def _collect(call: Call, chosen: dict[str, int], dry_run: bool) -> int:
    from checkpointer.run import leftoff
    from checkpointer.workspace.shadow import retention
    from checkpointer.workspace.undoing.cut import may_begin, needed_from

    limits = retention.Limits(timedelta(days=chosen["gc.keep_days"]), chosen["gc.keep_number"], chosen["gc.budget"])
    workspace = call.acting(dry_run=dry_run)
    with contextlib.nullcontext() if dry_run else workspace.locked("gc"):
        if not dry_run:
            workspace.settle()
        timeline = workspace.timeline()
        done = retention.gc(
            workspace.store,
            workspace.facts,
            limits,
            now=datetime.now(UTC),
            may_cut=may_begin(timeline),
            needed_from=needed_from(timeline),
            needed=leftoff.checkpoints(workspace.directory),
            dry_run=dry_run,
        )
        runs = _retire(workspace, set(done.dropped), timedelta(days=chosen["gc.keep_runs"]), dry_run)
    call.notices(workspace)
    after = bytes_below(workspace.directory)
    if call.out.json:
        call.out.document(
            {
                "schema": 1,
                "dropped": done.dropped,
                "first_kept": done.first_kept,
                "freed": done.freed,
                "store_bytes": after,
                "temporaries": done.swept.temporaries,
                "consolidated": done.consolidated,
                "runs": [{"run": r.handle, "id": r.run, "last": phrase.stamp(r.last)} for r in runs.runs],
                "runs_bytes": runs.bytes,
                "notes": [*done.notes, *runs.notes],
                "dry_run": dry_run,
            }
        )
        return 0
    verb = "would drop" if dry_run else "dropped"
    kept = f"; the oldest kept is {done.first_kept}" if done.first_kept is not None else ""
    call.out.line(f"{verb} {phrase.count(len(done.dropped), 'checkpoint') if done.dropped else 'no checkpoint'}{kept}")
    if runs.runs:
        names = " ".join(r.handle for r in runs.runs[:_SHOWN])
        more = f" and {len(runs.runs) - _SHOWN} more" if len(runs.runs) > _SHOWN else ""
        logs = phrase.count(len(runs.runs), "run's log", "runs' logs")
        call.out.line(f"{verb} {logs}: {names}{more} ({phrase.size(runs.bytes)})")
    if not dry_run:
        total = done.freed + runs.bytes
        freed = f"{phrase.size(total)} freed, " if total else ""
        call.out.line(f"{freed}the store takes {phrase.size(after)}")
    for text in (*done.notes, *runs.notes):
        call.out.note(f"note: {text}")
    return 0


def _retire(workspace: Workspace, dropped: set[int], age: timedelta, dry_run: bool) -> Retired:
    """The logs that go with the checkpoints that went, or would go."""
    from checkpointer.run import retirement

    store = workspace.store
    kept = [c for c in (*store.kept(), *store.checkpoints()) if c.number not in dropped]
    named = {*store.pinned(), *(c.number for c in kept if c.meta.label)}
    return retirement.retire(workspace.directory, kept, named, age, now=datetime.now(UTC), dry_run=dry_run)


@click.command(cls=Command)
@click.pass_obj
def verify(call: Call) -> int:
    """Check every promise of the store, and say what could not be checked. Ends with 5 if something is damaged.

    Nothing is changed, but for this: where a snapshot of a run's state leads elsewhere than its log, snapshots of that
    version are used no more.
    """
    from checkpointer import audit
    from checkpointer.workspace.shadow.history import History

    place = call.place()
    with call.progress() as bar:
        found = audit.verify(History(place.directory / "shadow.git"), progress=bar)
    quarantined = _gate(call, found)
    if call.out.json:
        findings = [
            {
                "what": f.what,
                "message": f.message,
                "checkpoint": f.checkpoint,
                "run": f.run,
                "event": f.event,
                "harmless": f.harmless,
            }
            for f in found.findings
        ]
        call.out.document(
            {
                "schema": 1,
                "sound": found.sound,
                "findings": findings,
                "unchecked": found.unchecked,
                "checked": found.checked,
                "quarantined": quarantined,
            }
        )
        return 0 if found.sound else Damaged.exit
    for finding in found.findings:
        mark = "note" if finding.harmless else call.out.style("damaged", "red", "bold")
        call.out.line(f"{mark}: {finding.message}")
    for text in found.unchecked:
        call.out.line(f"not checked: {text}")
    if quarantined:
        call.out.line(
            "no snapshot of this version is used here any more: runs are read whole from their logs, which is slower, "
            "and right. Please report it."
        )
    counts = ", ".join(phrase.count(n, what.removesuffix("s"), what) for what, n in found.checked.items())
    verdict = "every promise holds" if found.sound else "the store is damaged; what is not named above stays usable"
    call.out.line(f"{verdict}: checked {counts}")
    return 0 if found.sound else Damaged.exit


def _gate(call: Call, found: Audit) -> bool:
    """Use snapshots no more where one was wrong. True if that is written down now."""
    if not found.misled:
        return False
    from checkpointer import audit

    try:
        audit.quarantine(found)
    except CheckpointerError as e:
        call.out.note(f"note: snapshots are still used, as that could not be written down: {e.message}")
        return False
    return True
