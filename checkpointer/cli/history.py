"""`ckpt log`: a line for each turn, save and restore, newest first."""

from __future__ import annotations

import os
import re
import shlex
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli import conversation, listing, naming, phrase
from checkpointer.cli.app import Command, paths_of
from checkpointer.cli.call import Call
from checkpointer.cli.difference import print_patches
from checkpointer.cli.listing import Row
from checkpointer.cli.titles import Title, titles
from checkpointer.errors import Usage
from checkpointer.run import roster
from checkpointer.workspace.entry import Entry, below, show
from checkpointer.workspace.undoing.timeline import Timeline

if TYPE_CHECKING:
    from checkpointer.workspace.workspace import Workspace


@click.command(cls=Command)
@click.option("-n", "number", type=click.IntRange(min=0), metavar="N", help="So many lines at most.")
@click.option("-p", "patch", is_flag=True, help="With what each changed, as git prints it.")
@click.option("--run", metavar="R", help="Only what this run did, step by step.")
@click.option("--grep", metavar="TEXT", help="Only where a prompt, label, call or path holds TEXT (a regex; any case).")
@click.option("--html", metavar="FILE", help="Write one page with all of it to FILE, for a browser.")
@click.option("--checkpoints", is_flag=True, help="Every checkpoint, not only turns, saves and restores.")
@click.argument("words", nargs=-1, metavar="[-- PATH...]")
@click.pass_context
def log(
    ctx: click.Context,
    number: int | None,
    patch: bool,
    run: str | None,
    grep: str | None,
    html: str | None,
    checkpoints: bool,
    words: tuple[str, ...],
) -> int:
    """Turns, saves and restores, newest first; undone ones are marked."""
    call: Call = ctx.find_object(Call)  # type: ignore[assignment]
    paths = call.relative([*words, *(paths_of(ctx) or ())])
    workspace = call.workspace()
    timeline = workspace.timeline()
    named = titles(workspace)
    known = {r for c in timeline.checkpoints for r in c.meta.runs} | {title.run for title in named.values()}
    if run is not None and run not in known and run in roster.names(workspace.directory):
        run = roster.read(workspace.directory, run).handle  # a run's own name, then
    if run is not None and run not in known:
        raise Usage(f"no checkpoint here belongs to run {run}", next=("ckpt log",))
    found = chain(listing.rows(timeline, named, every=checkpoints), listing.kept(workspace))
    wanted_text = _pattern(grep)
    chosen = (
        r
        for r in found
        if (run is None or run in r.runs)
        and _touches(timeline, r, paths)
        and (wanted_text is None or _says(timeline, r, wanted_text))
    )
    wanted = islice(chosen, number) if number is not None else chosen
    if html is not None:
        return _page(call, html, workspace, timeline, list(wanted), named)
    current = _current(timeline)
    with call.out.paged(str(call.config["ui.pager"])):
        empty = True
        for row in wanted:
            empty = False
            if call.out.json:
                call.out.document(document(timeline, row, current, paths))
                continue
            files, stat = listing.counted(workspace, timeline, row)
            call.out.line(line(call, row, files, listing.lines_of(stat)))
            if run is not None and row.kind == "turn":
                for text in conversation.lines(workspace, timeline, row):
                    call.out.line("  " + text)
            if patch:
                print_patches(call, listing.reader(workspace), _narrowed(timeline, row, paths))
                call.out.line()
        if empty and not call.out.json:
            call.out.note("nothing" + (" that fits" if timeline.checkpoints else " yet"))
    return 0


def _page(
    call: Call, html: str, workspace: Workspace, timeline: Timeline, rows: list[Row], named: dict[str, Title]
) -> int:
    from checkpointer.cli import page

    size = page.save(os.path.join(os.fsdecode(call.directory), html), workspace, timeline, rows, named)
    if call.out.json:
        call.out.document({"schema": 1, "file": html, "bytes": size, "items": len(rows)})
    else:
        call.out.line(f"wrote {html}: {phrase.count(len(rows), 'entry', 'entries')}, {phrase.size(size)}")
    return 0


def _pattern(grep: str | None) -> re.Pattern[str] | None:
    if grep is None:
        return None
    try:
        return re.compile(grep, re.IGNORECASE)
    except re.error as e:
        raise Usage(f"--grep {grep!r}: {e}", next=(f"ckpt log --grep {shlex.quote(re.escape(grep))}",)) from None


def _says(timeline: Timeline, row: Row, wanted: re.Pattern[str]) -> bool:
    """Does it stand in what was asked, in a label, in a call or in the name of a file that changed?"""
    said = [row.title.prompt, row.title.agent, row.checkpoint.meta.label or "", *row.runs]
    said += [word for call in (row.title.calls or {}).values() for word in (call.tool, call.about)]
    if any(wanted.search(text) for text in said):
        return True
    return any(wanted.search(show(path)) for path in listing.changes_of(timeline, row.segments) if path)


def _narrowed(timeline: Timeline, row: Row, paths: list[bytes]) -> dict[bytes, tuple[Entry | None, Entry | None]]:
    changes = listing.changes_of(timeline, row.segments)
    return {p: c for p, c in changes.items() if not paths or any(below(p, d) for d in paths)}


def _touches(timeline: Timeline, row: Row, paths: list[bytes]) -> bool:
    return not paths or bool(_narrowed(timeline, row, paths))


def _current(timeline: Timeline) -> str | None:
    return timeline.checkpoints[-1].tree if timeline.checkpoints else None


def line(call: Call, row: Row, files: int, lines: str) -> str:
    """One row for people."""
    style = call.out.style
    mark = f"  {listing.STATES[row.state]}" if row.state in listing.STATES else ""
    # What a run begins with was saved by nobody; what changed in it since the checkpoint before may be somebody's.
    base = row.checkpoint.kind == "base"
    kind = "" if row.kind == "turn" else "base " if base else f"{row.kind} "
    text = f"{kind}{'' if base and not row.segments else listing.who(row)}".strip()
    none = "" if row.state == "kept" else "first" if not row.segments and not row.is_talk else "no change"
    changed = phrase.count(files, "file") if files else none
    handle = row.handle if row.kind != "restore" else str(row.checkpoint.number)
    return "  ".join(
        part
        for part in (
            "  " + style(f"{handle:4}", "yellow"),
            f"{phrase.age(listing.at(row)):>7}",
            f"{text:16}",
            f"{row.words or (row.unit.handle if row.unit and row.kind == 'restore' else ''):36}",
            f"{changed:>8}",
            lines,
        )
    ).rstrip() + style(mark, "dim")


def document(timeline: Timeline, row: Row, current: str | None, paths: list[bytes]) -> dict[str, Any]:
    """One row for programs. `added`, `modified` and `removed` count paths."""
    changes = _narrowed(timeline, row, paths)
    names = naming.named_paths(changes)
    c = row.checkpoint
    return {
        "checkpoint": c.number,
        "commit": c.id,
        "kind": row.kind,
        "at": phrase.stamp(listing.at(row)),
        "run": row.runs[0] if row.runs else None,
        "turn": row.handle if row.kind == "turn" else (c.meta.steps[0] if c.meta.steps else None),
        "prompt": row.title.prompt or None,
        "label": c.meta.label,
        "names": list(c.meta.names),
        "added": sum(changes[p][0] is None for p in names),
        "modified": sum(changes[p][0] is not None and changes[p][1] is not None for p in names),
        "removed": sum(changes[p][1] is None for p in names),
        "undone": row.state == "back",
        "partly_undone": row.state == "part",
        "current": c.tree == current,
        "unit": row.unit.handle if row.unit is not None else None,
        "by": c.meta.by,
    }
