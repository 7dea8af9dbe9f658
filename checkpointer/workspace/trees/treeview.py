"""One checkpoint's files: a view on its git tree and its extras that loads nothing it is not asked for."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property

from checkpointer.errors import Damaged, NewerFormat
from checkpointer.workspace.entry import Entry, parents
from checkpointer.workspace.odb.objects import Objects
from checkpointer.workspace.trees.extras import Extras
from checkpointer.workspace.trees.gittree import EXECUTABLE, LINK, TREE, Node, decode_nodes

FILES = b"files"
EXTRAS = b"extras.json"
_ENTRIES = 100_000


class Decoded:
    """Git trees that were decoded, by id, up to so many entries in all; the least lately used go first.

    An id stands for its content, so checkpoints share one: most of what two neighbours hold is the same.
    """

    def __init__(self, entries: int = _ENTRIES) -> None:
        self._most = entries
        self._entries = 0
        self._trees: OrderedDict[bytes, dict[bytes, Node]] = OrderedDict()

    def get(self, oid: bytes) -> dict[bytes, Node] | None:
        found = self._trees.get(oid)
        if found is not None:
            self._trees.move_to_end(oid)
        return found

    def put(self, oid: bytes, nodes: dict[bytes, Node]) -> None:
        self._trees[oid] = nodes
        self._entries += len(nodes) + 1
        while self._entries > self._most and len(self._trees) > 1:
            self._entries -= len(self._trees.popitem(last=False)[1]) + 1


class Tree:
    """The files of one checkpoint. `root` is the id of the commit's tree, which holds `files/` and `extras.json`.

    `name` says in error messages whose files these are ("checkpoint 17"), `decoded` what others have decoded already.
    Every method may raise `MissingObject` or `Damaged`. Safe to share between readers of one thread only.
    """

    def __init__(
        self, objects: Objects, root: bytes, name: str = "a checkpoint", decoded: Decoded | None = None
    ) -> None:
        self.objects = objects
        self.root = root
        self.name = name
        self.decoded = decoded if decoded is not None else Decoded()

    def __repr__(self) -> str:
        return f"<Tree {self.name} {self.root.hex()[:10]}>"

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Errors from the body say that this checkpoint is the one that cannot be read."""
        try:
            yield
        except Damaged as e:
            if e.details.get("checkpoint") == self.name:
                raise
            e.details["checkpoint"] = self.name
            message = f"{self.name} cannot be read: {e.message}"
            raise type(e)(message, kept=e.kept, next=e.next or ("ckpt verify",), **e.details) from e

    def _whole(self, oid: bytes, what: str) -> bytes:
        kind, data = self.objects.get(oid)
        if kind != what:
            raise Damaged(f"object {oid.hex()} is a {kind}, not a {what}")
        return data

    @cached_property
    def _parts(self) -> dict[bytes, Node]:
        with self.named():
            parts = decode_nodes(self._whole(self.root, "tree"))
            if FILES not in parts or EXTRAS not in parts:
                raise Damaged(f"tree {self.root.hex()} is not a checkpoint's")
            return parts

    @property
    def files(self) -> bytes:
        """Id of the git tree `files/`."""
        return self._parts[FILES][1]

    @property
    def extras_id(self) -> bytes:
        return self._parts[EXTRAS][1]

    @cached_property
    def extras(self) -> Extras:
        with self.named():
            return Extras.decode(self._whole(self.extras_id, "blob"))

    def read_extras(self) -> bytes:
        """The bytes of `extras.json`."""
        with self.named():
            return self._whole(self.extras_id, "blob")

    def children(self, oid: bytes) -> dict[bytes, Node]:
        """Entries of one git tree by true name. Not to be changed by the caller."""
        found = self.decoded.get(oid)
        if found is None:
            with self.named():
                found = decode_nodes(self._whole(oid, "tree"))
            self.decoded.put(oid, found)
        return found

    def node(self, path: bytes) -> Node | None:
        """What stands at a path in the git tree alone."""
        node: Node = (TREE, self.files)
        if path:
            for part in path.split(b"/"):
                if node[0] != TREE:
                    return None
                found = self.children(node[1]).get(part)
                if found is None:
                    return None
                node = found
        return node

    @cached_property
    def outside(self) -> dict[bytes, dict[bytes, Entry | None]]:
        """What stands in no git tree, by directory and name: other directories, fifos; None where uncovered."""
        out: dict[bytes, dict[bytes, Entry | None]] = {}
        extras = self.extras
        for path in extras.uncovered:
            directory, _, name = path.rpartition(b"/")
            out.setdefault(directory, {})[name] = None
        for path, mode in extras.fifos.items():
            directory, _, name = path.rpartition(b"/")
            out.setdefault(directory, {})[name] = Entry("fifo", b"", mode)
        for path in extras.directories:
            directory, _, name = path.rpartition(b"/")
            out.setdefault(directory, {})[name] = Entry("dir", b"", extras.modes.get(path, extras.dir_mode))
        return out

    def entry_of(self, path: bytes, node: Node) -> Entry:
        """The entry at a path whose git mode and id are known."""
        mode, oid = node
        extras = self.extras
        if mode == LINK:
            return Entry("link", oid, 0)
        if mode == TREE:
            return Entry("dir", b"", extras.modes.get(path, extras.dir_mode))
        usual = extras.exec_mode if mode == EXECUTABLE else extras.file_mode
        return Entry("file", oid, extras.modes.get(path, usual))

    def covered(self, path: bytes) -> Entry | None:
        """What the checkpoint holds at a path; `b""` is the root directory. None for what it does not hold."""
        node = self.node(path)
        if node is not None:
            return self.entry_of(path, node)
        directory, _, name = path.rpartition(b"/")
        return self.outside.get(directory, {}).get(name)

    def entry(self, path: bytes) -> Entry | None:
        """What stood at a path: as `covered`, and for what was seen but not read an entry without content.

        Such an entry has kind `socket`, `device` or `uncovered`; it also stands for every path below a directory that
        was not read. None means that nothing was there.
        """
        found = self.covered(path)
        if found is not None or not self.extras.uncovered:
            return found
        reason = self.extras.uncovered.get(path)
        if reason is not None:
            return Entry("socket" if reason == "socket" else "device" if reason == "device" else "uncovered", b"", 0)
        if self.unread_above(path):
            return Entry("uncovered", b"", 0)
        return None

    def unread_above(self, path: bytes) -> bool:
        """Does the path, which the checkpoint does not hold, lie below something that was not read?"""
        uncovered = self.extras.uncovered
        return bool(uncovered) and any(p in uncovered for p in parents(path))

    def covers(self, path: bytes) -> bool:
        """Does the checkpoint hold this path?"""
        return self.covered(path) is not None

    def read(self, path: bytes) -> bytes:
        """Content of a file, or the target of a link. Raises KeyError where neither stands."""
        found = self.covered(path)
        if found is None or found.kind not in ("file", "link"):
            raise KeyError(path)
        with self.named():
            return self._whole(found.oid, "blob")

    def stream(self, path: bytes) -> Iterator[bytes]:
        """Content of a file in bounded memory. Raises KeyError as `read` does."""
        found = self.covered(path)
        if found is None or found.kind not in ("file", "link"):
            raise KeyError(path)
        with self.named():
            yield from self.objects.stream(found.oid)

    def walk(self, under: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
        """Everything the checkpoint holds at a path and below it, directories too, the root being `b""`.

        A directory comes before what is in it, names in byte order. What is not covered does not appear.
        """
        node = self.node(under)
        if node is None:
            found = self.covered(under)
            if found is not None:
                yield under, found
                if found.kind == "dir":
                    yield from self._walk_in(under, {})
            return
        yield under, self.entry_of(under, node)
        if node[0] == TREE:
            yield from self._walk_in(under, self.children(node[1]))

    def _walk_in(self, top: bytes, nodes: dict[bytes, Node]) -> Iterator[tuple[bytes, Entry]]:
        stack = [self._items(top, nodes)]
        while stack:
            for path, node, found in stack[-1]:
                if found is None:
                    continue
                yield path, found
                if found.kind == "dir":
                    inner = self.children(node[1]) if node is not None else {}
                    stack.append(self._items(path, inner))
                    break
            else:
                stack.pop()

    def _items(self, directory: bytes, nodes: dict[bytes, Node]) -> Iterator[tuple[bytes, Node | None, Entry | None]]:
        prefix = directory + b"/" if directory else b""
        outside = self.outside.get(directory)
        names = sorted(nodes.keys() | outside.keys()) if outside else sorted(nodes)
        for name in names:
            node = nodes.get(name)
            path = prefix + name
            if node is not None:
                yield path, node, self.entry_of(path, node)
            elif outside is not None:
                yield path, None, outside[name]


class SalvagedTree(Tree):
    """A checkpoint's files as far as they can be read; what cannot counts as not held.

    For the capture that follows it: damage to the newest checkpoint must not keep anybody from making the next one.
    `notices` receives one line when something could not be read.
    """

    def __init__(
        self, objects: Objects, root: bytes, name: str, notices: list[str], decoded: Decoded | None = None
    ) -> None:
        super().__init__(objects, root, name, decoded)
        self._notices = notices
        self.whole = True

    def _lose(self, e: Damaged) -> None:
        if isinstance(e, NewerFormat):
            raise e
        if self.whole:
            self._notices.append(f"{e.message}; what stands there now is read anew")
        self.whole = False

    @cached_property
    def _parts(self) -> dict[bytes, Node]:
        try:
            return super()._parts
        except Damaged as e:
            self._lose(e)
            return {FILES: (TREE, b""), EXTRAS: (0, b"")}

    @cached_property
    def extras(self) -> Extras:
        try:
            return super().extras
        except Damaged as e:
            self._lose(e)
            return Extras()

    def children(self, oid: bytes) -> dict[bytes, Node]:
        try:
            return super().children(oid) if oid else {}
        except Damaged as e:
            self._lose(e)
            return {}
