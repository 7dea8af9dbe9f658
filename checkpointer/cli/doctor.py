"""`ckpt doctor`: does it all work, and what mends what does not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.cli.installed import shared_site, site_of
from checkpointer.errors import Usage

if TYPE_CHECKING:
    from checkpointer.agents.checkup.finding import Finding

COLORS = {"ok": "green", "note": "yellow", "broken": "red"}


@click.command(cls=Command)
@click.argument("agent", required=False, metavar="[AGENT]")
@click.option("--adopt", metavar="OLD", help="Give this directory the store of OLD, which it was before it moved.")
@click.pass_obj
def doctor(call: Call, agent: str | None, adopt: str | None) -> int:
    """Look at everything that protection needs: ckpt itself, the stores, this directory, the agents; or AGENT.

    Nothing is changed. Each finding comes with the command that mends it. Ends with 1 if something is broken.
    """
    if adopt is not None:
        return _adopt(call, adopt)
    found = []
    for finding in _findings(call, agent):
        found.append(finding)
        if not call.out.json:
            _print(call, finding, found)
    sound = all(f.level != "broken" for f in found)
    if call.out.json:
        call.out.document({"schema": 1, "sound": sound, "findings": [_document(f) for f in found]})
    elif not sound:
        count = sum(f.level == "broken" for f in found)
        call.out.line(call.out.style(f"{phrase.count(count, 'thing is', 'things are')} broken", "red"))
    else:
        call.out.line("all of it works" if all(f.level == "ok" for f in found) else "nothing is broken")
    return 0 if sound else 1


def _findings(call: Call, agent: str | None) -> Iterator[Finding]:
    from checkpointer.agents.checkup import agent as agents
    from checkpointer.agents.checkup import directory, ground
    from checkpointer.agents.recipes.catalogue import RECIPES, named

    recipes: Iterable[Any] = [named(agent)] if agent is not None else RECIPES.values()
    site = site_of(call, False)
    shared = shared_site(call)
    yield from ground.of_program()
    yield from ground.of_stores()
    yield from directory.examine(call.directory, call.config)
    for recipe in recipes:
        yield from agents.examine(recipe, site, shared, call.directory, asked=agent is not None)


def _print(call: Call, finding: Finding, before: list[Finding]) -> None:
    """A line, under its subject where that is a new one, and a line for each way to mend it."""
    subject = _short(finding.subject)
    new = len(before) < 2 or before[-2].subject != finding.subject
    if new and len(subject) > 9:
        call.out.line(subject)
    head = subject if new and len(subject) <= 9 else ""
    mark = "" if finding.level == "ok" else call.out.style(f"{finding.level}: ", COLORS[finding.level])
    call.out.line(f"{head:10}{mark}{_short(finding.message)}")
    for command in finding.mend:
        call.out.line(f"{'':12}{command}")


def _short(text: str) -> str:
    """The home as `~`, as everywhere."""
    home = os.environ.get("HOME", "").rstrip("/")
    return text.replace(home + "/", "~/") if home.startswith("/") and home != "/" else text


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "subject": finding.subject,
        "level": finding.level,
        "what": finding.what,
        "message": finding.message,
        "mend": list(finding.mend),
    }


def _adopt(call: Call, old: str) -> int:
    from checkpointer import home
    from checkpointer.workspace import guard

    call.person_only("adopting a store")
    path = os.path.join(call.directory, os.path.expanduser(os.fsencode(old)))
    place = home.exactly(path)
    if place is None or not place.root:
        raise Usage(
            f"there is no store of {phrase.directory(guard.real(path))}",
            kept="nothing was written",
            next=("ckpt workspaces",),
        )
    root = guard.real(call.directory)
    adopted = home.adopt(root, place)
    if call.out.json:
        call.out.document(
            {
                "schema": 1,
                "workspace": os.fsdecode(root),
                "store": str(adopted.directory),
                "was": os.fsdecode(place.root),
            }
        )
        return 0
    call.out.line(f"{phrase.directory(root)} has the store of {phrase.directory(place.root)} now; no file was touched")
    call.out.line("what differs from its newest checkpoint: ckpt status")
    return 0
