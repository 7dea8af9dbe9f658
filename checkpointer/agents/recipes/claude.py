"""Claude Code: `settings.json`, hooks that are started without a shell, one report per batch of parallel calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checkpointer.agents.editing.values import Entry
from checkpointer.agents.recipes.recipe import Caller, Hook, Merged, Part, Recipe, Site, Switch, grouped, markdown


def directory(site: Site) -> Path:
    return site.directory(".claude", variable="CLAUDE_CONFIG_DIR")


def settings(site: Site) -> Path:
    return directory(site) / "settings.json"


def parts(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    return [
        Merged(settings(site), "jsonc", entries(recipe, caller)),
        *markdown(directory(site) / "commands", "$ARGUMENTS"),
    ]


def entries(recipe: Recipe, caller: Caller) -> tuple[Entry, ...]:
    """With `args` there is no shell; where ckpt may be missing a shell has to ask first."""
    found = grouped(recipe, caller)
    if not caller.path:
        return found
    for hook, entry in zip(recipe.hooks, found, strict=True):
        words = caller.words(recipe.name, hook.event)
        told = {"type": "command", "command": words[0], "args": words[1:], "timeout": hook.timeout}
        entry.value["hooks"] = [told]
    return found


def switches(site: Site) -> Sequence[Switch]:
    return [Switch(settings(site), "jsonc", ("disableAllHooks",), True, "disableAllHooks is true: no hook runs")]


def hand(site: Site) -> Sequence[str]:
    if site.project is None:
        return ()
    return ["each member trusts the folder when Claude Code asks, and has ckpt on the PATH"]


# Not PostToolUse: PostToolBatch tells of every call of a parallel batch, once, before the model is asked again.
RECIPE = Recipe(
    name="claude",
    title="Claude Code",
    programs=("claude",),
    hooks=(
        Hook("SessionStart", 60),
        Hook("UserPromptSubmit", 60),
        Hook("PreToolUse"),
        Hook("PostToolUseFailure"),
        Hook("PostToolBatch", 60),
        Hook("SubagentStop"),
        Hook("Stop", 60),
        Hook("Notification", 30, "idle_prompt"),
        Hook("PreCompact"),
        Hook("SessionEnd", 5),
    ),
    parts=parts,
    directory=directory,
    hand=hand,
    switches=switches,
    trust="a project's hooks run once its folder is trusted",
    steps="each batch of calls",
    slash=True,
    resume="claude --resume ID",
)
