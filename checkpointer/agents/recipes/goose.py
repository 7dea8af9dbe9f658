"""goose: a plugin of our own; no matcher, since `*` would be an invalid expression and skip the rule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkpointer.agents.recipes.recipe import MARK, Caller, Hook, Owned, Part, Recipe, Site, grouped


def directory(site: Site) -> Path:
    return site.directory(".agents") / "plugins" / "ckpt"


def parts(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    plugin = {"name": "ckpt", "version": "1.0.0", "description": f"Undo for what the agent changed; {MARK}"}
    hooks: dict[str, Any] = {e.keys[-1]: [e.value] for e in grouped(recipe, caller)}
    place = directory(site)
    return [
        Owned(place / "hooks" / "hooks.json", _laid_out({"hooks": hooks}), b" hook goose "),
        Owned(place / "plugin.json", _laid_out(plugin), MARK.encode()),
    ]


def _laid_out(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


RECIPE = Recipe(
    name="goose",
    title="goose",
    programs=("goose",),
    hooks=(
        Hook("SessionStart", 60),
        Hook("UserPromptSubmit", 60),
        Hook("PreToolUse"),
        Hook("PostToolUse", 60),
        Hook("PostToolUseFailure", 60),
        Hook("Stop", 60),
        Hook("SessionEnd", 10),
    ),
    parts=parts,
    directory=directory,
    typed="terminal",
)
