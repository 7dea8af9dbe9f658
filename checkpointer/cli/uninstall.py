"""`ckpt uninstall`: ckpt taken out of agents' configurations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.cli.installed import document, each, say_owned, say_wrapped, shared_site, show, shown, site_of
from checkpointer.errors import CheckpointerError, Usage

if TYPE_CHECKING:
    from checkpointer.agents.installation.plan import Plan
    from checkpointer.agents.recipes.recipe import Recipe, Site


@click.command(cls=Command)
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@click.option("--all", "every", is_flag=True, help="Every agent, and every project that was noted.")
@click.option("--user", "scope", flag_value="user", help="From your own configuration (what is done unasked).")
@click.option("--project", "scope", flag_value="project", help="From this project's.")
@click.option("-n", "--dry-run", is_flag=True, help="Print the difference, write nothing.")
@click.pass_obj
def uninstall(call: Call, agents: tuple[str, ...], every: bool, scope: str | None, dry_run: bool) -> int:
    """Take ckpt out of AGENT's configuration. Every other byte stays as it is; your checkpoints stay too.

    The copy kept beside a configuration goes where the configuration is again what the copy holds; else it stays.
    """
    if not dry_run:
        call.person_only("uninstall")
    if bool(agents) == every:
        raise Usage("name an agent, or say --all", kept="nothing was written", next=("ckpt install",))
    from checkpointer.agents.recipes.catalogue import named

    if every:
        return _uninstall_all(call, dry_run)
    site = site_of(call, scope == "project")
    return each(call, [named(a) for a in agents], lambda recipe: _uninstall(call, recipe, site, dry_run, False))


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


def _uninstall(call: Call, recipe: Recipe, site: Site, dry_run: bool, silent: bool) -> int:
    """0; with `silent`, 1 where there was something to do, and nothing is said where there was not."""
    from checkpointer.agents.installation import installing, plan

    found = plan.uninstall(recipe, site) if dry_run else installing.uninstall(recipe, site)
    if silent and not found.changes and not found.kept and not found.wrapped:
        return 0
    if dry_run:
        show(call, recipe, found)
    elif call.out.json:
        call.out.document(document(recipe, found))
    else:
        _say_uninstalled(call, recipe, site, found)
    return int(silent)


def _say_uninstalled(call: Call, recipe: Recipe, site: Site, found: Plan) -> None:
    gone = {c.path for c in found.changes if c.after is None}
    for path, count in found.entries.items():
        what = "which held nothing else and is removed" if path in gone else "every other byte stays"
        call.out.line(f"{recipe.name}: {phrase.count(count, 'hook')} out of {shown(path)}, {what}")
    say_wrapped(call, recipe, found)
    say_owned(call, recipe, found.owned, "removed")
    for path, why in found.kept.items():
        call.out.line(f"{recipe.name}: the copy {shown(path)} stays: {why}")
    for path in found.aside:
        call.out.line(f"{recipe.name}: a file of ckpt had been changed; it is kept as {shown(path)}")
    if not found.changes:
        call.out.line(f"{recipe.name}: nothing to do, ckpt is not in its configuration")
        _say_where_it_is(call, recipe, site)


def _say_where_it_is(call: Call, recipe: Recipe, site: Site) -> None:
    """The other place, yours or the project's, if ckpt is there."""
    from checkpointer.agents.installation import standing

    other = site_of(call, False) if site.project is not None else shared_site(call)
    if other is None or not (other.project is None or recipe.project):
        return
    if standing.examine(recipe, other).state != "none":
        flag, whose = (" --project", "this project's") if other.project is not None else ("", "your own")
        call.out.line(f"it is in {whose}: ckpt uninstall {recipe.name}{flag}")
