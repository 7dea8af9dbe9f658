"""Copilot CLI: a file of our own among its hook files, events in camelCase."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from checkpointer.agents.recipes.recipe import Caller, Hook, Owned, Part, Recipe, Site, by_each_member


def directory(site: Site) -> Path:
    return site.directory(".copilot", variable="COPILOT_HOME", project=".github")


def parts(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    hooks = {
        h.event: [{"type": "command", "bash": caller.shell(recipe.name, h.event), "timeoutSec": h.timeout}]
        for h in recipe.hooks
    }
    content = json.dumps({"version": 1, "hooks": hooks}, indent=2, ensure_ascii=False) + "\n"
    return [Owned(directory(site) / "hooks" / "ckpt.json", content.encode(), b" hook copilot ")]


RECIPE = Recipe(
    name="copilot",
    title="Copilot CLI",
    programs=("copilot",),
    hooks=(
        Hook("sessionStart", 60),
        Hook("userPromptSubmitted", 60),
        Hook("preToolUse"),
        Hook("postToolUse", 60),
        Hook("postToolUseFailure", 60),
        Hook("subagentStop"),
        Hook("agentStop", 60),
        Hook("preCompact"),
        Hook("sessionEnd", 10),
    ),
    parts=parts,
    directory=directory,
    hand=by_each_member,
    trust="a project's hooks run once its folder is trusted",
)
