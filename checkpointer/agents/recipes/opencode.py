"""OpenCode: a plugin of our own that passes what happens on to ckpt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from checkpointer.agents.recipes.recipe import Caller, Hook, Owned, Part, Recipe, Site, markdown

PLUGIN = Path(__file__).with_name("opencode_plugin.js")


def directory(site: Site) -> Path:
    return site.project / ".opencode" if site.project is not None else site.config_home("opencode")


def parts(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    place = directory(site)
    words = [caller.path or "ckpt", "hook", recipe.name]
    told = json.dumps(sorted(h.event for h in recipe.hooks), ensure_ascii=False)
    source = PLUGIN.read_text(encoding="utf-8")
    source = source.replace("__CKPT__", json.dumps(words, ensure_ascii=False)).replace("__EVENTS__", told)
    return [
        Owned(place / "plugin" / "ckpt.js", source.encode(), b"ckpt install"),
        *markdown(place / "command", "$ARGUMENTS"),
    ]


RECIPE = Recipe(
    name="opencode",
    title="OpenCode",
    programs=("opencode",),
    hooks=tuple(
        Hook(event, 60)
        for event in (
            "chat.message",
            "command.execute.before",
            "tool.execute.before",
            "tool.execute.after",
            "event:session.created",
            "event:session.idle",
            "event:session.error",
            "event:session.compacted",
            "event:session.deleted",
        )
    ),
    parts=parts,
    directory=directory,
    slash=True,
)
