"""`ckpt install`: ckpt put into the agents people use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.cli.installed import document, each, say_owned, say_wrapped, shared_site, show, shown, site_of
from checkpointer.errors import Unconfigurable, Usage

STATES = {
    "none": "not protected",
    "installed": "protected",
    "outdated": "protected, by hooks of another version",
    "broken": "NOT PROTECTED",
    "unreadable": "unknown",
}


@click.command(cls=Command)
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@click.option("--user", "scope", flag_value="user", help="In your own configuration (what is done unasked).")
@click.option("--project", "scope", flag_value="project", help="In this project's, for a team to commit.")
@click.option("-n", "--dry-run", is_flag=True, help="Print the difference, write nothing.")
@click.option("--trust", is_flag=True, help="Codex: also tell it that you trust these hooks.")
@click.option("--command", "program", metavar="PATH", help="The ckpt that is called, instead of this one.")
@click.pass_obj
def install(
    call: Call, agents: tuple[str, ...], scope: str | None, dry_run: bool, trust: bool, program: str | None
) -> int:
    """Put ckpt into AGENT, so that each of its turns can be undone. Alone: which agents there are.

    Every other byte of the agent's configuration stays as it is, a copy is kept beside it, and `ckpt uninstall`
    brings it back to the byte. A second time changes nothing.

    \b
    ckpt install claude              in your own configuration
    ckpt install claude --project    in .claude of this project, to commit: silent where a member has no ckpt
    ckpt install claude -n           what would be written
    """
    if not agents:
        return _list(call)
    if not dry_run:
        call.person_only("install")
    from checkpointer.agents.installation import program as programs
    from checkpointer.agents.recipes.catalogue import named

    recipes = [named(a) for a in agents]
    site = site_of(call, scope == "project")
    if program:
        programs.named(program)
    for recipe in recipes:
        if not recipe.hooks:
            raise Usage(
                f"{recipe.title} has no hooks that ckpt could be put into",
                kept="nothing was written",
                next=(f"ckpt run -- {recipe.programs[0]}",),
            )
        if site.project is not None and not recipe.project:
            raise Usage(
                f"{recipe.title} has no configuration that a project could share",
                kept="nothing was written",
                next=(f"ckpt install {recipe.name}",),
            )
    if trust and any(r.name != "codex" for r in recipes):
        raise Usage("--trust is for Codex: no other agent asks ckpt for it", next=("ckpt install codex --trust",))
    return each(call, recipes, lambda recipe: _install(call, recipe, site, program, dry_run, trust))


def _install(call: Call, recipe: Any, site: Any, program: str | None, dry_run: bool, trust: bool) -> int:
    from checkpointer.agents.installation import installing, plan
    from checkpointer.agents.installation import program as programs
    from checkpointer.agents.recipes.recipe import Caller

    if site.project is not None:
        caller = Caller()
    else:
        caller = Caller(program or programs.chosen())
    try:
        if dry_run:
            found = plan.install(recipe, site, caller)
            return show(call, recipe, found)
        found = installing.install(recipe, site, caller)
    except Unconfigurable as e:
        _paste(call, e)
        raise
    trusted = _trust(call, recipe, site) if trust else None
    _say_installed(call, recipe, site, found, trusted)
    return 0


def _paste(call: Call, error: Unconfigurable) -> None:
    """What a person can put there by hand."""
    snippet = error.details.get("snippet")
    if snippet and not call.out.json:
        path = phrase.directory(os.fsencode(error.details["path"]))
        call.out.note(f"note: this is what would go into {path}, to paste by hand:")
        call.out.line(snippet.rstrip("\n"))


def _trust(call: Call, recipe: Any, site: Any) -> list[str]:
    from checkpointer.agents.installation import codextrust

    found: list[str] = codextrust.grant(recipe, site)
    return found


def _say_installed(call: Call, recipe: Any, site: Any, found: Any, trusted: list[str] | None) -> None:
    from checkpointer.agents.installation import standing

    hand = [] if trusted is not None else list(recipe.hand(site))
    if call.out.json:
        call.out.document({**document(recipe, found), "by_hand": hand, "trusted": trusted or []})
        return
    for path, count in found.entries.items():
        backup = f" (as it was: {shown(found.backups[0].path)})" if found.backups else ""
        call.out.line(f"{recipe.name}: {phrase.count(count, 'hook')} in {shown(path)}{backup}")
    for path in found.aside:
        call.out.line(f"{recipe.name}: a file of ckpt had been changed; as it was: {shown(path)}")
    say_wrapped(call, recipe, found)
    say_owned(call, recipe, found.owned, "written")
    if not found.changes:
        call.out.line(f"{recipe.name}: nothing to do, ckpt is there already")
    else:
        place = f" in {shown(site.project)} for who has ckpt" if site.project is not None else ""
        when = "as soon as this is done:" if hand and recipe.gated else "from its next session on"
        commit = "; commit these files" if site.project is not None else ": `ckpt undo`, in any terminal"
        end = "" if when.endswith(":") else commit
        call.out.line(f"{recipe.title} is protected{place} {when}{end}")
    if trusted is not None:
        call.out.line(f"{recipe.name}: {phrase.count(len(trusted), 'hook')} trusted now")
    for text in hand:
        call.out.line(f"by hand: {text}")
    if site.project is None and not standing.reachable(recipe, site):
        call.out.note(f"note: no {recipe.programs[0]} is on the PATH yet; the hooks wait for it")
    _hint(call, f"ckpt doctor {recipe.name}")


def _hint(call: Call, command: str) -> None:
    import sys

    from checkpointer.cli.output import is_terminal

    if is_terminal(sys.stderr):
        call.out.note(f"next: {command}")


def _list(call: Call) -> int:
    """The agents there are, and how it stands with each."""
    from checkpointer.agents.installation import standing
    from checkpointer.agents.recipes.catalogue import RECIPES

    site = site_of(call, False)
    shared = shared_site(call)
    missing = []
    for recipe in RECIPES.values():
        there = standing.present(recipe, site)
        mine = standing.examine(recipe, site)
        theirs = standing.examine(recipe, shared) if shared is not None and recipe.project else None
        in_project = theirs is not None and theirs.state != "none"
        if call.out.json:
            call.out.document(
                {
                    "agent": recipe.name,
                    "title": recipe.title,
                    "found": there,
                    "state": mine.state,
                    "where": mine.where,
                    "calls": mine.calls,
                    "why": mine.why or None,
                    "project": theirs.state if theirs is not None else None,
                }
            )
        elif there or mine.state != "none" or in_project:
            call.out.line(_row(call, recipe, mine, in_project))
        else:
            missing.append(recipe.name)
    if missing and not call.out.json:
        call.out.line(f"not found here: {' '.join(missing)}")
    return 0


def _row(call: Call, recipe: Any, mine: Any, in_project: bool) -> str:
    state = STATES[mine.state]
    color = {"installed": "green", "broken": "red", "unreadable": "red"}.get(mine.state, "yellow")
    if not recipe.hooks:
        state, color, way = "no hooks", "yellow", f"ckpt run -- {recipe.programs[0]}"
    elif mine.state == "installed":
        way = shown(Path(mine.where[0]))
    elif mine.state == "none" and in_project:
        state, color, way = "protected by this project", "green", ""
    else:
        way = f"{mine.why}: ckpt install {recipe.name}" if mine.why else f"ckpt install {recipe.name}"
    return f"{recipe.name:10}{recipe.title:14}{call.out.style(f'{state:15}', color)}  {way}".rstrip()
