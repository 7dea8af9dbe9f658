"""A shadow repository without a workspace around it: checkpoints from dictionaries, looked at with the real git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from checkpointer.workspace.checkpoint import Checkpoint, CheckpointKind, Meta
from checkpointer.workspace.entry import Entry
from checkpointer.workspace.odb.objects import Sink
from checkpointer.workspace.shadow.store import Store
from checkpointer.workspace.trees.extras import Extras
from checkpointer.workspace.trees.tree import edited, write_root

Files = Mapping[str | bytes, bytes | tuple[str, bytes, int] | None]
"""Path -> content of a 0644 file; or (kind, content, mode); None removes."""

QUIET = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C"}


def entries(sink: Sink, files: Files) -> dict[bytes, Entry | None]:
    out: dict[bytes, Entry | None] = {}
    for path, value in files.items():
        name = path.encode() if isinstance(path, str) else path
        if value is None:
            out[name] = None
            continue
        kind, data, mode = value if isinstance(value, tuple) else ("file", value, 0o644)
        out[name] = Entry(kind, sink.add("blob", data) if kind in ("file", "link") else b"", mode)  # type: ignore[arg-type]
    return out


def empty(sink: Sink, extras: Extras | None = None) -> bytes:
    return write_root(sink, sink.add("tree", b""), extras or Extras())


def checkpoint(
    store: Store,
    files: Files,
    kind: CheckpointKind = "step",
    *,
    at: datetime | None = None,
    move: bool = True,
    **meta: Any,
) -> Checkpoint:
    """The newest checkpoint with some paths changed, as the next one."""
    tip = store.tip()
    with store.writer() as writer:
        base = empty(writer) if tip is None else None
        if base is not None:
            writer.finish()
            root = base
        else:
            assert tip is not None
            root = bytes.fromhex(tip.tree)
        from checkpointer.workspace.trees.tree import Tree

        root = edited(Tree(store.objects, root), entries(writer, files), writer)
        made = store.commit(writer, root, Meta(kind, at or datetime.now(UTC), **meta), parent=tip)
        if move:
            store.move(made)
    return made


def git(store: Store | Path, *words: str, ok: bool = True, **more: Any) -> subprocess.CompletedProcess[bytes]:
    path = store.path if isinstance(store, Store) else os.fspath(store)
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", path, *words], env=QUIET, capture_output=True, **more)
    assert not ok or done.returncode == 0, (words, done.stdout, done.stderr)
    return done


def sound(store: Store | Path) -> None:
    """`git fsck --strict` has nothing to say, not even a warning."""
    done = git(store, "fsck", "--strict", "--no-dangling", "--no-progress")
    assert done.stdout + done.stderr == b"", (done.stdout, done.stderr)


def contents(store: Store, which: Checkpoint) -> dict[bytes, bytes]:
    """Every file and link of a checkpoint with its bytes."""
    tree = store.tree(which)
    return {path: tree.read(path) for path, entry in tree.walk() if entry.kind in ("file", "link")}
