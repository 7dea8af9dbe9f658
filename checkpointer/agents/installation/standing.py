"""How it stands with an agent: is the program there, are our hooks in its configuration, do they call a ckpt?"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import Literal

from checkpointer.agents.editing import document
from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.editing.values import holds, ours_in
from checkpointer.agents.installation import change
from checkpointer.agents.installation.calling import called
from checkpointer.agents.recipes.recipe import Caller, Owned, Part, Recipe, Site, path_in

State = Literal["none", "installed", "outdated", "broken", "unreadable"]


@dataclass
class Standing:
    """`calls` are the ckpts that the hooks name; `where` the files they stand in; `why` what is wrong, if anything."""

    state: State
    calls: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    why: str = ""


def reachable(recipe: Recipe, site: Site) -> bool:
    """Is the agent's program on the PATH?"""
    return any(shutil.which(p, path=site.environ.get("PATH")) for p in recipe.programs)


def present(recipe: Recipe, site: Site) -> bool:
    """Is the agent there: its program, or its configuration directory?"""
    return reachable(recipe, site) or recipe.directory(site).exists()


def examine(recipe: Recipe, site: Site) -> Standing:
    """Look at the configuration; never raises for what stands in it."""
    placeholder = Caller("" if site.project else "/ckpt")
    standing = Standing("none")
    calls: set[str] = set()
    places = [*recipe.parts(recipe, site, placeholder), *recipe.elsewhere(recipe, site, placeholder)]
    for part in {p.path: p for p in places}.values():
        try:
            named = _calls(part, recipe)
        except Unfit as e:
            return Standing("unreadable", where=[str(part.path)], why=f"{part.path} {e}")
        if named is not None:
            standing.where.append(str(part.path))
            calls |= named
    standing.calls = sorted(calls)
    if not standing.where:
        return standing
    return _judged(recipe, site, standing)


def _judged(recipe: Recipe, site: Site, standing: Standing) -> Standing:
    gone = [c for c in standing.calls if os.path.isabs(c) and not os.access(c, os.X_OK)]
    if gone:
        standing.state, standing.why = "broken", f"the hooks call {gone[0]}, which is gone"
        return standing
    called = standing.calls[0] if len(standing.calls) == 1 else ""
    caller = Caller(called if os.path.isabs(called) else "")
    standing.state = "installed"
    for part in recipe.parts(recipe, site, caller):
        if not _as_wanted(part, recipe):
            standing.state, standing.why = "outdated", f"{part.path} is not as this version of ckpt writes it"
    return standing


def _calls(part: Part, recipe: Recipe) -> set[str] | None:
    """The ckpts that a part's file names; None where nothing of ours is in it."""
    data = change.read(part.path)
    if data is None:
        return None
    text = document.text_of(data)
    if isinstance(part, Owned):
        if part.mark not in data:
            return None
        return set(called(part, text, recipe))
    found = [path_in(v) for v in ours_in(document.value_of(part.form, text), recipe.ours)]
    return set(found) if found else None


def _as_wanted(part: Part, recipe: Recipe) -> bool:
    try:
        data = change.read(part.path)
        if isinstance(part, Owned):
            return data == part.content
        if data is None:
            return False
        return holds(document.value_of(part.form, document.text_of(data)), part.entries, recipe.ours)
    except Unfit:
        return False


def switched_off(recipe: Recipe, site: Site) -> list[str]:
    """What in the agent's settings keeps every hook from running, each naming its file."""
    found = []
    for switch in recipe.switches(site):
        try:
            data = change.read(switch.path)
            value = document.value_of(switch.form, document.text_of(data)) if data is not None else {}
        except Unfit:
            continue
        for key in switch.keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value == switch.value and type(value) is type(switch.value):
            found.append(f"{switch.path}: {switch.told}")
    return found
