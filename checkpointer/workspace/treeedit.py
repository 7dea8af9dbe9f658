"""A checkpoint's tree made from another by setting and removing paths; only what changes is read and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from checkpointer.workspace.entry import Entry, parents
from checkpointer.workspace.extras import Extras
from checkpointer.workspace.gittree import FILE, LINK, TREE, encode_tree, file_mode
from checkpointer.workspace.objects import Sink
from checkpointer.workspace.treeview import EXTRAS, FILES, Node, Tree


def write_root(sink: Sink, files: bytes, extras: Extras) -> bytes:
    """Add a checkpoint's root tree; `files` is the id of its `files/` tree, already added. Returns the root's id."""
    blob = sink.add("blob", extras.encode())
    return sink.add("tree", encode_tree([(EXTRAS, FILE, blob), (FILES, TREE, files)]))


class _Untouched:
    """No change asked for at this path itself."""


UNTOUCHED: Final = _Untouched()


@dataclass
class _Wish:
    """What is wished at a path, and below it."""

    entry: Entry | _Untouched | None = UNTOUCHED
    below: dict[bytes, _Wish] = field(default_factory=dict)


def _wishes(changes: Mapping[bytes, Entry | None]) -> _Wish:
    top = _Wish()
    for path, entry in changes.items():
        wish = top
        if path:
            for part in path.split(b"/"):
                wish = wish.below.setdefault(part, _Wish())
        if entry is not None and entry.kind not in ("file", "link", "dir", "fifo"):
            raise ValueError(f"a checkpoint cannot hold a {entry.kind}")
        wish.entry = entry
    return top


class _Edit:
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

    def directory(self, path: bytes, node: Node | None, wish: _Wish) -> tuple[bytes | None, bool]:
        """Carry out the wishes below a directory: id of its git tree (None: no file below), and: is anything in it?"""
        nodes = dict(self.base.children(node[1])) if node is not None else {}
        outside = self.base.outside.get(path, {})
        prefix = path + b"/" if path else b""
        holds = any(name not in wish.below and name not in nodes for name in outside)
        for name, inner in wish.below.items():
            there, found = self.path(prefix + name, nodes.get(name), name in outside, inner)
            holds = holds or there
            if found is None:
                nodes.pop(name, None)
            else:
                nodes[name] = found
        if not nodes:
            return None, holds
        return self.sink.add("tree", encode_tree((n, m, o) for n, (m, o) in nodes.items())), True

    def path(self, path: bytes, node: Node | None, outside: bool, wish: _Wish) -> tuple[bool, Node | None]:
        """Carry out one path's wish: does anything stand there now, and what stands in the git tree?"""
        entry = wish.entry
        if isinstance(entry, Entry) and entry.kind != "dir":
            if any(isinstance(w.entry, Entry) for w in wish.below.values()):
                raise ValueError(f"something is wished below a {entry.kind}: {path!r}")
            self.dropped.add(path)
            return True, self.leaf(path, entry)
        was_directory = (node is not None and node[0] == TREE) or path in self.extras.directories
        if isinstance(entry, _Untouched) and not was_directory and not _sets(wish):
            return node is not None or outside, node  # removals below what is no directory
        subtree, holds = self.directory(path, node if node is not None and node[0] == TREE else None, wish)
        if isinstance(entry, Entry):
            self.clear(path)
            self.set_mode(path, entry.mode, self.extras.dir_mode)
        elif not was_directory or not (holds or isinstance(entry, _Untouched)):
            self.clear(path)
        stands = holds or isinstance(entry, Entry) or (isinstance(entry, _Untouched) and was_directory)
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


def _sets(wish: _Wish) -> bool:
    return any(isinstance(w.entry, Entry) or _sets(w) for w in wish.below.values())


def edited(base: Tree, changes: Mapping[bytes, Entry | None], sink: Sink) -> bytes:
    """The root of a new tree: `base` with these paths set, or removed (None).

    Directories above a path that is set come into being with the usual mode; a directory that loses its last file stays
    as an empty one unless it is removed too; one that is removed while something in it stays, stays. A file in the
    place of a directory takes everything below away. The root's own mode is `b""`. Blobs of set entries must be in the
    sink or the store already. Raises ValueError for an entry that a checkpoint cannot hold.
    """
    edit = _Edit(base, sink)
    top = _wishes(changes)
    files, _ = edit.directory(b"", (TREE, base.files), top)
    if isinstance(top.entry, Entry):
        if top.entry.kind != "dir":
            raise ValueError("the workspace itself can only be a directory")
        edit.modes.pop(b"", None)
        edit.set_mode(b"", top.entry.mode, base.extras.dir_mode)
    return write_root(sink, files if files is not None else sink.add("tree", b""), edit.result())
