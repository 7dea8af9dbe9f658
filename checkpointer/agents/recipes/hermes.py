"""Hermes: the `hooks` of `config.yaml`, started without a shell; Hermes asks once for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkpointer.agents.recipes.recipe import Caller, Hook, Merged, Part, Recipe, Site, flat


def directory(site: Site) -> Path:
    return site.directory(".hermes", variable="HERMES_HOME")


def parts(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    return [Merged(directory(site) / "config.yaml", "yaml", flat(recipe, caller))]


def hand(site: Site) -> Sequence[str]:
    return ["Hermes asks once for each hook when it starts in a terminal: say yes (or hermes --accept-hooks)"]


RECIPE = Recipe(
    name="hermes",
    title="Hermes",
    programs=("hermes",),
    hooks=(
        Hook("on_session_start", 60),
        Hook("pre_llm_call", 60),
        Hook("pre_tool_call"),
        Hook("post_tool_call", 60),
        Hook("post_llm_call", 60),
        Hook("subagent_stop"),
        Hook("on_session_end", 60),
    ),
    parts=parts,
    directory=directory,
    hand=hand,
    project=False,
    gated=True,
    trust="each hook is accepted once, at the first start",
    typed="told",
)
