"""Which of the paths that changed are named for people."""

from __future__ import annotations

from collections.abc import Mapping

from checkpointer.workspace.entry import Entry

Changes = Mapping[bytes, tuple[Entry | None, Entry | None]]


def is_noise(path: bytes, changes: Changes) -> bool:
    """Is this change only a directory that came or went with what is in it?"""
    old, new = changes[path]
    if any(e is not None and e.kind != "dir" for e in (old, new)) or (old is not None and new is not None):
        return False
    prefix = path + b"/"
    return any(p.startswith(prefix) for p in changes) if path else True


def named_paths(changes: Changes) -> list[bytes]:
    """The paths to name for people: sorted, without directories that say nothing of their own."""
    ordered = sorted(changes)
    out = []
    for i, path in enumerate(ordered):
        old, new = changes[path]
        directory = all(e is None or e.kind == "dir" for e in (old, new)) and (old is None or new is None)
        if directory:
            # Sorted by bytes, what is below follows at once, except for names that continue with a byte below `/`.
            rest = ordered[i + 1 :]
            below = path + b"/"
            if not path or any(p.startswith(below) for p in rest[:1]) or is_noise(path, changes):
                continue
        out.append(path)
    return out
