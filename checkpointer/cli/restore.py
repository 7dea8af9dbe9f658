"""`ckpt restore`: the files, or some of them, exactly as of a checkpoint; here or in another directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from checkpointer import home
from checkpointer.cli import outcome as told
from checkpointer.cli import phrase
from checkpointer.cli.app import Command, paths_of
from checkpointer.cli.call import Call
from checkpointer.cli.difference import points_of
from checkpointer.cli.saving import note_prompt
from checkpointer.cli.titles import open_turns
from checkpointer.cli.undo import ask_where_remade, fresh_paths
from checkpointer.errors import Usage

if TYPE_CHECKING:
    from checkpointer.workspace.checkpoint import Checkpoint
    from checkpointer.workspace.workspace import Workspace


@click.command(cls=Command)
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be done, do nothing.")
@click.option("--to", "to", metavar="DIR", help="Write the files to DIR instead; nothing here is touched.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.argument("point", required=False, metavar="P")
@click.argument("words", nargs=-1, metavar="[-- PATH...]")
@click.pass_context
def restore(
    ctx: click.Context, dry_run: bool, to: str | None, yes: bool, point: str | None, words: tuple[str, ...]
) -> int:
    """Make the files exactly as of P, all or only PATHs. `ckpt undo` takes it back."""
    call: Call = ctx.find_object(Call)  # type: ignore[assignment]
    if point is None:
        raise Usage("restore takes a point: 17, a label, t3-, @10m", next=("ckpt log --checkpoints",))
    paths = call.relative([*words, *(paths_of(ctx) or ())])
    paths = [] if b"" in paths else paths
    workspace = call.workspace() if to is not None else call.acting(dry_run=dry_run)
    checkpoint = points_of(workspace).resolve(point)
    if checkpoint is None:
        raise Usage("now is the files on disk already", kept="nothing was written", next=("ckpt restore P",))
    if to is not None:
        return _elsewhere(call, workspace, checkpoint, to, paths)
    if not dry_run:
        ask_where_remade(call, "restore", yes=yes)
    with call.progress() as bar:
        result = workspace.restore(
            checkpoint.number,
            paths,
            dry_run=dry_run,
            by="agent" if call.inside_agent() else "person",
            open_turns=open_turns(workspace),
            progress=bar,
            others=call.others(),
        )
    if not result.dry_run:
        if call.place().state in ("remade", "gone"):
            home.accept(workspace)
        note_prompt(workspace)
    call.notices(workspace)
    if call.out.json:
        call.out.document(told.document(result))
        return 0
    label = f" {phrase.quoted(checkpoint.meta.label)}" if checkpoint.meta.label else ""
    shown = result._replace(unit=str(checkpoint.number))
    told.report(call, workspace, shown, told.RESTORE, label, fresh_paths(workspace, result))
    if not result.dry_run:
        call.out.hint("next: ckpt undo (back to the files before this)")
    return 0


def _elsewhere(call: Call, workspace: Workspace, checkpoint: Checkpoint, to: str, paths: list[bytes]) -> int:
    target = os.path.normpath(os.path.join(call.directory, os.fsencode(to)))
    result = workspace.restore_to(checkpoint.number, target, paths)
    call.notices(workspace)
    if call.out.json:
        call.out.document({**told.document(result), "to": to})
        return 0
    count = phrase.count(len(result.written), "file")
    call.out.line(
        f"wrote {count} of checkpoint {checkpoint.number} to {phrase.shell(os.fsencode(to))}; nothing here was touched"
    )
    return 0
