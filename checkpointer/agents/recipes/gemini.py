"""Gemini CLI: `settings.json`, timeouts in milliseconds, slash commands in TOML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkpointer.agents.editing.values import Entry
from checkpointer.agents.recipes.recipe import (
    COMMANDS,
    MARK,
    Caller,
    Hook,
    Merged,
    Owned,
    Part,
    Recipe,
    Site,
    Switch,
    by_each_member,
    grouped,
)


def directory(site: Site) -> Path:
    return site.directory(".gemini")


def settings(site: Site) -> Path:
    return directory(site) / "settings.json"


def parts(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    named = tuple(_named(e) for e in grouped(recipe, caller, unit=1000))
    mark = f"# {MARK}\n"
    commands = [
        Owned(
            directory(site) / "commands" / f"ckpt-{verb}.toml",
            f'{mark}description = "{about}"\nprompt = "ckpt {verb} {{{{args}}}}"\n'.encode(),
            mark.encode(),
        )
        for verb, about in COMMANDS.items()
    ]
    return [Merged(settings(site), "jsonc", named), *commands]


def _named(entry: Entry) -> Entry:
    (told,) = entry.value["hooks"]
    return Entry(entry.keys, {**entry.value, "hooks": [{"name": f"ckpt {entry.keys[-1]}", **told}]})


def switches(site: Site) -> Sequence[Switch]:
    off = "hooksConfig.enabled is false: no hook runs"
    return [Switch(settings(site), "jsonc", ("hooksConfig", "enabled"), False, off)]


# Not PreCompress: it comes before every request to the model. SessionEnd is not waited for.
RECIPE = Recipe(
    name="gemini",
    title="Gemini CLI",
    programs=("gemini",),
    hooks=(
        Hook("SessionStart", 60),
        Hook("BeforeAgent", 60),
        Hook("BeforeTool"),
        Hook("AfterTool", 60),
        Hook("AfterAgent", 60),
        Hook("SessionEnd", 5),
    ),
    parts=parts,
    directory=directory,
    hand=by_each_member,
    switches=switches,
    trust="a project's hooks run once its folder is trusted",
    slash=True,
    shell="it can use the store, unless it runs in a sandbox (tools.sandbox)",
)
