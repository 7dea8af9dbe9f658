"""The checkpoints of a bundle, verified: nothing missing, nothing besides, and no name that leads anywhere else.

An object's id is computed from its content, so that one which does not hash is one that nobody needs while the one in
its place is missing. What a later restore would follow (names in trees, paths beside them) is looked at here, because a
store trusts what it holds.
"""

from __future__ import annotations

from collections.abc import Iterable

from checkpointer.bundle.manifest import Kept, Manifest
from checkpointer.errors import Damaged
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.odb.packs import PackedObjects
from checkpointer.workspace.shadow.commits import decode_commit
from checkpointer.workspace.shadow.stretch import Stretch
from checkpointer.workspace.trees.extras import Extras
from checkpointer.workspace.trees.gittree import FILE, LINK, TREE, decode_nodes, decode_tree
from checkpointer.workspace.trees.treeview import EXTRAS, FILES

_LONGEST = 256 << 20
"""Bytes of an object that is read whole: a commit, a tree, what stands beside a tree."""
_MOST_PATHS = 50_000_000
_NOWHERE = frozenset((b"", b".", b".."))


def prove(objects: PackedObjects, said: Manifest) -> Stretch:
    """The checkpoints as their commits have them. Raises `Damaged`."""
    found = _Found(objects)
    alone = [found.checkpoint(one, said, None) for one in said.alone]
    chain = []
    for n, one in enumerate(said.chain):
        chain.append(found.checkpoint(one, said, said.chain[n - 1].commit if n else None))
    held = [oid for index in objects.packs.values() for oid, _ in index.places()]
    if len(held) != len(found.seen):
        extra = len(set(held) - found.seen)
        what = f"holds {extra} objects that no checkpoint of it needs" if extra else "holds objects twice"
        raise Damaged(f"its pack {what}")
    return Stretch(tuple(chain), tuple(alone), said.missing)


class _Found:
    """What was looked at so far. `weights` counts the paths below each tree."""

    def __init__(self, objects: PackedObjects) -> None:
        self._objects = objects
        self.seen: set[bytes] = set()
        self._weights: dict[bytes, int] = {}

    def _whole(self, oid: bytes, kind: str, what: str) -> bytes:
        self.seen.add(oid)
        if self._objects.size(oid) > _LONGEST:
            raise Damaged(f"{what} is larger than any that we write")
        found, data = self._objects.get(oid)
        if found != kind:
            raise Damaged(f"{what} is a {found}, not a {kind}")
        return data

    def checkpoint(self, one: Kept, said: Manifest, before: str | None) -> Checkpoint:
        what = f"checkpoint {one.number}"
        made = decode_commit(one.commit, self._whole(bytes.fromhex(one.commit), "commit", what))
        if made.number != one.number:
            raise Damaged(f"its {what} says that it is checkpoint {made.number}")
        if one.commit in said.shallow:
            made = made._replace(parent=None)
        if made.parent != before:
            raise Damaged(f"its {what} does not follow the one before it")
        root = decode_nodes(self._whole(bytes.fromhex(made.tree), "tree", what))
        if {name: mode for name, (mode, _) in root.items()} != {FILES: TREE, EXTRAS: FILE}:
            raise Damaged(f"its {what} holds something else than files")
        self._files(root[FILES][1], what)
        extras = root[EXTRAS][1]
        if extras not in self.seen:
            _check_paths(Extras.decode(self._whole(extras, "blob", f"{what}, extras.json")), what)
        return made

    def _files(self, root: bytes, what: str) -> None:
        """Every tree below this one, each once."""
        stack: list[tuple[bytes, list[bytes] | None]] = [(root, None)]
        while stack:
            oid, below = stack.pop()
            if below is not None:
                self._weights[oid] = sum(self._weights.get(one, 1) for one in below) + 1
                if self._weights[oid] > _MOST_PATHS:
                    raise Damaged(f"its {what} has more paths than any that we write")
            elif oid not in self._weights:
                items = decode_tree(self._whole(oid, "tree", what))
                _check_names([(name, mode) for name, mode, _ in items], what)
                for _, mode, blob in items:
                    if mode != TREE:
                        self._blob(blob, what)
                stack.append((oid, [one for _, _, one in items]))
                stack += [(one, None) for _, mode, one in items if mode == TREE]

    def _blob(self, oid: bytes, what: str) -> None:
        if oid not in self.seen:
            if self._objects.kind(oid) != "blob":
                raise Damaged(f"its {what} names a tree or a commit as a file")
            self.seen.add(oid)


def _check_names(items: list[tuple[bytes, int]], what: str) -> None:
    names = [name for name, _ in items]
    if len(set(names)) != len(names):
        raise Damaged(f"its {what} has a name twice")
    for name, mode in items:
        _check_name(name, what)
        if name.lower() == b".git" and mode in (TREE, LINK):
            raise Damaged(f"its {what} holds a .git, which no checkpoint does")


def _check_name(name: bytes, what: str) -> None:
    if name in _NOWHERE or b"/" in name or b"\0" in name:
        raise Damaged(f"its {what} holds a name that leads elsewhere: {name!r}")


def _check_paths(extras: Extras, what: str) -> None:
    made: Iterable[bytes] = (*extras.directories, *extras.fifos)
    said: Iterable[bytes] = (*extras.modes, *extras.uncovered, *extras.torn)
    for path in made:
        if any(part.lower() == b".git" for part in path.split(b"/")):
            raise Damaged(f"its {what} holds a .git, which no checkpoint does")
    for path in (*made, *said):
        if path:
            for part in path.split(b"/"):
                _check_name(part, what)
