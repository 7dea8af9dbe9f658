"""Aider: it has no hooks; ckpt goes around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkpointer.agents.recipes.recipe import Caller, Part, Recipe, Site


def nothing(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    return []


def directory(site: Site) -> Path:
    return (site.project or site.home) / ".aider.conf.yml"


RECIPE = Recipe(
    name="aider",
    title="Aider",
    programs=("aider",),
    hooks=(),
    parts=nothing,
    directory=directory,
    project=False,
    typed="terminal",
    steps="each burst of changes",
)
