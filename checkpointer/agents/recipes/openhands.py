"""OpenHands: Claude Code's shapes in `.openhands/hooks.json`; a project's file hides the person's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkpointer.agents.recipes.recipe import Caller, Hook, Merged, Part, Recipe, Site, grouped


def directory(site: Site) -> Path:
    return site.directory(".openhands")


def parts(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    return [Merged(directory(site) / "hooks.json", "json", grouped(recipe, caller))]


def hand(site: Site) -> Sequence[str]:
    if site.project is None:
        return [
            "a project with a .openhands/hooks.json of its own hides these: there, ckpt install openhands --project"
        ]
    return ()


RECIPE = Recipe(
    name="openhands",
    title="OpenHands",
    programs=("openhands",),
    hooks=(
        Hook("SessionStart", 60, "*"),
        Hook("UserPromptSubmit", 60, "*"),
        Hook("PreToolUse", 30, "*"),
        Hook("PostToolUse", 60, "*"),
        Hook("Stop", 60, "*"),
        Hook("SessionEnd", 10, "*"),
    ),
    parts=parts,
    directory=directory,
    hand=hand,
    shell="in its own container it has no ckpt and no store",
)
