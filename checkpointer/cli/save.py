"""`ckpt save` and `ckpt pin`: a checkpoint now; a checkpoint kept for good."""

from __future__ import annotations

import click

from checkpointer.cli import phrase, saving
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.cli.difference import points_of
from checkpointer.errors import Usage


@click.command(cls=Command)
@click.option("-m", "label", metavar="LABEL", help="A name for the checkpoint; it is then kept for good.")
@click.option("--force-root", is_flag=True, help="Even where a workspace should not be: a home, /, /tmp, a mount.")
@click.pass_obj
def save(call: Call, label: str | None, force_root: bool) -> int:
    """Make a checkpoint of the files as they are now."""
    return saving.save(call, label, force_root=force_root)


@click.command(cls=Command)
@click.argument("point", metavar="P")
@click.option("-m", "label", metavar="LABEL", help="A name for the checkpoint.")
@click.option("--remove", is_flag=True, help="Let it go when its time has come.")
@click.pass_obj
def pin(call: Call, point: str, label: str | None, remove: bool) -> int:
    """Keep the checkpoint at P for good, whatever its age, and name it."""
    name = saving.checked_label(label)
    if remove and name:
        raise Usage("--remove takes the name away; -m gives one")
    workspace = call.workspace(write=True)
    checkpoint = points_of(workspace).resolve(point)
    if checkpoint is None:
        raise Usage("now is no checkpoint yet", next=("ckpt save -m LABEL",))
    with workspace.locked("pinning a checkpoint"):
        if remove:
            workspace.store.unpin(checkpoint.number)
        else:
            workspace.store.pin(checkpoint.number, name)
    if call.out.json:
        call.out.document({"schema": 1, "checkpoint": checkpoint.number, "pinned": not remove, "label": name})
    elif remove:
        call.out.line(f"checkpoint {checkpoint.number} is no longer pinned")
    else:
        call.out.line(f"checkpoint {checkpoint.number}{' ' + phrase.quoted(name) if name else ''} is kept for good")
    return 0
