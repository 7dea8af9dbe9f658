"""A directory of which nothing is covered because every name in it is ignored: said loudly, with the line that does."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from checkpointer.cli import phrase

if TYPE_CHECKING:
    from checkpointer.workspace.rules.ignore import Origin
    from checkpointer.workspace.workspace import Workspace

WAY = "list what is yours in .ckptignore, which is stronger: !src/ for one directory, !* for all"


def why_nothing(workspace: Workspace) -> str:
    """Why no file is covered, in a sentence; empty where the directory is empty, or something of it is not ignored."""
    from checkpointer.workspace.rules.ignore import Rules

    rules = Rules(workspace.root)
    origins: Counter[Origin] = Counter()
    try:
        with os.scandir(workspace.root) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if name == b".git":
                    continue
                origin = rules.explain(name, entry.is_dir(follow_symlinks=False))
                if origin is None or origin.negative:
                    return ""
                origins[origin] += 1
    except OSError:
        return ""
    if not origins:
        return ""
    lines = ", ".join(_told(workspace.root, origin) for origin, _ in origins.most_common(3))
    return f"everything here is ignored ({phrase.count(sum(origins.values()), 'name')}), by {lines}"


def _told(root: bytes, origin: Origin) -> str:
    """`the line * of ~/.config/git/ignore`."""
    where = os.path.normpath(os.path.join(root, origin.source))
    return f"line {origin.line} ({origin.pattern.decode('utf-8', 'backslashreplace')}) of {phrase.directory(where)}"
