"""`ckpt diff` and `ckpt cat`: two points compared in git's format; one file as it was."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli import listing, naming
from checkpointer.cli.app import Command, paths_of
from checkpointer.cli.call import Call
from checkpointer.cli.handle import Points, reads_as_handle
from checkpointer.cli.output import wants_color
from checkpointer.cli.patch import Changes, Delta, Read, Stat, colored, deltas, others, patch, stat, stat_table
from checkpointer.errors import NothingToDo, Usage
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.entry import Entry, show, to_json

if TYPE_CHECKING:
    from checkpointer.workspace.odb.objects import Objects
    from checkpointer.workspace.trees.tree import Tree
    from checkpointer.workspace.workspace import Workspace


def points_of(workspace: Workspace) -> Points:
    """Everything of a workspace that a word may name."""
    store = workspace.store
    return Points(store.checkpoints(), store.kept(), rewritten=store.rewritten, by_number=store.by_number)


def sort_words(workspace: Workspace, call: Call, words: tuple[str, ...], most: int) -> tuple[list[str], list[str]]:
    """Split words before `--` into points and paths. Raises Usage where a word may be both, or is neither.

    A word that reads as a handle is one; then a label; then a path that is on disk or in the newest checkpoint.
    """
    points: list[str] = []
    paths: list[str] = []
    labels = {name for c in points_of(workspace).all for name in (c.meta.label, *c.meta.names)}
    for word in words:
        handle = reads_as_handle(word)
        is_path = not handle and _is_path(workspace, call, word)
        if word in labels and is_path:
            raise Usage(f"{word!r} is a label and a path", next=(f"-- {word}   (the path)",))
        if is_path:
            paths.append(word)
        elif paths and not handle:
            raise Usage(f"there is no path {word!r} here", next=(f"-- {word}   (if it was there once)",))
        elif len(points) < most:
            points.append(word)
        else:
            raise Usage(f"one point too many: {word!r}", next=("paths go after --",))
    return points, paths


def _is_path(workspace: Workspace, call: Call, word: str) -> bool:
    if os.path.lexists(os.path.join(call.directory, os.fsencode(word))):
        return True
    tip = workspace.store.tip()
    try:
        (path,) = call.relative([word])
    except Usage:
        return False
    return tip is not None and workspace.store.tree(tip).entry(path) is not None


def narrowed(changes: Changes, paths: list[bytes]) -> Changes:
    from checkpointer.workspace.entry import below

    return {p: c for p, c in changes.items() if not paths or any(below(p, d) for d in paths)}


@click.command(cls=Command)
@click.option("--stat", "as_stat", is_flag=True, help="Lines counted for each file.")
@click.option("--name-only", is_flag=True, help="Only the paths.")
@click.option("--exit-code", is_flag=True, help="End with 1 if there is a difference.")
@click.argument("words", nargs=-1, metavar="[P [P]] [-- PATH...]")
@click.pass_context
def diff(ctx: click.Context, as_stat: bool, name_only: bool, exit_code: bool, words: tuple[str, ...]) -> int:
    """What differs between two points; from before the newest turn to now, unless said otherwise."""
    call: Call = ctx.find_object(Call)  # type: ignore[assignment]
    workspace = call.workspace()
    points, typed = sort_words(workspace, call, words, 2)
    paths = call.relative([*typed, *(paths_of(ctx) or ())])
    book = points_of(workspace)
    if points:
        start = book.resolve(points[0])
    else:
        start = _before_newest(workspace)
    end = book.resolve(points[1]) if len(points) > 1 else None
    changes, objects = compare(call, workspace, start, end, paths)
    status = 1 if exit_code and changes else 0
    if call.out.json:
        call.out.document(_document(changes, start, end))
        return status
    with call.out.paged(str(call.config["ui.pager"])):
        if name_only:
            print_names(call, changes)
        elif as_stat:
            print_stat(call, listing.reader(workspace, objects), changes)
        else:
            print_patches(call, listing.reader(workspace, objects), changes)
    return status


def _before_newest(workspace: Workspace) -> Checkpoint | None:
    timeline = workspace.timeline()
    turns = [u for u in timeline.units if u.kind == "turn" and timeline.state_of_unit(u) is not None]
    kept = {c.number: c for c in timeline.checkpoints}
    if turns and turns[-1].first in kept:
        return kept[turns[-1].first]
    if not timeline.checkpoints:
        raise NothingToDo("there is no checkpoint yet", next=("ckpt save",))
    return timeline.checkpoints[-1]


def compare(
    call: Call, workspace: Workspace, start: Checkpoint | None, end: Checkpoint | None, paths: list[bytes]
) -> tuple[Changes, Objects]:
    """What differs between two points (None: the files on disk), and what to read contents from."""
    from checkpointer.workspace.trees.tree import diff as difference

    if start is None and end is None:
        return {}, workspace.store.objects
    objects: Objects = workspace.store.objects
    present: Tree | None = None
    if start is None or end is None:
        with call.progress() as bar:
            present = workspace.look(progress=bar).tree
        objects = present.objects
    trees = [present if c is None else workspace.store.tree(c) for c in (start, end)]
    first, second = trees
    assert first is not None
    assert second is not None
    return difference(first, second, paths), objects


def print_names(call: Call, changes: Changes) -> None:
    for path in naming.named_paths(changes):
        call.out.line(show(path) if path else ".")


def print_patches(call: Call, read: Read, changes: Changes) -> None:
    color = wants_color(call.out.color, sys.stdout)
    for text in _others(changes):
        call.out.line(text)
    for delta in deltas(changes):
        data = patch(delta, read)
        call.out.write(colored(data) if color else data)


def _others(changes: Changes) -> list[str]:
    shown = set(naming.named_paths(changes))
    return list(others({p: c for p, c in changes.items() if p in shown}))


def print_stat(call: Call, read: Read, changes: Changes) -> None:
    found: list[tuple[Delta, Stat]] = [(d, stat(d, read)) for d in deltas(changes)]
    import shutil

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 80
    for text in stat_table(found, width):
        call.out.line(text)
    for text in _others(changes):
        call.out.line(text)


def _word(entry: Entry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {"kind": entry.kind, "mode": f"{entry.mode:04o}", "blob": entry.oid.hex() or None}


def _document(changes: Changes, start: Checkpoint | None, end: Checkpoint | None) -> dict[str, Any]:
    return {
        "schema": 1,
        "from": start.number if start is not None else "now",
        "to": end.number if end is not None else "now",
        "changed": [
            {"path": to_json(p), "before": _word(changes[p][0]), "after": _word(changes[p][1])}
            for p in naming.named_paths(changes)
        ],
    }


@click.command(cls=Command)
@click.argument("point", metavar="P")
@click.argument("path", required=False, metavar="PATH")
@click.pass_context
def cat(ctx: click.Context, point: str, path: str | None) -> int:
    """One file's bytes as of P, on stdout; a link's target."""
    call: Call = ctx.find_object(Call)  # type: ignore[assignment]
    words = [*([path] if path is not None else []), *(paths_of(ctx) or ())]
    if len(words) != 1:
        raise Usage("cat takes one point and one path", next=("ckpt cat 17 src/cart.py",))
    workspace = call.workspace()
    (wanted,) = call.relative(words)
    checkpoint = points_of(workspace).resolve(point)
    if checkpoint is None:
        tree = workspace.look().tree
        name = "the files on disk"
    else:
        tree, name = workspace.store.tree(checkpoint), f"checkpoint {checkpoint.number}"
    entry = tree.entry(wanted)
    if entry is None:
        raise NothingToDo(f"{show(wanted)} is not in {name}", next=(f"ckpt log -- {words[0]}",))
    if entry.kind not in ("file", "link"):
        what = {"dir": "a directory", "uncovered": "not covered"}.get(entry.kind, f"a {entry.kind}")
        raise NothingToDo(f"{show(wanted)} is {what} in {name}, and has no content")
    if call.out.json:
        number = checkpoint.number if checkpoint is not None else "now"
        content = to_json(tree.objects.get(entry.oid)[1])
        call.out.document(
            {"schema": 1, "path": to_json(wanted), "point": number, **(_word(entry) or {}), "content": content}
        )
        return 0
    for chunk in tree.objects.stream(entry.oid):
        call.out.write(chunk)
    return 0
