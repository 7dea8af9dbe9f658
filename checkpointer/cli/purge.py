"""`ckpt purge` and `ckpt forget`: take a path's content out of every checkpoint; delete a whole store."""

from __future__ import annotations

import os

import click

from checkpointer import home
from checkpointer.cli import phrase
from checkpointer.cli.app import Command, paths_of
from checkpointer.cli.call import Call
from checkpointer.cli.status import bytes_below
from checkpointer.errors import NoStore, Usage
from checkpointer.workspace import guard


@click.command(cls=Command)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.argument("words", nargs=-1, metavar="PATH")
@click.pass_context
def purge(ctx: click.Context, yes: bool, words: tuple[str, ...]) -> int:
    """Take PATH, and all below it, out of every checkpoint, for good. The file on disk is not touched."""
    call: Call = ctx.find_object(Call)  # type: ignore[assignment]
    call.person_only("purge")
    typed = [*words, *(paths_of(ctx) or ())]
    if not typed:
        raise Usage("purge takes a path", next=("ckpt purge .env",))
    paths = call.relative(typed)
    if b"" in paths:
        raise Usage("that is the whole workspace", kept="nothing was written", next=("ckpt forget DIR",))
    raise NotImplementedError(paths, yes)


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
