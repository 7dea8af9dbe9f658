"""`ckpt status`: is this directory protected, what changed since, what would undo and redo do."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli import listing, naming, phrase
from checkpointer.cli.app import SHORT_HELP, Command
from checkpointer.cli.call import Call
from checkpointer.cli.listing import Row
from checkpointer.errors import CheckpointerError
from checkpointer.workspace import guard
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.entry import to_json

if TYPE_CHECKING:
    from checkpointer.home import Place
    from checkpointer.run.roster import RunInfo
    from checkpointer.workspace.odb.objects import Objects
    from checkpointer.workspace.undoing.timeline import OpenTurn, Timeline
    from checkpointer.workspace.workspace import Workspace

ROWS = 5
_CUT_OFF = 3


@click.command(cls=Command)
@click.option("--short", is_flag=True, help="One cached line for a shell prompt; nothing is scanned.")
@click.pass_obj
def status(call: Call, short: bool) -> int:
    """Is this directory protected, what changed since, and what would undo and redo do."""
    if short:
        from checkpointer import home
        from checkpointer.cli import prompt

        place = home.locate(call.directory)
        return prompt.print_line(place.directory) if place is not None else 0
    return _status(call, call.place())


def alone(call: Call) -> int:
    """`ckpt` without a verb: the status, or ten lines of help where there is no store."""
    from checkpointer import home

    place = home.locate(call.directory)
    if place is not None:
        return _status(call, call.place())
    here = guard.real(call.directory)
    if call.out.json:
        call.out.document(_empty(here))
        return 0
    call.out.write(SHORT_HELP.format(here=phrase.directory(here)).encode("utf-8", "backslashreplace"))
    for near in home.nearby(here)[:3]:
        call.out.line(f"there is a store for {phrase.directory(near.root)}: ckpt -C {phrase.shell(near.root)}")
    return 0


@dataclass
class Findings:
    """What a status is made of. `reason` says why the directory is not protected; empty while it is."""

    place: Place
    tip: Checkpoint | None = None
    reason: str = ""
    lost: bool = False
    changed: list[bytes] = field(default_factory=list)
    uncovered: dict[bytes, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    undo: str | None = None
    redo: str | None = None
    open_turns: tuple[OpenTurn, ...] = ()
    uncertain: list[dict[str, Any]] = field(default_factory=list)
    approvals: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    pending: bool = False
    resumable: list[RunInfo] = field(default_factory=list)
    store_bytes: int = 0
    count: int = 0
    timeline: Timeline | None = None
    objects: Objects | None = None


def _status(call: Call, place: Place) -> int:
    workspace = call.workspace()
    found = examine(call, workspace, place)
    if call.out.json:
        call.out.document(_document(found))
    else:
        _print(call, workspace, found)
    _note(found)
    return 0


def examine(call: Call, workspace: Workspace, place: Place) -> Findings:
    """Look at everything a status tells; writes nothing."""
    from checkpointer.cli.show import next_undo
    from checkpointer.cli.titles import open_questions, open_turns, titles
    from checkpointer.run import leftoff

    counters = None
    if call.out.json:  # a person is not told what reading the logs cost, and need not wait for it
        from checkpointer.replay import Counters

        counters = Counters()
    uncertain, approvals = open_questions(workspace, counters)
    found = Findings(place, open_turns=tuple(open_turns(workspace)), uncertain=uncertain, approvals=approvals)
    if counters is not None:
        from checkpointer.cli import figures

        found.figures = {**counters.as_json(), **figures.of(workspace, uncertain)}
    found.tip = workspace.store.tip()
    found.pending = workspace.store.pending() is not None
    found.resumable = [i for i in leftoff.resumable(workspace.directory) if i.ended or i.alive == "dead"]
    found.store_bytes = bytes_below(place.directory)
    timeline = workspace.timeline(found.open_turns)
    found.count = len(timeline.checkpoints)
    found.timeline = timeline
    if place.state == "imported":
        found.reason = _imported_words(place)
    elif place.state == "gone":
        found.reason = "the directory is gone; ckpt undo or ckpt restore makes it again"
    elif found.tip is None:
        found.reason = "there is no checkpoint yet"
    else:
        try:
            basis = listing.looked(call, workspace, found.open_turns)
            found.uncovered = dict(basis.present.uncovered)
            found.objects = basis.present.tree.objects
            found.timeline = timeline = basis.timeline(workspace.facts)
            if not basis.present.files:
                from checkpointer.cli.emptiness import why_nothing

                found.reason = why_nothing(workspace)
            found.changed = naming.named_paths(basis.diff(found.tip.number, basis.newest.number))
        except CheckpointerError as e:
            found.reason = e.message
    if not found.reason:
        lost = lost_words(place)
        found.reason, found.lost = unprotected_reason(workspace, place) or lost, bool(lost)
    rows = (row for row in listing.rows(timeline, titles(workspace)) if not row.is_talk)
    found.rows = [row for row, _ in zip(rows, range(ROWS), strict=False)]
    if place.state == "imported":
        found.resumable = []
        return found
    unit = next_undo(timeline)
    found.undo = unit.handle if unit is not None else None
    redo = timeline.redo_list()
    found.redo = redo[-1].operation.unit if redo else None
    return found


def _imported_words(place: Place) -> str:
    """Which run stands there instead of a directory's own."""
    from checkpointer.places import imported
    from checkpointer.workspace.entry import from_json

    known = imported(place.directory) or {}
    try:
        came = f" of {phrase.directory(from_json(known.get('workspace')))}"
    except ValueError:
        came = ""
    return f"{known.get('handle', 'a run')}{came}, imported to be looked at; its files are not here"


def unprotected_reason(workspace: Workspace, place: Place) -> str:
    """Why the next change would not be kept; empty where it would."""
    if os.environ.get("CKPT_OFF") == "1":
        return "it is switched off for this session (CKPT_OFF=1)"
    if not os.access(place.directory, os.W_OK):
        return "its store cannot be written from here"
    return ""


def bytes_below(directory: Path) -> int:
    """Bytes of every file below a directory; what vanishes meanwhile does not count."""
    total = 0
    for where, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(where, name)).st_size
            except OSError:
                continue
    return total


def _print(call: Call, workspace: Workspace, found: Findings) -> None:
    from checkpointer.cli.saving import uncovered_words

    style = call.out.style
    out = call.out.line
    since = f"last checkpoint {phrase.age(found.tip.meta.at)} ago" if found.tip else "no checkpoint yet"
    if found.place.state == "imported":
        state = found.reason + f"; {since}."
    elif found.reason:
        state = style("NOT PROTECTED", "red", "bold") + f": {found.reason}; {since}."
    else:
        state = style("protected", "green") + f", {since}."
    out(f"{phrase.directory(found.place.root)}  {state}" + _changed_words(found))
    if found.place.state == "moved" and found.place.old is not None:
        out(f"this directory was {phrase.directory(found.place.old)}; its store follows at the next save")
    if found.place.state == "remade":
        out(
            "another directory stands at this path than when its store was made; "
            "undo, redo and restore ask before they write here"
        )
    if found.pending:
        out("an undo or restore was cut short; the next command that writes finishes it: ckpt save")
    if found.uncovered:
        out("not covered: " + uncovered_words(workspace, found.uncovered))
    _print_open(call, found)
    for call_ in found.uncertain:
        out(f"  {call_.get('handle')}  uncertain: {call_.get('about')}")
    for asked in found.approvals:
        if not asked["answered"]:
            out(f"  {asked['name']}  waits for approval: {asked['about']}   (ckpt approvals {asked['name']})")
    _print_rows(call, workspace, found)
    rest = f"store {phrase.size(found.store_bytes)}, {phrase.count(found.count, 'checkpoint')}"
    out(style(rest + (f".  ckpt redo brings {found.redo} back" if found.redo else ""), "dim"))


def _print_open(call: Call, found: Findings) -> None:
    """Turns that have not ended, and runs that can be gone on with."""
    way = {
        info.handle: call.out.style(
            f"   <- ckpt resume{'' if len(found.resumable) == 1 else ' ' + info.handle} goes on with it", "cyan"
        )
        for info in found.resumable
    }
    for turn in found.open_turns:
        if turn.alive:
            call.out.line(f"  t{turn.turn}  open, {turn.run} is at work")
        else:
            call.out.line(f"  t{turn.turn}  cut off: {turn.run} is gone{way.pop(turn.run, '')}")
    rest = [info for info in reversed(found.resumable) if info.handle in way]
    for info in rest[:_CUT_OFF]:
        call.out.line(f"  {info.handle}  {info.status if info.ended else 'cut off'}{way[info.handle]}")
    if len(rest) > _CUT_OFF:
        call.out.line(
            f"  and {phrase.count(len(rest) - _CUT_OFF, 'older run')} that did not come to an end: ckpt resume --list, "
            "ckpt runs --dismiss RUN"
        )


def lost_words(place: Place) -> str:
    """That the hooks of an agent at work could not keep what it did, the last time they tried; empty while they can."""
    if not os.path.isdir(place.directory / "hooks"):
        return ""
    from checkpointer.agents import protection

    found = protection.losses(place.root, place.directory)
    if not found:
        return ""
    note = found[0]
    since = phrase.clock(datetime.fromisoformat(note.since))
    who = f"the hooks of {note.agent} (session {note.session})" if note.agent else "an agent's hooks"
    others = f"; {phrase.count(len(found) - 1, 'more session')} likewise" if len(found) > 1 else ""
    return f"since {since} {who} could not keep what it did: {note.reason}{note.remedy}{others}"


def _changed_words(found: Findings) -> str:
    if not found.changed or found.tip is None:
        return ""
    working = [t for t in found.open_turns if t.alive]
    steps = found.tip.meta.steps
    since = steps[-1].split(".")[0] if steps else f"checkpoint {found.tip.number}"
    cut_off = [t for t in found.open_turns if not t.alive]
    whose = f"t{working[-1].turn} is at work" if working else "not by an agent"
    if found.lost and not working:
        whose = "by an agent that is not protected, or by you"
    elif cut_off and not working:
        whose = f"by {cut_off[-1].run} before it was cut off, or by you"
    return f"  changed since {since}, {whose}: {phrase.paths(found.changed)}"


def _print_rows(call: Call, workspace: Workspace, found: Findings) -> None:
    from checkpointer.cli.history import line

    assert found.timeline is not None
    for row in found.rows:
        files, stat = listing.counted(workspace, found.timeline, row, found.objects)
        text = line(call, row, files, listing.lines_of(stat))
        if row.unit is not None and row.unit.handle == found.undo:
            text += call.out.style("   <- ckpt undo takes this back", "cyan")
        call.out.line(text)


def _document(found: Findings) -> dict[str, Any]:
    tip = found.tip
    open_turn = found.open_turns[-1] if found.open_turns else None
    return {
        "schema": 1,
        "workspace": os.fsdecode(found.place.root),
        "store": str(found.place.directory),
        "protected": not found.reason,
        "reason": found.reason or None,
        "since": phrase.stamp(tip.meta.at) if tip is not None else None,
        "checkpoint": tip.number if tip is not None else None,
        "changed": [to_json(p) for p in found.changed],
        "uncovered": [{"path": to_json(p), "reason": r} for p, r in sorted(found.uncovered.items())],
        "open_turn": f"t{open_turn.turn}" if open_turn is not None else None,
        "undo": found.undo,
        "redo": found.redo,
        "uncertain": found.uncertain,
        "approvals": found.approvals,
        "store_bytes": found.store_bytes,
        "state": found.place.state,
        "pending": found.pending,
        "resumable": [info.handle for info in found.resumable],
        **found.figures,
    }


def _empty(root: bytes) -> dict[str, Any]:
    keys = ["store", "since", "checkpoint", "open_turn", "undo", "redo"]
    return {
        "schema": 1,
        "workspace": to_json(root),
        "protected": False,
        "reason": "it has no store",
        **dict.fromkeys(keys),
        "changed": [],
        "uncovered": [],
        "uncertain": [],
        "approvals": [],
        "store_bytes": 0,
    }


def _note(found: Findings) -> None:
    """Keep what a shell prompt shows."""
    from checkpointer.cli import prompt

    prompt.note(
        found.place.directory,
        {
            "protected": not found.reason,
            "checkpoint": found.tip.number if found.tip else None,
            "undo": found.undo,
            "uncertain": len(found.uncertain),
        },
    )
