"""Qwen Code: Claude Code's shapes in `~/.qwen/settings.json`, timeouts in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkpointer.agents.recipes.recipe import (
    Caller,
    Hook,
    Merged,
    Part,
    Recipe,
    Site,
    Switch,
    all_hooks_off,
    by_each_member,
    grouped,
    markdown,
)


def directory(site: Site) -> Path:
    return site.directory(".qwen")


def settings(site: Site) -> Path:
    return directory(site) / "settings.json"


def parts(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    entries = grouped(recipe, caller, unit=1000)
    return [Merged(settings(site), "jsonc", entries), *markdown(directory(site) / "commands", "{{args}}")]


def switches(site: Site) -> Sequence[Switch]:
    return all_hooks_off(settings(site))


RECIPE = Recipe(
    name="qwen",
    title="Qwen Code",
    programs=("qwen",),
    hooks=(
        Hook("SessionStart", 60),
        Hook("UserPromptSubmit", 60),
        Hook("PreToolUse"),
        Hook("PostToolUse", 60),
        Hook("PostToolUseFailure", 60),
        Hook("SubagentStop"),
        Hook("Stop", 60),
        Hook("Notification", 30, "idle_prompt"),
        Hook("PreCompact"),
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
