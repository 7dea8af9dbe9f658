"""`ckpt migrate`: a log whose words meant something else when they were written, written anew in today's."""

from __future__ import annotations

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call


@click.command(cls=Command)
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be written; write nothing.")
@click.option("--take-over", is_flag=True, help="Even where nobody can say that its owner is dead.")
@click.argument("run", metavar="RUN")
@click.pass_obj
def migrate(call: Call, run: str, dry_run: bool, take_over: bool) -> int:
    """Write a run's log of an older version in today's words. Nothing reads such a log before.

    Its events keep their numbers and times, the files are not touched, and the old log stays beside the new one.

    Exit status: 1 if there is nothing to do, 4 while the run's owner lives, 5 where the log is damaged or of a newer
    version.
    """
    from checkpointer import machine
    from checkpointer.cli.events import log_of
    from checkpointer.log.rewrite import migrate as write

    call.person_only("ckpt migrate")
    log = log_of(call.acting(dry_run=dry_run), run)
    try:
        done = write(log, world=machine.World(), take_over=take_over, dry=dry_run)
    finally:
        log.close()
    if call.out.json:
        call.out.document(
            {
                "schema": 1,
                "run": run,
                "id": log.run,
                "events": done.events,
                "changed": done.changed,
                "old": done.kept or None,
                "written": not dry_run,
            }
        )
        return 0
    types = ", ".join(f"{count} {name}" for name, count in sorted(done.changed.items()))
    would = "would write" if dry_run else "wrote"
    call.out.line(f"{would} {phrase.count(done.events, 'event')} of {run} in today's words; older ones were: {types}")
    if done.kept:
        call.out.line(f"the log as it was: {done.kept}")
        call.out.hint(f"next: ckpt events {run}")
    return 0
