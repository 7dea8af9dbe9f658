"""What installing and uninstalling share: whose configuration is meant, and how the changes are told."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpointer.cli import phrase
from checkpointer.cli.call import Call
from checkpointer.errors import CheckpointerError, Usage

if TYPE_CHECKING:
    from checkpointer.agents.installation.plan import Plan
    from checkpointer.agents.recipes.recipe import Recipe, Site


def each(call: Call, recipes: Sequence[Recipe], act: Callable[[Recipe], int]) -> int:
    """Do it for one agent after the other; what fails for one does not keep it from the others."""
    from checkpointer.cli.failure import report

    if len(recipes) == 1:
        return act(recipes[0])
    status = 0
    for recipe in recipes:
        try:
            status = act(recipe) or status
        except CheckpointerError as e:
            status = report(e, as_json=call.out.json)
    return status


def site_of(call: Call, project: bool) -> Site:
    """The configuration of whoever calls, or the one of the project around the call's directory. Raises Usage."""
    from checkpointer.agents.recipes.recipe import Site
    from checkpointer.workspace import guard

    homes = guard.home_directories()
    if not homes:
        raise Usage("you have no home directory: there is no configuration of yours", kept="nothing was written")
    home = Path(os.fsdecode(homes[0]))
    if not project:
        return Site(home)
    here = Path(os.fsdecode(guard.real(call.directory)))
    top = next((d for d in (here, *here.parents) if (d / ".git").exists()), here)
    if any(guard.real(h) == os.fsencode(top) for h in homes):
        raise Usage(
            f"{phrase.directory(os.fsencode(top))} is a home directory, not a project",
            kept="nothing was written",
            next=("cd into a project", "ckpt install AGENT"),
        )
    return Site(home, project=top)


def shared_site(call: Call) -> Site | None:
    """The project's, None where the directory is no project."""
    try:
        return site_of(call, True)
    except Usage:
        return None


def show(call: Call, recipe: Recipe, found: Plan) -> int:
    """What would be written, as a difference."""
    from checkpointer.agents.installation import copies
    from checkpointer.agents.installation.installing import difference

    changes = [c for c in found.changes if not copies.is_name(c.path)]
    text = difference(changes)
    if call.out.json:
        call.out.document({**document(recipe, found), "dry_run": True, "diff": text})
    elif text:
        call.out.write(text.encode("utf-8", "backslashreplace"))
    else:
        call.out.line(f"{recipe.name}: nothing would change")
    return 0


def document(recipe: Recipe, found: Plan) -> dict[str, Any]:
    return {
        "schema": 1,
        "agent": recipe.name,
        "changed": [str(c.path) for c in found.changes],
        "hooks": {str(p): n for p, n in found.entries.items()},
        "backups": [str(c.path) for c in found.backups],
        "copies_kept": {str(p): why for p, why in found.kept.items()},
        "yours": [{"file": str(p), "line": line} for p, line in found.wrapped],
        "moved_aside": [str(p) for p in found.aside],
    }


def shown(path: Path) -> str:
    """A path with `~` for the home."""
    return phrase.directory(os.fsencode(path))


def say_wrapped(call: Call, recipe: Recipe, found: Plan) -> None:
    """Lines of a person's that call ckpt too."""
    for path, line in found.wrapped:
        call.out.line(f"{recipe.name}: a line of yours that calls ckpt stays as it is in {shown(path)}: {line}")


def say_owned(call: Call, recipe: Recipe, owned: list[Path], verb: str) -> None:
    """Files that are ours alone, a line for each directory."""
    by_directory: dict[Path, list[str]] = {}
    for path in owned:
        by_directory.setdefault(path.parent, []).append(path.name)
    for directory, names in by_directory.items():
        call.out.line(f"{recipe.name}: {' '.join(sorted(names))} {verb} in {shown(directory)}")
