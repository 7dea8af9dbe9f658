"""An operation that met damage is tried once more: what it met is then not relied upon, but read from the files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from checkpointer.errors import Damaged

if TYPE_CHECKING:
    from checkpointer.workspace.workspace import Workspace

P = ParamSpec("P")
T = TypeVar("T")


def once_more(operate: Callable[Concatenate[Workspace, P], T]) -> Callable[Concatenate[Workspace, P], T]:
    """Wrap an operation that begins with a capture. `Damaged` remains where only the store has what is damaged."""

    @functools.wraps(operate)
    def wrapped(workspace: Workspace, /, *args: P.args, **kwargs: P.kwargs) -> T:
        known = workspace.store.objects.doubts
        try:
            return operate(workspace, *args, **kwargs)
        except Damaged:
            if workspace.store.objects.doubts == known:
                raise
            return operate(workspace, *args, **kwargs)

    return wrapped
