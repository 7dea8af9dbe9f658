"""A checkpoint's tree made from another by setting and removing paths; only what changes is read and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from checkpointer.workspace.entry import Entry, parents
from checkpointer.workspace.odb.objects import Sink
from checkpointer.workspace.trees.extras import Extras
from checkpointer.workspace.trees.gittree import FILE, LINK, TREE, Node, encode_tree, file_mode
from checkpointer.workspace.trees.treeview import EXTRAS, FILES, Tree


def write_root(sink: Sink, files: bytes, extras: Extras) -> bytes:
    """Add a checkpoint's root tree; `files` is the id of its `files/` tree, already added. Returns the root's id."""
    blob = sink.add("blob", extras.encode())
    return sink.add("tree", encode_tree([(EXTRAS, FILE, blob), (FILES, TREE, files)]))


class _Untouched:
    """No change asked for at this path itself."""


UNTOUCHED: Final = _Untouched()


class _Wish:
    """What is wished at a path and below it. `sets`: something below is to stand there."""

    __slots__ = ("below", "entry", "sets")

    def __init__(self) -> None:
        self.entry: Entry | _Untouched | None = UNTOUCHED
        self.sets = False
        self.below: dict[bytes, _Wish] = {}


def _wishes(changes: Mapping[bytes, Entry | None]) -> _Wish:
    top = _Wish()
    for path, entry in changes.items():
        wish = top
        for part in path.split(b"/") if path else ():
            wish.sets = wish.sets or entry is not None
            wish = wish.below.setdefault(part, _Wish())
        if entry is not None and entry.kind not in ("file", "link", "dir", "fifo"):
            raise ValueError(f"a checkpoint cannot hold a {entry.kind}")
        wish.entry = entry
    return top


class _Place:
    """A path with wishes: what stands there in the base's git tree, and what its children make of it."""

    __slots__ = ("above", "holds", "name", "node", "nodes", "path", "wish")

    def __init__(self, path: bytes, name: bytes, wish: _Wish, node: Node | None, above: _Place | None) -> None:
        self.path = path
        self.name = name
        self.wish = wish
        self.node = node
        self.above = above
        self.nodes: dict[bytes, Node] = {}
        self.holds = False


class _Edit:
    """Top down every directory with wishes is loaded, bottom up it is written: no recursion, paths may be very deep."""

    def __init__(self, base: Tree, sink: Sink) -> None:
        self.base = base
        self.sink = sink
        extras = base.extras
        self.extras = extras
        self.modes = dict(extras.modes)
        self.directories = set(extras.directories)
        self.fifos = dict(extras.fifos)
        self.uncovered = dict(extras.uncovered)
        self.torn = set(extras.torn)
        self.dropped: set[bytes] = set()

    def run(self, wishes: _Wish) -> bytes:
        """Id of the new `files/` tree."""
        top = _Place(b"", b"", wishes, (TREE, self.base.files), None)
        order = [top]
        for place in order:  # grows while it is walked: parents before children
            self.load(place, order)
        for place in order[:0:-1]:
            assert place.above is not None
            stands, node = self.carry_out(place)
            place.above.holds = place.above.holds or stands
            if node is None:
                place.above.nodes.pop(place.name, None)
            else:
                place.above.nodes[place.name] = node
        return self.write(top) or self.sink.add("tree", b"")

    def was_directory(self, place: _Place) -> bool:
        return (place.node is not None and place.node[0] == TREE) or place.path in self.extras.directories

    def is_leaf(self, place: _Place) -> bool:
        """Is there nothing to do below it? (A file is set, or removals are wished below what is no directory.)"""
        entry = place.wish.entry
        if isinstance(entry, Entry) and entry.kind != "dir":
            return True
        return isinstance(entry, _Untouched) and not place.wish.sets and not self.was_directory(place)

    def load(self, place: _Place, order: list[_Place]) -> None:
        if self.is_leaf(place) and place.above is not None:
            return
        wish, node = place.wish, place.node
        if node is not None and node[0] == TREE:
            place.nodes = dict(self.base.children(node[1]))
        outside = self.base.outside.get(place.path, {})
        place.holds = any(name not in wish.below and name not in place.nodes for name in outside)
        prefix = place.path + b"/" if place.path else b""
        for name, inner in wish.below.items():
            order.append(_Place(prefix + name, name, inner, place.nodes.get(name), place))

    def write(self, place: _Place) -> bytes | None:
        """Id of the directory's git tree; None where no file is below it."""
        if not place.nodes:
            return None
        return self.sink.add("tree", encode_tree((n, m, o) for n, (m, o) in place.nodes.items()))

    def carry_out(self, place: _Place) -> tuple[bool, Node | None]:
        """Does anything stand at the path now, and what stands there in the git tree?"""
        path, entry = place.path, place.wish.entry
        if isinstance(entry, Entry) and entry.kind != "dir":
            if place.wish.sets:
                raise ValueError(f"something is wished below a {entry.kind}: {path!r}")
            self.dropped.add(path)
            return True, self.leaf(path, entry)
        if self.is_leaf(place):
            return place.node is not None or path in self.fifos or path in self.uncovered, place.node
        was = self.was_directory(place)
        subtree = self.write(place)
        holds = place.holds or subtree is not None
        if isinstance(entry, Entry):
            self.clear(path)
            self.set_mode(path, entry.mode, self.extras.dir_mode)
        elif not was or not (holds or isinstance(entry, _Untouched)):
            self.clear(path)
        stands = holds or isinstance(entry, Entry) or (isinstance(entry, _Untouched) and was)
        if subtree is None and stands:
            self.directories.add(path)
        else:
            self.directories.discard(path)
        return stands or path in self.uncovered, None if subtree is None else (TREE, subtree)

    def clear(self, path: bytes) -> None:
        self.modes.pop(path, None)
        self.fifos.pop(path, None)
        self.uncovered.pop(path, None)
        self.torn.discard(path)
        self.directories.discard(path)

    def set_mode(self, path: bytes, mode: int, usual: int) -> None:
        if mode != usual:
            self.modes[path] = mode

    def leaf(self, path: bytes, entry: Entry) -> Node | None:
        self.clear(path)
        if entry.kind == "fifo":
            self.fifos[path] = entry.mode
            return None
        if entry.kind == "link":
            return (LINK, entry.oid)
        git = file_mode(entry.mode)
        self.set_mode(path, entry.mode, self.extras.file_mode if git == FILE else self.extras.exec_mode)
        return (git, entry.oid)

    def result(self) -> Extras:
        def kept(path: bytes) -> bool:
            return not self.dropped or not any(p in self.dropped for p in parents(path))

        return Extras(
            file_mode=self.extras.file_mode,
            exec_mode=self.extras.exec_mode,
            dir_mode=self.extras.dir_mode,
            modes={p: m for p, m in self.modes.items() if kept(p)},
            directories=frozenset(p for p in self.directories if kept(p)),
            fifos={p: m for p, m in self.fifos.items() if kept(p)},
            uncovered={p: r for p, r in self.uncovered.items() if kept(p)},
            torn=frozenset(p for p in self.torn if kept(p)),
        )


def edited(base: Tree, changes: Mapping[bytes, Entry | None], sink: Sink) -> bytes:
    """The root of a new tree: `base` with these paths set, or removed (None).

    Directories above a path that is set come into being with the usual mode; a directory that loses its last file stays
    as an empty one unless it is removed too; one that is removed while something in it stays, stays. A file in the
    place of a directory takes everything below away. The root's own mode is `b""`. Blobs of set entries must be in the
    sink or the store already. Raises ValueError for an entry that a checkpoint cannot hold.
    """
    edit = _Edit(base, sink)
    top = _wishes(changes)
    files = edit.run(top)
    if isinstance(top.entry, Entry):
        if top.entry.kind != "dir":
            raise ValueError("the workspace itself can only be a directory")
        edit.modes.pop(b"", None)
        edit.set_mode(b"", top.entry.mode, base.extras.dir_mode)
    return write_root(sink, files, edit.result())
