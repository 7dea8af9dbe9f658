"""Cursor: `hooks.json`; edits, commands and MCP calls are told after they happened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkpointer.agents.recipes.recipe import Caller, Hook, Merged, Part, Recipe, Site, flat, markdown


def directory(site: Site) -> Path:
    return site.directory(".cursor")


def parts(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    place = directory(site)
    skeleton = '{\n  "version": 1\n}\n'
    return [Merged(place / "hooks.json", "jsonc", flat(recipe, caller), skeleton), *markdown(place / "commands", "")]


def hand(site: Site) -> Sequence[str]:
    return () if site.project is None else ["each member trusts the workspace, and has ckpt on the PATH"]


# Nothing that is asked for permission: a hook that answers there would decide in the person's place.
RECIPE = Recipe(
    name="cursor",
    title="Cursor",
    programs=("cursor-agent", "cursor"),
    hooks=(
        Hook("sessionStart", 60),
        Hook("beforeSubmitPrompt", 60),
        Hook("afterFileEdit", 60),
        Hook("afterShellExecution", 60),
        Hook("afterMCPExecution", 60),
        Hook("stop", 60),
        Hook("sessionEnd", 10),
    ),
    parts=parts,
    directory=directory,
    hand=hand,
    trust="a project's hooks run in a trusted workspace",
    slash=True,
    shell="in its sandbox it is confined to the workspace: looking works, undoing does not",
)
