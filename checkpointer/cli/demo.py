"""`ckpt demo`: undo, and an agent loop that is killed and goes on, in temporary directories, checked as it goes."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from checkpointer.cli.app import Command
from checkpointer.cli.call import Call


@click.command(cls=Command)
@click.option("--without-keys", is_flag=True, help="Only the loop, with a receiver that ignores keys: it pays twice.")
@click.pass_obj
def demo(call: Call, without_keys: bool) -> int:
    """Show undo, and a loop that is killed and goes on. Half a minute; nothing of yours is touched.

    Everything happens in temporary directories with a store of their own. First an agent's changes are taken back and a
    person's stay. Then an agent loop that pays over HTTP is killed with SIGKILL while its model is asked, while it
    writes a file, and between a payment and the note of it, and started again each time. What was paid is read from
    the receiver's file, not from the loop's own log.

    Exit status: 0 if all of it was so, 1 if not.
    """
    from checkpointer.demo.killing import killing
    from checkpointer.demo.stage import Stage
    from checkpointer.demo.undoing import undoing

    def say(text: str) -> None:
        if not call.out.json:
            call.out.line(call.out.style(text, "bold") if text.startswith("$ ") else text)
            sys.stdout.flush()

    parts: dict[str, Any] = {}
    held = True
    for name, title in (("undo", "UNDO"), ("run", "A RUN THAT IS KILLED")):
        if without_keys and name == "undo":
            continue
        with Stage(say) as stage:
            say(call.out.style(title, "bold"))
            if name == "undo":
                undoing(stage)
            else:
                killing(stage, keys=not without_keys)
            say("")
            parts[name] = [asdict(one) for one in stage.claims]
            held = held and stage.held
    if call.out.json:
        call.out.document({"schema": 1, "held": held, "keys": not without_keys, **parts})
    else:
        call.out.line("all of this was so" if held else "NOT all of this was so: see the lines that begin with NO")
    return 0 if held else 1
