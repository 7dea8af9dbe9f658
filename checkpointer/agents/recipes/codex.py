"""Codex CLI: `hooks.json`, or the `[hooks]` of `config.toml` where a person keeps them there; trust for each hook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkpointer.agents.editing import tomledit
from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.editing.values import ours_in
from checkpointer.agents.recipes.recipe import Caller, Hook, Merged, Part, Recipe, Site, Switch, grouped


def directory(site: Site) -> Path:
    return site.directory(".codex", variable="CODEX_HOME")


def parts(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    """One representation a layer: Codex warns at every start where it finds both."""
    in_json, in_toml = elsewhere(recipe, site, caller)
    hooks = _inline(in_toml.path)
    mine = any(ours_in(hooks, recipe.ours))
    inline = any(isinstance(value, list) for value in hooks.values())
    return [in_toml if mine or (inline and not in_json.path.exists()) else in_json]


def elsewhere(recipe: Recipe, site: Site, caller: Caller) -> Sequence[Part]:
    """Both places where Codex looks."""
    place = directory(site)
    entries = grouped(recipe, caller)
    return [Merged(place / "hooks.json", "json", entries), Merged(place / "config.toml", "toml", entries)]


def _inline(path: Path) -> dict[str, Any]:
    """The hooks in `config.toml` itself. Its `hooks.state`, which Codex keeps for its own use, is none."""
    try:
        hooks: Any = tomledit.value_of(path.read_text(encoding="utf-8")).get("hooks")
    except (OSError, ValueError, Unfit):
        return {}
    return {k: v for k, v in hooks.items() if k != "state"} if isinstance(hooks, dict) else {}


def switches(site: Site) -> Sequence[Switch]:
    path = directory(site) / "config.toml"
    told = "features.{} is false: no hook runs"
    names = ("hooks", "codex_hooks")
    return [Switch(path, "toml", ("features", name), False, told.format(name)) for name in names]


def confined(site: Site, place: str) -> tuple[str, str] | None:
    """Codex lets its shell write the workspace and little else, unless `config.toml` says otherwise."""
    try:
        settings: Any = tomledit.value_of((directory(site) / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError, Unfit):
        settings = {}
    if settings.get("sandbox_mode") == "danger-full-access":
        return None
    inner = settings.get("sandbox_workspace_write")
    roots = inner.get("writable_roots") if isinstance(inner, dict) else None
    for root in roots if isinstance(roots, list) else ():
        if isinstance(root, str) and (place + "/").startswith(root.rstrip("/") + "/"):
            return None
    return (
        f"its sandbox keeps what Codex itself runs from writing {place}: there `ckpt undo` can only look; hooks, and "
        "`ckpt undo` typed by you, are not confined",
        f'to let it: writable_roots = ["{place}"] below [sandbox_workspace_write] in {directory(site) / "config.toml"}',
    )


def hand(site: Site) -> Sequence[str]:
    found = ["Codex skips hooks that nobody has trusted, without a word: start codex, type /hooks, trust those of ckpt"]
    if site.project is None:
        found.append("or let ckpt tell Codex that you trust them: ckpt install codex --trust")
    return found


RECIPE = Recipe(
    name="codex",
    title="Codex CLI",
    programs=("codex",),
    hooks=(
        Hook("SessionStart", 60),
        Hook("UserPromptSubmit", 60),
        Hook("PreToolUse"),
        Hook("PostToolUse", 60),
        Hook("SubagentStop"),
        Hook("Stop", 60),
        Hook("Interrupt", 3),
        Hook("PreCompact"),
        Hook("SessionEnd", 3),
    ),
    parts=parts,
    directory=directory,
    hand=hand,
    switches=switches,
    elsewhere=elsewhere,
    confined=confined,
    shell="confined to the workspace: looking works, undoing does not, unless writable_roots names the store",
    gated=True,
    trust="each hook is trusted by hand, again after it changed",
)
