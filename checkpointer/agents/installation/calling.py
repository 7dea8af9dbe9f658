"""Which ckpt a file of ours calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checkpointer.agents.editing import document
from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.editing.values import ours_in
from checkpointer.agents.recipes.recipe import Owned, Recipe, path_in


def called(part: Owned, text: str, recipe: Recipe) -> Sequence[str]:
    """The ckpt that a file of ours calls, if it calls one."""
    if part.path.suffix == ".json":
        try:
            value: Any = document.value_of("json", text)
        except Unfit:
            return []
        return [path_in(v) for v in ours_in(value, recipe.ours)]
    if part.path.suffix == ".js":
        for line in text.split("\n"):
            if line.startswith("const CKPT = "):
                try:
                    return [document.value_of("json", line.removeprefix("const CKPT = "))[0]]
                except (Unfit, IndexError, KeyError):
                    return []
        return []
    if text.startswith("#!"):
        return [path_in({"command": line}) for line in text.split("\n") if f" hook {recipe.name} " in line]
    return []
