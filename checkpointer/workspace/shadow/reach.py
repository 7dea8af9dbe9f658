"""Which objects checkpoints need: everything reachable from a commit, found once however many commits share it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from checkpointer.errors import Damaged
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.odb.packs import PackedObjects
from checkpointer.workspace.trees.gittree import TREE, decode_tree


class Reach:
    """Ids of all objects that the checkpoints added so far need, in `live`."""

    def __init__(self, objects: PackedObjects) -> None:
        self.live: set[bytes] = set()
        self._objects = objects

    def add(self, checkpoint: Checkpoint) -> set[bytes]:
        """Add one checkpoint, without its parents; returns the ids that are new. Raises `Damaged` naming it."""
        new: set[bytes] = set()
        try:
            self._tree(bytes.fromhex(checkpoint.tree), new)
        except Damaged as e:
            self.live -= new
            message = f"checkpoint {checkpoint.number} cannot be read: {e.message}"
            raise type(e)(message, next=("ckpt verify",), **e.details) from e
        commit = bytes.fromhex(checkpoint.id)
        if commit not in self.live:
            new.add(commit)
            self.live.add(commit)
        return new

    def _tree(self, root: bytes, new: set[bytes]) -> None:
        live = self.live
        stack = [root] if root not in live else []
        live.update(stack)
        new.update(stack)
        while stack:
            kind, data = self._objects.get(stack.pop())
            if kind != "tree":
                raise Damaged(f"a {kind} stands where a tree must")
            for _, mode, oid in decode_tree(data):
                if oid not in live:
                    live.add(oid)
                    new.add(oid)
                    if mode == TREE:
                        stack.append(oid)


def reachable(objects: PackedObjects, checkpoints: Iterable[Checkpoint]) -> set[bytes]:
    """Ids of all objects that these checkpoints need."""
    reach = Reach(objects)
    for checkpoint in checkpoints:
        reach.add(checkpoint)
    return reach.live


def stored_sizes(objects: PackedObjects) -> Callable[[Iterable[bytes]], int]:
    """A function that says how many bytes objects take in the packs, all together."""
    sizes: dict[bytes, int] = {}
    for name, index in objects.packs.items():
        placed = index.by_offset()
        try:
            end = objects.open_pack(name).length - 20
        except OSError:
            continue
        ends = [p.offset for p in placed[1:]] + [end]
        for (oid, _, offset), stop in zip(placed, ends, strict=True):
            sizes.setdefault(oid, stop - offset + 28)  # its line in the idx file too
    return lambda oids: sum(sizes.get(oid, 0) for oid in oids)
