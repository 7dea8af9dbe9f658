"""`ckpt install` and `ckpt uninstall`: ckpt put into the agents people use, and taken out again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.errors import CheckpointerError, Unconfigurable, Usage

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
    return _each(call, recipes, lambda recipe: _install(call, recipe, site, program, dry_run, trust))


def _each(call: Call, recipes: list[Any], act: Any) -> int:
    """Do it for one agent after the other; what fails for one does not keep it from the others."""
    from checkpointer.cli.failure import report

    if len(recipes) == 1:
        return int(act(recipes[0]))
    status = 0
    for recipe in recipes:
        try:
            status = int(act(recipe)) or status
        except CheckpointerError as e:
            status = report(e, as_json=call.out.json)
    return status


def site_of(call: Call, project: bool) -> Any:
    from checkpointer.agents.recipes.recipe import Site
    from checkpointer.workspace import guard

    homes = guard.home_directories()
    if not homes:
        raise Usage("you have no home directory: there is no configuration of yours", kept="nothing was written")
    home = Path(os.fsdecode(homes[0]))
    if not project:
        return Site(home)
    here = Path(os.fsdecode(guard.real(call.directory)))
    top = next((d for d in (here, *here.parents) if (d / ".git").exists()), here)
    if any(guard.real(h) == os.fsencode(top) for h in homes):
        raise Usage(
            f"{phrase.directory(os.fsencode(top))} is a home directory, not a project",
            kept="nothing was written",
            next=("cd into a project", "ckpt install AGENT"),
        )
    return Site(home, project=top)


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
            return _show(call, recipe, found)
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


def _show(call: Call, recipe: Any, found: Any) -> int:
    from checkpointer.agents.installation.installing import difference

    changes = [c for c in found.changes if not c.path.name.endswith(".before-ckpt")]
    text = difference(changes)
    if call.out.json:
        call.out.document({**_document(recipe, found), "dry_run": True, "diff": text})
    elif text:
        call.out.write(text.encode("utf-8", "backslashreplace"))
    else:
        call.out.line(f"{recipe.name}: nothing would change")
    return 0


def _trust(call: Call, recipe: Any, site: Any) -> list[str]:
    from checkpointer.agents.installation import codextrust

    found: list[str] = codextrust.grant(recipe, site)
    return found


def _document(recipe: Any, found: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "agent": recipe.name,
        "changed": [str(c.path) for c in found.changes],
        "hooks": {str(p): n for p, n in found.entries.items()},
        "backups": [str(p) for p in found.backups],
        "moved_aside": [str(p) for p in found.aside],
    }


def _name(path: Path) -> str:
    return phrase.directory(os.fsencode(path))


def _say_installed(call: Call, recipe: Any, site: Any, found: Any, trusted: list[str] | None) -> None:
    from checkpointer.agents.installation import standing

    hand = [] if trusted is not None else list(recipe.hand(site))
    if call.out.json:
        call.out.document({**_document(recipe, found), "by_hand": hand, "trusted": trusted or []})
        return
    for path, count in found.entries.items():
        backup = f" (as it was: {_name(found.backups[0])})" if found.backups else ""
        call.out.line(f"{recipe.name}: {phrase.count(count, 'hook')} in {_name(path)}{backup}")
    for path in found.aside:
        call.out.line(f"{recipe.name}: a file of ckpt had been changed; as it was: {_name(path)}")
    _say_owned(call, recipe, found.owned, "written")
    if not found.changes:
        call.out.line(f"{recipe.name}: nothing to do, ckpt is there already")
    elif hand and recipe.gated and site.project is None:
        call.out.line(f"{recipe.title} is protected as soon as this is done:")
    elif site.project is not None:
        call.out.line(f"{recipe.title} is protected in {_name(site.project)} for who has ckpt; commit these files")
    else:
        call.out.line(f"{recipe.title} is protected from its next session on: `ckpt undo`, in any terminal")
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


def _say_owned(call: Call, recipe: Any, owned: list[Path], verb: str) -> None:
    by_directory: dict[Path, list[str]] = {}
    for path in owned:
        by_directory.setdefault(path.parent, []).append(path.name)
    for directory, names in by_directory.items():
        call.out.line(f"{recipe.name}: {' '.join(sorted(names))} {verb} in {_name(directory)}")


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


def shared_site(call: Call) -> Any:
    try:
        return site_of(call, True)
    except Usage:
        return None


def _row(call: Call, recipe: Any, mine: Any, in_project: bool) -> str:
    state = STATES[mine.state]
    color = {"installed": "green", "broken": "red", "unreadable": "red"}.get(mine.state, "yellow")
    if not recipe.hooks:
        state, color, way = "no hooks", "yellow", f"ckpt run -- {recipe.programs[0]}"
    elif mine.state == "installed":
        way = _name(Path(mine.where[0]))
    elif mine.state == "none" and in_project:
        state, color, way = "protected by this project", "green", ""
    else:
        way = f"{mine.why}: ckpt install {recipe.name}" if mine.why else f"ckpt install {recipe.name}"
    return f"{recipe.name:10}{recipe.title:14}{call.out.style(f'{state:15}', color)}  {way}".rstrip()


@click.command(cls=Command)
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@click.option("--all", "every", is_flag=True, help="Every agent, and every project that was noted.")
@click.option("--user", "scope", flag_value="user", help="From your own configuration (what is done unasked).")
@click.option("--project", "scope", flag_value="project", help="From this project's.")
@click.option("-n", "--dry-run", is_flag=True, help="Print the difference, write nothing.")
@click.pass_obj
def uninstall(call: Call, agents: tuple[str, ...], every: bool, scope: str | None, dry_run: bool) -> int:
    """Take ckpt out of AGENT's configuration. Every other byte stays as it is; your checkpoints stay too."""
    if not dry_run:
        call.person_only("uninstall")
    if bool(agents) == every:
        raise Usage("name an agent, or say --all", kept="nothing was written", next=("ckpt install",))
    from checkpointer.agents.recipes.catalogue import named

    if every:
        return _uninstall_all(call, dry_run)
    site = site_of(call, scope == "project")
    return _each(call, [named(a) for a in agents], lambda recipe: _uninstall(call, recipe, site, dry_run, False))


def _uninstall_all(call: Call, dry_run: bool) -> int:
    from checkpointer.agents.installation import ledger
    from checkpointer.agents.recipes.catalogue import RECIPES
    from checkpointer.agents.recipes.recipe import Site
    from checkpointer.cli.failure import report

    site = site_of(call, False)
    projects = sorted({i.project for i in ledger.everything() if i.project})
    sites = [site, *(Site(site.home, project=Path(p)) for p in projects)]
    pairs = [(r, s) for s in sites for r in RECIPES.values() if s.project is None or r.project]
    counted = status = 0
    for recipe, where in pairs:
        try:
            counted += _uninstall(call, recipe, where, dry_run, True)
        except CheckpointerError as e:
            status = report(e, as_json=call.out.json)
    if not counted and not status and not call.out.json:
        call.out.line("ckpt is in no agent's configuration")
    return status


def _uninstall(call: Call, recipe: Any, site: Any, dry_run: bool, silent: bool) -> int:
    """0; with `silent`, 1 where there was something to do, and nothing is said where there was not."""
    from checkpointer.agents.installation import installing, plan

    found = plan.uninstall(recipe, site) if dry_run else installing.uninstall(recipe, site)
    if silent and not found.changes:
        return 0
    if dry_run:
        _show(call, recipe, found)
    elif call.out.json:
        call.out.document(_document(recipe, found))
    else:
        _say_uninstalled(call, recipe, found)
    return int(silent)


def _say_uninstalled(call: Call, recipe: Any, found: Any) -> None:
    gone = {c.path for c in found.changes if c.after is None}
    for path, count in found.entries.items():
        what = "which held nothing else and is removed" if path in gone else "every other byte stays"
        call.out.line(f"{recipe.name}: {phrase.count(count, 'hook')} out of {_name(path)}, {what}")
    _say_owned(call, recipe, found.owned, "removed")
    for path in found.aside:
        call.out.line(f"{recipe.name}: a file of ckpt had been changed; it is kept as {_name(path)}")
    if not found.changes:
        call.out.line(f"{recipe.name}: nothing to do, ckpt is not in its configuration")
