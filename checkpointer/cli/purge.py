"""`ckpt purge` and `ckpt forget`: take a path's content out of every checkpoint; delete a whole store."""

from __future__ import annotations

import os

import click

from checkpointer import home
from checkpointer.cli import phrase
from checkpointer.cli.app import Command, paths_of
from checkpointer.cli.call import Call
from checkpointer.cli.status import bytes_below
from checkpointer.errors import NoStore, NothingToDo, Usage
from checkpointer.workspace import guard
from checkpointer.workspace.entry import to_json

TEXT = "ckpt purge --text -"


@click.command(cls=Command)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--text", metavar="TEXT", help="A leaked text instead of a path; - reads it from stdin.")
@click.option("-n", "--dry-run", is_flag=True, help="With --text: say where it stands; write nothing.")
@click.argument("words", nargs=-1, metavar="PATH")
@click.pass_context
def purge(ctx: click.Context, yes: bool, text: str | None, dry_run: bool, words: tuple[str, ...]) -> int:
    """Take PATH, and all below it, out of every checkpoint, for good. The file on disk is not touched.
    What agents said stays in runs' logs: where lines of PATH stand there, they are named.

    With --text, take what holds a leaked text out of runs' logs (the words of those events; the log says so) and out of
    checkpoints (the files that hold it). Give it by --text - and stdin, or it stays in your shell's history.
    """
    call: Call = ctx.find_object(Call)  # type: ignore[assignment]
    call.person_only("purge")
    typed = [*words, *(paths_of(ctx) or ())]
    if text is not None:
        from checkpointer.cli import leak

        if typed:
            raise Usage("say one of a path and --text", kept="nothing was written")
        return leak.purge(call, text, yes=yes, dry_run=dry_run)
    if dry_run:
        raise Usage("-n is for --text", kept="nothing was written")
    if not typed:
        raise Usage("purge takes a path", next=("ckpt purge .env", TEXT))
    paths = call.relative(typed)
    if b"" in paths:
        raise Usage("that is the whole workspace", kept="nothing was written", next=("ckpt forget DIR",))
    return _purge(call, paths, yes)


def _purge(call: Call, paths: list[bytes], yes: bool) -> int:
    from checkpointer.run import leaks
    from checkpointer.workspace.shadow import purge as purging

    workspace = call.workspace(write=True)
    holding = [
        c.number
        for c in (*workspace.store.kept(), *workspace.store.checkpoints())
        if any(workspace.store.tree(c).covered(path) is not None for path in paths)
    ]
    names = phrase.paths(paths)
    if not holding and not purging.unfinished(workspace.store):
        raise NothingToDo(f"no checkpoint holds {names}", kept="nothing was changed", next=(f"ckpt log -- {names}",))
    call.confirm(
        f"this takes {names} out of {phrase.count(len(holding), 'checkpoint')} for good: no undo brings it back",
        yes=yes,
    )
    lines = leaks.told_lines(workspace, paths)
    with workspace.locked("purge"):
        workspace.settle()
        done = purging.purge(workspace.store, workspace.facts, paths)
    call.notices(workspace)
    told = [os.path.relpath(path, workspace.directory) for path in leaks.written_down(workspace, lines)]
    if call.out.json:
        call.out.document(
            {
                "schema": 1,
                "paths": [to_json(p) for p in paths],
                "checkpoints": done.checkpoints,
                "rewritten": done.rewritten,
                "elsewhere": [to_json(p) for p in done.elsewhere],
                "told": told,
                "notes": done.notes,
            }
        )
        return 0
    call.out.line(f"purged {names} from {phrase.count(len(done.checkpoints), 'checkpoint')}")
    if done.elsewhere:
        call.out.line(f"the same content is still kept at: {phrase.paths(done.elsewhere)}")
    for path in told:
        call.out.line(f"lines of it still stand in the store's {path}")
    if told:
        call.out.line(f"next: {TEXT} (type what must go, end with Ctrl-D: it is taken out of there)")
    there = [p for p in paths if os.path.lexists(os.path.join(workspace.root, p))]
    if there:
        call.out.note(f"note: {phrase.paths(there)} is still on disk; without a rule in .ckptignore it is kept again")
    for text in done.notes:
        call.out.note(f"note: {text}")
    return 0


@click.command(cls=Command)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.argument("directory", metavar="DIR")
@click.pass_obj
def forget(call: Call, yes: bool, directory: str) -> int:
    """Delete the store of DIR: all its checkpoints and runs. The files in DIR are not touched."""
    call.person_only("forget")
    path = os.path.join(call.directory, os.fsencode(directory))
    place = home.exactly(path)
    if place is None:
        near = home.nearby(path)
        raise NoStore(
            f"{phrase.directory(guard.real(path))} has no store of its own",
            kept="nothing was deleted",
            next=tuple(f"ckpt forget {phrase.shell(p.root)}" for p in near[:5]) or ("ckpt workspaces",),
        )
    size = bytes_below(place.directory)
    name = phrase.directory(place.root) if place.root else str(place.directory)
    call.confirm(f"this deletes every checkpoint and run of {name} ({phrase.size(size)}) for good", yes=yes)
    home.forget(place)
    if call.out.json:
        call.out.document({"schema": 1, "workspace": os.fsdecode(place.root), "freed": size})
    else:
        call.out.line(f"forgot {name}: {phrase.size(size)} freed; the files in it were not touched")
    return 0
