"""Writes what docs/agents/ says of every agent from the recipes: `python docs/make_agents.py`; a test compares.

The table of README.md and the block of facts at the top of each agent's page are written here, between two comments;
everything else on the pages is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from checkpointer.agents.recipes.catalogue import RECIPES
from checkpointer.agents.recipes.recipe import Caller, Merged, Owned, Recipe, Site

PAGES = Path(__file__).parent / "agents"
BEGIN, END = "<!-- from the recipes -->\n", "<!-- to here -->\n"
TYPED = {
    "answered": "answered by ckpt, no request to the model",
    "told": "done by ckpt, told by the model",
    "terminal": "in a terminal",
}
HOME, PROJECT = Path("/home/you"), Path("/project")


def site(recipe: Recipe, *, project: bool) -> Site:
    return Site(HOME, {}, PROJECT if project else None)


def shown(path: Path) -> str:
    text = str(path)
    return text.replace(f"{HOME}/", "~/").replace(f"{PROJECT}/", "")


def files(recipe: Recipe, *, project: bool) -> list[str]:
    """Every file that is written, commands of one directory as one."""
    where = site(recipe, project=project)
    found = []
    for part in recipe.parts(recipe, where, Caller("" if project else "/ckpt")):
        if isinstance(part, Merged) or part.path.name in ("ckpt.js", "ckpt.json", "plugin.json", "hooks.json"):
            found.append(f"`{shown(part.path)}`")
        elif part.path.name.startswith("ckpt-"):
            found.append(f"`{shown(part.path.with_name('ckpt-*' + part.path.suffix))}`")
        else:
            found.append(f"`{shown(part.path.parent)}/EVENT`")
    return list(dict.fromkeys(found))


def facts(recipe: Recipe) -> str:
    """The block at the top of an agent's page."""
    if not recipe.hooks:
        return f"* protect it: `ckpt run -- {recipe.programs[0]}`\n* steps: {recipe.steps}\n"
    parts = recipe.parts(recipe, site(recipe, project=False), Caller("/ckpt"))
    lines = [
        f"* install: `ckpt install {recipe.name}`; out again: `ckpt uninstall {recipe.name}`",
        f"* written: {', '.join(files(recipe, project=False))}",
    ]
    if recipe.project:
        shared = ", ".join(files(recipe, project=True))
        lines.append(f"* for a team: `ckpt install {recipe.name} --project` writes {shared}")
    else:
        lines.append("* for a team: nothing; it has no configuration that a project could share")
    lines.append(f"* told of: {', '.join(h.event for h in recipe.hooks)}")
    lines.append(f"* a step is {recipe.steps}")
    lines.append(f"* `ckpt undo` typed as a prompt: {TYPED[recipe.typed]}")
    if recipe.slash:
        lines.append("* slash commands: `/ckpt-undo`, `/ckpt-redo`, `/ckpt-log`")
    lines.append(f"* trust: {recipe.trust}")
    lines.append(f"* its shell: {recipe.shell}")
    assert all(isinstance(p, Merged | Owned) for p in parts)
    return "\n".join(lines) + "\n"


def table() -> str:
    """The agents beside each other."""
    rows = [
        "| agent | install | project | steps | `ckpt undo` as a prompt | `/ckpt-undo` | trust |",
        "|---|---|---|---|---|---|---|",
    ]
    for recipe in RECIPES.values():
        install = f"`ckpt install {recipe.name}`" if recipe.hooks else f"`ckpt run -- {recipe.programs[0]}`"
        rows.append(
            f"| [{recipe.title}]({recipe.name}.md) | {install} | {'yes' if recipe.project else 'no'} | {recipe.steps} "
            f"| {TYPED[recipe.typed]} | {'yes' if recipe.slash else 'no'} | {recipe.trust} |"
        )
    return "\n".join(rows) + "\n"


def written(page: str, block: str) -> str:
    """A page with the block between its comments."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    assert len(pattern.findall(page)) == 1, "the two comments are missing"
    return pattern.sub(lambda _: f"{BEGIN}{block}{END}", page)


def pages() -> dict[Path, str]:
    """Every page and the block that belongs on it."""
    return {PAGES / "README.md": table(), **{PAGES / f"{r.name}.md": facts(r) for r in RECIPES.values()}}


if __name__ == "__main__":
    for path, block in pages().items():
        path.write_text(written(path.read_text(encoding="utf-8"), block), encoding="utf-8")
