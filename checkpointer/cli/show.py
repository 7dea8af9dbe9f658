"""`ckpt show`: what one turn, step or checkpoint changed; alone, what `undo` would take back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli import listing, phrase
from checkpointer.cli.app import Command, paths_of
from checkpointer.cli.call import Call
from checkpointer.cli.difference import narrowed, points_of, print_patches, print_stat
from checkpointer.cli.handle import TURN
from checkpointer.cli.listing import lines_of, named_paths
from checkpointer.cli.patch import Changes, deltas, stat
from checkpointer.cli.titles import Title, titles
from checkpointer.errors import NothingToDo, Usage
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.entry import to_json
from checkpointer.workspace.timeline import Timeline
from checkpointer.workspace.units import Step, Unit

if TYPE_CHECKING:
    from checkpointer.workspace.workspace import Workspace


@click.command(cls=Command)
@click.option("--stat", "as_stat", is_flag=True, help="Lines counted instead of shown.")
@click.argument("handle", required=False, metavar="[T|P]")
@click.pass_context
def show(ctx: click.Context, as_stat: bool, handle: str | None) -> int:
    """What a turn, a step or a checkpoint changed; alone, what undo would take back."""
    call: Call = ctx.find_object(Call)  # type: ignore[assignment]
    paths = call.relative(paths_of(ctx) or ())
    workspace = call.workspace()
    timeline = workspace.timeline()
    named = titles(workspace)
    match = TURN.fullmatch(handle) if handle is not None else None
    if handle is None:
        unit: Unit | None = next_undo(timeline)
        if unit is None:
            raise NothingToDo("nothing to show: nothing to undo", next=("ckpt log", "ckpt diff"))
    elif match:
        unit = timeline.turn(int(match[1]))
        if unit is None:
            raise points_of(workspace).no_turn(handle)
    else:
        unit = None
    if unit is None:
        assert handle is not None
        return _show_checkpoint(call, workspace, timeline, handle, paths, as_stat)
    steps = [s for s in unit.steps if match is None or match[2] is None or _is(s, int(match[1]), int(match[2]))]
    if not steps:
        raise points_of(workspace).no_turn(handle or unit.handle)
    return _show_unit(call, workspace, timeline, unit, steps, named.get(unit.handle, Title()), paths, as_stat)


def next_undo(timeline: Timeline) -> Unit | None:
    """The unit a bare undo would take back."""
    for unit in reversed(timeline.units):
        if timeline.state_of_unit(unit) == "open":
            return unit
    return None


def _is(step: Step, turn: int, number: int) -> bool:
    return any(h.turn == turn and h.step == number for h in step.handles)


def _show_unit(
    call: Call,
    workspace: Workspace,
    timeline: Timeline,
    unit: Unit,
    steps: list[Step],
    title: Title,
    paths: list[bytes],
    as_stat: bool,
) -> int:
    per_step = [(s, narrowed(listing.changes_of(timeline, s.segments), paths)) for s in steps]
    whole = listing.net(timeline.diff(*seg) for seg in sorted(g for s in steps for g in s.segments))
    changes = narrowed(whole, paths)
    end = next(c for c in timeline.checkpoints if c.number == unit.last)
    if call.out.json:
        state = timeline.state_of_unit(unit)
        call.out.document(_document(workspace, unit.handle, end, per_step, changes, title, state))
        return 0
    with call.out.paged(str(call.config["ui.pager"])):
        call.out.line(call.out.style(_headline(unit, end, title, timeline), "bold"))
        for step, own in per_step:
            if unit.kind == "turn" and step.exact:
                call.out.line("  " + _step_line(workspace, step, own, title))
        if as_stat:
            if not any(s.exact for s in steps) or unit.kind != "turn":
                print_stat(call, workspace, changes)
        else:
            call.out.line()
            print_patches(call, workspace, changes)
    return 0


def _headline(unit: Unit, end: Checkpoint, title: Title, timeline: Timeline) -> str:
    at = title.started or end.meta.at
    seconds = f" ({phrase.span(title.seconds)})" if title.seconds is not None else ""
    label = title.prompt or end.meta.label
    words = [unit.handle, title.agent, " ".join(sorted(unit.runs)), f"{phrase.clock(at)}{seconds}"]
    state = {"back": "  undone", "left": "  left by an undo"}.get(timeline.state_of_unit(unit) or "", "")
    return " ".join(w for w in words if w) + (f"  {phrase.quoted(label)}" if label else "") + state


def _step_line(workspace: Workspace, step: Step, changes: Changes, title: Title) -> str:
    """`t3.1  Edit  src/checkout.py  +80 -40`."""
    call = (title.calls or {}).get(step.handle)
    names = named_paths(changes)
    gone = [p for p in names if changes[p][1] is None]
    stayed = [p for p in names if changes[p][1] is not None]
    read = listing.reader(workspace)
    stats = [stat(d, read) for d in deltas(changes)] if len(names) <= listing.MANY else []
    lines = (
        lines_of(stats[0]._replace(added=sum(s.added for s in stats), removed=sum(s.removed for s in stats)))
        if stats
        else ""
    )
    deleted = f"{phrase.count(len(gone), 'file')} deleted" if gone else ""
    about = [call.tool, call.about] if call is not None else []
    listed = phrase.paths(stayed, 5) if call is None or stayed != [call.about.encode()] else ""
    return "  ".join(w for w in (f"{step.handle:6}", *about, lines, listed, deleted) if w)


def _show_checkpoint(
    call: Call, workspace: Workspace, timeline: Timeline, word: str, paths: list[bytes], as_stat: bool
) -> int:
    from checkpointer.workspace.tree import diff

    checkpoint = points_of(workspace).resolve(word)
    if checkpoint is None:
        raise Usage("now is the files on disk", next=("ckpt diff",))
    numbers = [c.number for c in timeline.checkpoints]
    before = None
    if checkpoint.number in numbers and numbers.index(checkpoint.number) > 0:
        before = timeline.checkpoints[numbers.index(checkpoint.number) - 1]
    changes: Changes = {}
    if before is not None:
        changes = diff(workspace.store.tree(before), workspace.store.tree(checkpoint), paths)
    if call.out.json:
        call.out.document(_document(workspace, str(checkpoint.number), checkpoint, [], changes, Title(), None))
        return 0
    meta = checkpoint.meta
    head = [f"checkpoint {checkpoint.number}", meta.kind, *meta.steps, " ".join(meta.runs), phrase.clock(meta.at)]
    with call.out.paged(str(call.config["ui.pager"])):
        label = f"  {phrase.quoted(meta.label)}" if meta.label else ""
        call.out.line(call.out.style(" ".join(w for w in head if w) + label, "bold"))
        if call.verbose:
            call.out.line(f"commit {checkpoint.id}")
        if before is None:
            tree = workspace.store.tree(checkpoint)
            files = sum(entry.kind != "dir" for _, entry in tree.walk())
            call.out.line(f"{phrase.count(files, 'file')}; no checkpoint before it is kept to compare with")
        elif as_stat:
            print_stat(call, workspace, changes)
        else:
            print_patches(call, workspace, changes)
    return 0


def _document(
    workspace: Workspace,
    handle: str,
    end: Checkpoint,
    steps: list[tuple[Step, Changes]],
    changes: Changes,
    title: Title,
    state: str | None,
) -> dict[str, Any]:
    return {
        "schema": 1,
        "handle": handle,
        "checkpoint": end.number,
        "commit": end.id,
        "kind": end.kind,
        "at": phrase.stamp(end.meta.at),
        "run": end.meta.runs[0] if end.meta.runs else None,
        "prompt": title.prompt or None,
        "label": end.meta.label,
        "undone": state == "back",
        "steps": [{"handle": s.handle, "exact": s.exact, "changed": _paths(c)} for s, c in steps],
        "changed": _paths(changes),
        "uncovered": [
            {"path": to_json(p), "reason": r} for p, r in sorted(workspace.store.tree(end).extras.uncovered.items())
        ],
    }


def _paths(changes: Changes) -> list[dict[str, Any]]:
    words = {(True, False): "removed", (False, True): "added", (False, False): "modified"}
    return [
        {"path": to_json(p), "change": words[changes[p][1] is None, changes[p][0] is None]}
        for p in named_paths(changes)
    ]
