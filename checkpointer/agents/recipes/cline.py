"""Cline: one executable file an event, named after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkpointer.agents.recipes.recipe import MARK, Caller, Hook, Owned, Part, Recipe, Site


def directory(site: Site) -> Path:
    return site.directory(".cline")


def parts(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    found = []
    for hook in recipe.hooks:
        line = caller.shell(recipe.name, hook.event)
        content = f"#!/bin/sh\n# {MARK}\n{'exec ' if caller.path else ''}{line}\n"
        found.append(Owned(directory(site) / "hooks" / hook.event, content.encode(), MARK.encode(), 0o755))
    return found


def hand(site: Site) -> Sequence[str]:
    return ["in VS Code, hooks run only where Cline's setting Enable Hooks is on"]


RECIPE = Recipe(
    name="cline",
    title="Cline",
    programs=("cline",),
    hooks=tuple(
        Hook(event)
        for event in (
            "TaskStart",
            "TaskResume",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "PreCompact",
            "TaskComplete",
            "TaskCancel",
        )
    ),
    parts=parts,
    directory=directory,
    hand=hand,
)
