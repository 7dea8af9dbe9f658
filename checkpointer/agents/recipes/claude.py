"""Claude Code: `settings.json`, hooks that are started without a shell, one report per batch of parallel calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkpointer.agents.editing import document
from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.editing.values import Entry
from checkpointer.agents.recipes.recipe import (
    Caller,
    Hook,
    Merged,
    Part,
    Recipe,
    Site,
    Switch,
    all_hooks_off,
    grouped,
    markdown,
)


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
    return all_hooks_off(settings(site))


def confined(site: Site, place: str) -> tuple[str, str] | None:
    """Its sandbox is off unless the settings switch it on."""
    try:
        data: Any = document.value_of("jsonc", settings(site).read_text(encoding="utf-8"))
    except (OSError, ValueError, Unfit):
        return None
    sandbox = data.get("sandbox") if isinstance(data, dict) else None
    if not isinstance(sandbox, dict) or sandbox.get("enabled") is not True:
        return None
    files = sandbox.get("filesystem")
    allowed = files.get("allowWrite") if isinstance(files, dict) else None
    for root in allowed if isinstance(allowed, list) else ():
        if isinstance(root, str) and (place + "/").startswith(root.replace("//", "/").rstrip("/") + "/"):
            return None
    return (
        f"its sandbox keeps its shell from writing {place}: there `ckpt undo` can only look; hooks are not confined",
        f"to let it: add /{place} to sandbox.filesystem.allowWrite in {settings(site)}",
    )


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
    confined=confined,
    shell="it can use the store, unless its sandbox is switched on",
    trust="a project's hooks run once its folder is trusted",
    steps="each batch of calls",
    slash=True,
)
