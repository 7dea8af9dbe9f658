"""`ckpt workspaces`, `ckpt gc`, `ckpt verify`: what stores there are, giving space back, checking every promise."""

from __future__ import annotations

import os
from typing import Any

import click

from checkpointer import home
from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.cli.status import bytes_below
from checkpointer.config import parse_size
from checkpointer.errors import CheckpointerError, Usage
from checkpointer.home import Place
from checkpointer.workspace.entry import to_json

STATES = {"here": "", "gone": "the directory is gone", "remade": "another directory stands there now", "moved": "moved"}


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
    from checkpointer.workspace.history import History

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
@click.option("--budget", metavar="SIZE", help="Drop the oldest until the store fits.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be dropped, do nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def gc(call: Call, keep_days: int | None, keep_number: int | None, budget: str | None, dry_run: bool, yes: bool) -> int:
    """Drop old checkpoints and give space back. Pinned and labelled ones stay."""
    call.person_only("gc")
    call.place()
    rules = {
        "gc.keep_days": keep_days,
        "gc.keep_number": keep_number,
        "gc.budget": _size(budget) if budget is not None else None,
    }
    below = [name for name, value in rules.items() if value is not None and value < call.config.integer(name)]
    if below and not dry_run:
        call.confirm(f"this keeps less than {', '.join(below)} of the configuration", yes=yes)
    chosen = {name: call.config.integer(name) if value is None else value for name, value in rules.items()}
    workspace = call.workspace(write=not dry_run)
    return _collect(call, workspace, chosen, dry_run)


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError:
        raise Usage(f"{text!r} is no size", next=("ckpt gc --budget '500 MB'",)) from None


def _collect(call: Call, workspace: Any, chosen: dict[str, int], dry_run: bool) -> int:
    raise NotImplementedError


@click.command(cls=Command)
@click.pass_obj
def verify(call: Call) -> int:
    """Check every promise of the store, and say what could not be checked. Ends with 5 if something is damaged."""
    raise NotImplementedError


def store_growth(before: int, place: Place) -> str:
    after = bytes_below(place.directory)
    return f"{phrase.size(before)} -> {phrase.size(after)}" if after != before else f"{phrase.size(after)}, as before"


def _exists(path: bytes) -> bool:
    return os.path.lexists(path)
