"""`ckpt show`: what one turn, step or checkpoint changed; alone, what `undo` would take back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli import callview, conversation, listing, phrase
from checkpointer.cli.app import Command, paths_of
from checkpointer.cli.call import Call
from checkpointer.cli.difference import narrowed, points_of, print_names, print_patches, print_stat
from checkpointer.cli.handle import TURN
from checkpointer.cli.naming import named_paths
from checkpointer.cli.patch import Changes, Read
from checkpointer.cli.titles import Call as Called
from checkpointer.cli.titles import Title, open_turns, titles
from checkpointer.errors import NothingToDo, Usage
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.entry import to_json
from checkpointer.workspace.undoing.timeline import Timeline
from checkpointer.workspace.undoing.units import Step, Unit

if TYPE_CHECKING:
    from checkpointer.workspace.workspace import Workspace


@dataclass
class Subject:
    """A turn, restore or edit, or one step of a turn, and what to read it from."""

    unit: Unit
    steps: list[Step]
    timeline: Timeline
    read: Read
    uncovered: Mapping[bytes, str]
    title: Title
    paths: list[bytes]

    @property
    def end(self) -> Checkpoint:
        return next(c for c in self.timeline.checkpoints if c.number == self.unit.last)

    @property
    def changes(self) -> Changes:
        return narrowed(listing.changes_of(self.timeline, [g for s in self.steps for g in s.segments]), self.paths)

    def of(self, step: Step) -> Changes:
        return narrowed(listing.changes_of(self.timeline, step.segments), self.paths)


@click.command(cls=Command)
@click.option("--stat", "form", flag_value="stat", help="Lines counted instead of shown.")
@click.option("--name-only", "form", flag_value="names", help="Only the paths.")
@click.argument("handle", required=False, metavar="[T|P]")
@click.pass_context
def show(ctx: click.Context, form: str | None, handle: str | None) -> int:
    """What a turn, a step or a checkpoint changed; alone, what undo would take back."""
    call: Call = ctx.find_object(Call)  # type: ignore[assignment]
    paths = call.relative(paths_of(ctx) or ())
    workspace = call.workspace()
    if handle is None:
        subject = _next(call, workspace, paths)
    elif (match := TURN.fullmatch(handle)) is not None:
        if match[2] is not None and (made := callview.find(workspace, int(match[1]), int(match[2]))) is not None:
            return _show_call(call, workspace, handle, made, paths, form)
        title = titles(workspace).get(handle)
        if title is not None and title.talk and workspace.timeline().turn(int(match[1])) is None:
            return _show_talk(call, workspace, handle, title)
        subject = _named(workspace, handle, paths)
    else:
        return _show_checkpoint(call, workspace, handle, paths, form)
    if call.out.json:
        call.out.document(_unit_document(subject))
        return 0
    with call.out.paged(str(call.config["ui.pager"])):
        _show_unit(call, subject, form)
    return 0


def _show_call(
    call: Call, workspace: Workspace, handle: str, made: callview.Made, paths: list[bytes], form: str | None
) -> int:
    """A step that is a tool call: what was asked, what came of it, which files it changed."""
    try:
        subject: Subject | None = _named(workspace, handle, paths)
    except Usage:  # it changed none
        subject = None
    if call.out.json:
        files = _unit_document(subject) if subject is not None else {"schema": 1, "changed": []}
        call.out.document({**files, "handle": handle, "call": callview.document(made)})
        return 0
    with call.out.paged(str(call.config["ui.pager"])):
        if form != "names":
            callview.show(call, handle, made)
        if subject is not None:
            _show_unit(call, subject, form)
        elif form != "names":
            call.out.line("  no files changed")
    return 0


def _next(call: Call, workspace: Workspace, paths: list[bytes]) -> Subject:
    """What undo would take back; it may end at the files as they are now."""
    basis = listing.looked(call, workspace, open_turns(workspace))
    timeline = basis.timeline(workspace.facts)
    unit = next_undo(timeline)
    if unit is None:
        raise NothingToDo("nothing to show: nothing to undo", next=("ckpt log", "ckpt diff"))
    read = listing.reader(workspace, basis.present.tree.objects)
    title = titles(workspace).get(unit.handle, Title())
    return Subject(unit, list(unit.steps), timeline, read, basis.present.uncovered, title, paths)


def _named(workspace: Workspace, handle: str, paths: list[bytes]) -> Subject:
    match = TURN.fullmatch(handle)
    assert match is not None
    timeline = workspace.timeline()
    unit = timeline.turn(int(match[1]))
    steps = [] if unit is None else list(unit.steps)
    if match[2] is not None:
        steps = [s for s in steps if any(h.turn == int(match[1]) and h.step == int(match[2]) for h in s.handles)]
    if unit is None or not steps:
        raise points_of(workspace).no_turn(handle)
    end = next(c for c in timeline.checkpoints if c.number == unit.last)
    uncovered = workspace.store.tree(end).extras.uncovered
    title = titles(workspace).get(unit.handle, Title())
    return Subject(unit, steps, timeline, listing.reader(workspace), uncovered, title, paths)


def next_undo(timeline: Timeline) -> Unit | None:
    """The unit a bare undo would take back."""
    for unit in reversed(timeline.units):
        if timeline.state_of_unit(unit) == "open":
            return unit
    return None


def _show_unit(call: Call, subject: Subject, form: str | None) -> None:
    unit = subject.unit
    if form == "names":
        print_names(call, subject.changes)
        return
    call.out.line(call.out.style(_headline(subject), "bold"))
    stepwise = unit.kind == "turn" and any(step.exact for step in subject.steps)
    if stepwise:
        whole = subject.paths == [] and len(subject.steps) == len(unit.steps)
        title = subject.title if whole else subject.title._replace(calls=_calls_of(subject), answer="")
        for text in conversation.told(title, [(step, subject.of(step)) for step in subject.steps], subject.read):
            call.out.line("  " + text)
    if form == "stat" and not stepwise:
        print_stat(call, subject.read, subject.changes)
    elif form is None:
        call.out.line()
        print_patches(call, subject.read, subject.changes)


def _calls_of(subject: Subject) -> dict[str, Called]:
    """The calls of the steps that are shown."""
    shown = {str(handle) for step in subject.steps for handle in step.handles}
    return {name: one for name, one in (subject.title.calls or {}).items() if name in shown}


def _show_talk(call: Call, workspace: Workspace, handle: str, title: Title) -> int:
    """A turn that changed no file: what was asked, called and answered."""
    if call.out.json:
        steps = [{"handle": name, "exact": True, "changed": []} for name in title.calls or ()]
        prompt = title.prompt or None
        call.out.document(
            {"schema": 1, "handle": handle, "run": title.run, "prompt": prompt, "changed": [], "steps": steps}
        )
        return 0
    started = phrase.clock(title.started) if title.started else ""
    head = " ".join(w for w in (handle, title.agent, title.run, started) if w)
    call.out.line(call.out.style(head + (f"  {phrase.quoted(title.prompt)}" if title.prompt else ""), "bold"))
    for text in conversation.told(title, [], listing.reader(workspace)):
        call.out.line("  " + text)
    call.out.line("  no files changed")
    return 0


def _headline(subject: Subject) -> str:
    unit, title, end = subject.unit, subject.title, subject.end
    at = title.started or end.meta.at
    seconds = f" ({phrase.span(title.seconds)})" if title.seconds is not None else ""
    label = title.prompt or end.meta.label
    words = [unit.handle, title.agent, " ".join(sorted(unit.runs)), f"{phrase.clock(at)}{seconds}"]
    said = listing.STATES.get(listing.state_of(subject.timeline, unit) or "", "")
    state = f"  {said}" if said else ""
    return " ".join(w for w in words if w) + (f"  {phrase.quoted(label)}" if label else "") + state


def _show_checkpoint(call: Call, workspace: Workspace, word: str, paths: list[bytes], form: str | None) -> int:
    from checkpointer.workspace.trees.tree import diff

    timeline = workspace.timeline()
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
        uncovered = workspace.store.tree(checkpoint).extras.uncovered
        call.out.document(_document(str(checkpoint.number), checkpoint, changes, uncovered))
        return 0
    meta = checkpoint.meta
    head = [f"checkpoint {checkpoint.number}", meta.kind, *meta.steps, " ".join(meta.runs), phrase.clock(meta.at)]
    if form == "names":
        print_names(call, changes)
        return 0
    with call.out.paged(str(call.config["ui.pager"])):
        label = f"  {phrase.quoted(meta.label)}" if meta.label else ""
        call.out.line(call.out.style(" ".join(w for w in head if w) + label, "bold"))
        if call.verbose:
            call.out.line(f"commit {checkpoint.id}")
        if before is None:
            tree = workspace.store.tree(checkpoint)
            files = sum(entry.kind != "dir" for _, entry in tree.walk())
            call.out.line(f"{phrase.count(files, 'file')}; no checkpoint before it is kept to compare with")
        elif form == "stat":
            print_stat(call, listing.reader(workspace), changes)
        else:
            print_patches(call, listing.reader(workspace), changes)
    return 0


def _document(handle: str, end: Checkpoint, changes: Changes, uncovered: Mapping[bytes, str]) -> dict[str, Any]:
    return {
        "schema": 1,
        "handle": handle,
        "checkpoint": end.number,
        "commit": end.id or None,
        "kind": end.kind,
        "at": phrase.stamp(end.meta.at),
        "run": end.meta.runs[0] if end.meta.runs else None,
        "label": end.meta.label,
        "changed": _paths(changes),
        "uncovered": [{"path": to_json(p), "reason": r} for p, r in sorted(uncovered.items())],
    }


def _unit_document(subject: Subject) -> dict[str, Any]:
    return {
        **_document(subject.unit.handle, subject.end, subject.changes, subject.uncovered),
        "prompt": subject.title.prompt or None,
        "undone": subject.timeline.state_of_unit(subject.unit) == "back",
        "steps": [{"handle": s.handle, "exact": s.exact, "changed": _paths(subject.of(s))} for s in subject.steps],
    }


def _paths(changes: Changes) -> list[dict[str, Any]]:
    words = {(True, False): "removed", (False, True): "added", (False, False): "modified"}
    return [
        {"path": to_json(p), "change": words[changes[p][1] is None, changes[p][0] is None]}
        for p in named_paths(changes)
    ]
