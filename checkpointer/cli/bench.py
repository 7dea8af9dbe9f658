"""`ckpt bench`: what replaying a run costs here, and whether snapshots of it would be worth what they cost."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.errors import NeedsMigration

if TYPE_CHECKING:
    from pathlib import Path

    from checkpointer.run.claims import Life

LEAST_SECONDS = 0.5
_COUNTING = 0.15
"""The share of the time in which the store's runs are counted, at most."""


@click.command(cls=Command)
@click.option("--target-ms", type=click.FloatRange(min=1), default=1000, show_default=True, metavar="MS",
              help="How long it may take to have a run's state again after a kill.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=LEAST_SECONDS), default=10, show_default=True, metavar="S",
              help="Measure for about so long; more rounds are surer.")  # fmt: skip
@click.option("--events", "grown", type=click.IntRange(min=1), metavar="N", help="Reckon for runs of up to N events.")
@click.argument("run", required=False, metavar="[RUN]")
@click.pass_obj
def bench(call: Call, run: str | None, target_ms: float, seconds: float, grown: int | None) -> int:
    """What reading a run's log costs on this storage, and from when on snapshots of its state pay.

    A run that goes on after a kill reads its log again, from its newest snapshot on. This measures both, in rounds of
    changing order, and says after how many events a snapshot must be written so that this never takes longer than
    --target-ms. What the program does besides (starting, looking at the files) comes on top. Without RUN it is the
    longest driven run.

    Nothing in the store is written; what must be written to be measured lies beside it until the end. A log that is
    too short is measured on a longer copy of its own events, without their contents, and that is said.
    """
    from checkpointer.bench.corner import corner
    from checkpointer.bench.measuring import measure
    from checkpointer.bench.report import Asked, Report, deaths
    from checkpointer.cli import benchview
    from checkpointer.cli.events import log_of

    began = time.monotonic()
    workspace = call.workspace()
    asked = Asked(target_ms / 1000, grown, call.config.integer("run.snapshot_every"))
    lives, all_of_them = _lives(workspace.directory, began + seconds * _COUNTING)
    longest = next((life.run for life in lives if life.mode == "driven"), lives[0].run if lives else None)
    log = log_of(workspace, run or longest)
    try:
        with corner(workspace.directory.parent) as (place, beside), call.progress() as bar:
            left = max(LEAST_SECONDS / 2, seconds - (time.monotonic() - began))
            found = measure(log, place, left, lambda over, of: bar("measure", int(over), int(of)))
            where = benchview.where(log, place if beside else "", all_of_them)
    except NeedsMigration as e:
        e.next = (f"ckpt migrate {run or log.run}",)
        raise
    finally:
        log.close()
    report = Report(asked, found, deaths(lives))
    if call.out.json:
        call.out.document(benchview.document(report, where))
    else:
        benchview.show(call, report, where)
    return 0


def _lives(store: Path, until: float) -> tuple[list[Life], bool]:
    """The store's runs, longest first, as far as there is time to count; and whether those are all."""
    from checkpointer.run import claims, roster

    found = []
    for life in claims.lives(os.fspath(roster.runs_directory(store))):
        found.append(life)
        if time.monotonic() > until:
            return found, False
    return found, True
