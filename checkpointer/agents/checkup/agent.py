"""How it stands with one agent: configured, trusted, heard of, not switched off, able to use the store."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime

from checkpointer import places
from checkpointer.agents.checkup.finding import Finding, broken, note, ok
from checkpointer.agents.installation import codextrust, program, standing
from checkpointer.agents.installation.standing import Standing
from checkpointer.agents.recipes.recipe import Recipe, Site
from checkpointer.errors import CheckpointerError


def examine(recipe: Recipe, site: Site, shared: Site | None, here: bytes, *, asked: bool) -> Iterator[Finding]:
    """Look at an agent. `shared` is the project's configuration, if there is a project; `asked`: somebody named it."""
    if not recipe.hooks:
        if asked or standing.present(recipe, site):
            yield note(recipe.name, "no-hooks", "it has no hooks; ckpt goes around it", f"ckpt run -- {recipe.name}")
        return
    mine = standing.examine(recipe, site)
    theirs = standing.examine(recipe, shared) if shared is not None and recipe.project else Standing("none")
    if mine.state == theirs.state == "none":
        yield from _missing(recipe, site, asked)
        return
    yield from _configured(recipe, site, mine)
    if theirs.state != "none":
        yield from _in_project(recipe, theirs)
    for told in (*standing.switched_off(recipe, site), *(standing.switched_off(recipe, shared) if shared else ())):
        yield broken(recipe.name, "switched-off", told, "change that setting")
    if recipe.name == "codex" and mine.state != "unreadable":
        yield from _trusted(recipe, site, shared if theirs.state != "none" else None)
    yield _heard_of(recipe, here)
    yield from _failures(recipe, here)
    confined = recipe.confined(site, os.fspath(places.home_directory()))
    if confined:
        yield note(recipe.name, "sandbox", *confined)


def _missing(recipe: Recipe, site: Site, asked: bool) -> Iterator[Finding]:
    there = standing.present(recipe, site)
    if asked:
        found = "is not protected" if there else "was not found here, and is not protected"
        yield broken(recipe.name, "not-configured", f"{recipe.title} {found}", f"ckpt install {recipe.name}")
    elif there:
        yield note(recipe.name, "not-configured", f"{recipe.title} is not protected", f"ckpt install {recipe.name}")


def _configured(recipe: Recipe, site: Site, mine: Standing) -> Iterator[Finding]:
    again = f"ckpt install {recipe.name}"
    if mine.state == "installed":
        called = mine.calls[0] if mine.calls else ""
        real = program.running() or ""
        yield ok(recipe.name, "configured", f"hooks in {mine.where[0]}")
        if called and real and os.path.realpath(called) != os.path.realpath(real):
            yield note(recipe.name, "another-ckpt", f"its hooks call another ckpt than this one: {called}", again)
    elif mine.state == "outdated":
        yield note(recipe.name, "outdated", mine.why, again)
    elif mine.state == "broken":
        yield broken(recipe.name, "ckpt-gone", mine.why, again)
    elif mine.state == "unreadable":
        yield broken(recipe.name, "unreadable", mine.why, f"correct {mine.where[0]}", again)


def _in_project(recipe: Recipe, theirs: Standing) -> Iterator[Finding]:
    if theirs.state == "unreadable":
        yield broken(recipe.name, "unreadable", theirs.why, f"correct {theirs.where[0]}")
        return
    yield ok(recipe.name, "configured-project", f"this project brings hooks in {theirs.where[0]}")
    strangers = program.shadowed()
    reached = shutil.which("ckpt")
    if reached is None or reached in strangers:
        what = "there is none" if reached is None else f"that is another program, {reached}"
        yield broken(
            recipe.name,
            "project-ckpt",
            f"they call ckpt by name, and on this PATH {what}",
            f"have it on the PATH: {program.LASTING[0]}",
        )
    if theirs.state == "outdated":
        yield note(recipe.name, "outdated", theirs.why, f"ckpt install {recipe.name} --project")


def _trusted(recipe: Recipe, site: Site, shared: Site | None) -> Iterator[Finding]:
    try:
        found = codextrust.ask(recipe, shared or site)
    except CheckpointerError as e:
        yield note(recipe.name, "trust-unknown", e.message, *e.next)
        return
    if shared is not None and not any(t.path.startswith(f"{shared.project}/") for t in found):
        yield broken(
            recipe.name,
            "untrusted-project",
            "Codex does not read this project's hooks, for nobody has trusted the project",
            "start codex here, and trust the project when it asks",
        )
    waiting = [t.event for t in found if not t.runs]
    if waiting:
        yield broken(
            recipe.name,
            "untrusted",
            f"Codex skips {len(waiting)} of {len(found)} hooks, for nobody has trusted them: {' '.join(waiting)}",
            "start codex, type /hooks, and trust those of ckpt",
            "ckpt install codex --trust" if shared is None else "ckpt install codex --project --trust",
        )
    elif found:
        yield ok(recipe.name, "trusted", f"Codex trusts all {len(found)} hooks")


def _heard_of(recipe: Recipe, here: bytes) -> Finding:
    last = last_event(recipe.name, here)
    if last is not None:
        age = _age(last)
        return ok(recipe.name, "last-event", f"last heard of in this directory {age} ago")
    began = _last_session(recipe.name)
    if began is not None:
        return ok(recipe.name, "last-event", f"never heard of in this directory; elsewhere {_age(began)} ago")
    return note(
        recipe.name,
        "never-heard-of",
        "no hook of it has ever called",
        f"start {recipe.programs[0]} and ask it something",
    )


def last_event(agent: str, here: bytes) -> datetime | None:
    """When a hook of an agent last told something of this workspace."""
    from checkpointer.run import roster

    place = places.locate(here)
    if place is None:
        return None
    latest: datetime | None = None
    for run in roster.names(place.directory):
        info = roster.read(place.directory, run)
        if info.agent == agent and info.last is not None:
            latest = max(latest, info.last) if latest is not None else info.last
    return latest


def _last_session(agent: str) -> datetime | None:
    """When a session of an agent was last seen for the first time, anywhere."""
    newest = 0.0
    with contextlib.suppress(OSError):
        for entry in os.scandir(places.home_directory() / "sessions"):
            if entry.name.startswith(f"{agent}-"):
                newest = max(newest, entry.stat().st_mtime)
    return datetime.fromtimestamp(newest, UTC) if newest else None


def _failures(recipe: Recipe, here: bytes) -> Iterator[Finding]:
    """What a hook could not do since one last worked, from the log that hooks write instead of speaking."""
    place = places.locate(here)
    since = last_event(recipe.name, here)
    for directory in (places.home_directory(), place.directory if place else None):
        path = directory / "hooks.log" if directory is not None else None
        with contextlib.suppress(OSError, ValueError):
            lines = path.read_text("utf-8", "replace").splitlines() if path is not None else []
            mine = [line for line in lines if line.split(" ")[2:3] == [recipe.name]]
            if mine and (since is None or datetime.fromisoformat(mine[-1].split(" ")[0]) > since):
                told = mine[-1].partition(": ")[2][:200]
                yield note(recipe.name, "hook-failed", f"its last hook failed: {told}", f"less {path}")


def _age(at: datetime) -> str:
    seconds = max(0, int((datetime.now(UTC) - at).total_seconds()))
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
