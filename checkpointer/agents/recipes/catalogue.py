"""Every agent that has a recipe, by name."""

from __future__ import annotations

import difflib

from checkpointer.agents.recipes import (
    aider,
    claude,
    cline,
    codex,
    copilot,
    cursor,
    gemini,
    goose,
    hermes,
    opencode,
    openhands,
    qwen,
)
from checkpointer.agents.recipes.recipe import Recipe
from checkpointer.errors import Usage

RECIPES: dict[str, Recipe] = {
    module.RECIPE.name: module.RECIPE
    for module in (
        claude,
        codex,
        gemini,
        qwen,
        opencode,
        copilot,
        cline,
        hermes,
        cursor,
        goose,
        openhands,
        aider,
    )
}


def named(name: str) -> Recipe:
    """The recipe of that name, or of a program of that name. Raises Usage with a suggestion."""
    wanted = name.lower()
    for recipe in RECIPES.values():
        if wanted in (recipe.name, recipe.title.lower(), *recipe.programs):
            return recipe
    near = difflib.get_close_matches(wanted, RECIPES, 1, 0.5)
    raise Usage(
        f"there is no recipe for {name!r}" + (f"; did you mean {near[0]}?" if near else ""),
        kept="nothing was written",
        next=("ckpt install", f"ckpt run -- {name}"),
    )
