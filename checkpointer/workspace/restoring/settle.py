"""Finish an undo, redo or restore that was cut short: forward, path by path, whatever somebody did meanwhile.

The plan is the pending commit: what differs from its parent to it. A path that stands as before is written; one that
stands as after is done; anything else is left as it is. What a kill left of temporary files is removed.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from checkpointer.errors import Damaged
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.directories import Directories
from checkpointer.workspace.entry import Entry, Signature
from checkpointer.workspace.outcome import Settled
from checkpointer.workspace.restoring.carried import Carried
from checkpointer.workspace.restoring.replacements import OPENED, Replacement, is_dir
from checkpointer.workspace.restoring.restore import Carrier, Progress
from checkpointer.workspace.restoring.staging import sweep, token_of
from checkpointer.workspace.restoring.standing import standing
from checkpointer.workspace.trees.tree import diff

if TYPE_CHECKING:
    from checkpointer.workspace.shadow.store import Store


_NOTHING_THERE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))
"""Also where something else stands above: if that is not ours to replace, the carrier leaves what is below."""


def settle(store: Store, root: bytes, progress: Progress | None = None) -> Settled | None:
    """Settle what is pending, if anything is; the caller holds the workspace lock.

    Raises `NoSpace` (nothing was changed by it, and it stays pending); never for what somebody did to the files.
    """
    pending = store.pending()
    if pending is None:
        _forget_unreadable(store)
        return None
    tip = store.tip()
    before = _number_before(store, pending)
    if not os.path.isdir(root):
        store.drop_pending()
        return Settled(pending, before, abandoned="the directory is gone")
    try:
        changes = _changes(store, pending)
    except Damaged as e:
        store.drop_pending()
        return Settled(pending, before, abandoned=f"what it was to write cannot be read: {e.message}")
    carried = Carried()
    with Directories(root) as directories:
        sweep(directories, token_of(pending), changes)
        if tip is not None and tip.id == pending.parent:
            carried = _carry_forward(directories, store, pending, changes, progress)
        elif tip is None or tip.id != pending.id:
            store.drop_pending()
            return Settled(pending, before, abandoned="the checkpoint before it is not the newest any more")
    if tip.id != pending.id:
        store.move(pending)
    store.drop_pending()
    return Settled(pending, before, carried.written, carried.removed, carried.left, carried.stayed)


def _forget_unreadable(store: Store) -> None:
    from checkpointer.workspace.shadow.repository import PENDING

    try:
        left = store.refs.raw(PENDING) is not None
    except Damaged:
        left = True
    if left:
        store.drop_pending()


def _number_before(store: Store, pending: Checkpoint) -> int:
    return next((c.number for c in reversed(store.checkpoints()) if c.id == pending.parent), pending.number - 1)


def _changes(store: Store, pending: Checkpoint) -> Mapping[bytes, tuple[Entry | None, Entry | None]]:
    from checkpointer.workspace.shadow.commits import read_commit

    if pending.parent is None:
        return {}
    before = read_commit(store.objects, pending.parent)
    return diff(store.tree(before), store.tree(pending))


def _carry_forward(
    directories: Directories,
    store: Store,
    pending: Checkpoint,
    changes: Mapping[bytes, tuple[Entry | None, Entry | None]],
    progress: Progress | None,
) -> Carried:
    todo: dict[bytes, Replacement] = {}
    signatures: dict[bytes, Signature | None] = {}
    left: dict[bytes, str] = {}
    seen_ns = time.time_ns()
    for path, (before, after) in changes.items():
        try:
            seen, signature = standing(directories, path)
        except OSError as e:
            if e.errno not in _NOTHING_THERE:
                left[path] = f"it cannot be read: {e.strerror or e}"
                continue
            seen, signature = None, None
        if seen == after:
            continue
        if seen == before or _under_way(before, seen, after):
            todo[path] = Replacement(seen, after)
            signatures[path] = signature
        else:
            left[path] = "it was changed since"
    carrier = Carrier(
        directories,
        store.objects,
        todo,
        signatures.get,
        token_of(pending),
        lenient=True,
        seen_ns=seen_ns,
        progress=progress,
    )
    carried = carrier.run()
    carried.left = dict(sorted({**left, **carried.left}.items()))
    return carried


def _under_way(before: Entry | None, seen: Entry | None, after: Entry | None) -> bool:
    """Is this something that stands on our own way from before to after?"""
    if seen is None:  # gone to make room for something of another kind
        return before is not None and after is not None and is_dir(before) != is_dir(after)
    if seen.kind != "dir":
        return False
    if is_dir(after) and not is_dir(before):
        return True  # made, its mode not set yet; or made by somebody, which is as good
    opened = [entry.mode | OPENED for entry in (before, after) if entry is not None and entry.kind == "dir"]
    return seen.mode in opened
