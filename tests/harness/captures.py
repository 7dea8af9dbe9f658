"""A workspace with a store of its own, captured as the product does it, and the plain slow walk to hold it against."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from checkpointer.workspace.checkpoint import Meta
from checkpointer.workspace.odb.objects import MemorySink
from checkpointer.workspace.reading.capture import Present, capture
from checkpointer.workspace.reading.table import Table
from checkpointer.workspace.shadow.store import Store
from checkpointer.workspace.trees.tree import Tree
from harness.manifest import LARGE, Manifest


class Place:
    """`root` is the workspace (bytes). `save` makes a checkpoint, `look` writes nothing."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "w"
        self.path.mkdir()
        self.root = os.fsencode(self.path)
        self.keeping = directory / "kept"
        self.keeping.mkdir()
        self.store = Store.create(self.keeping / "shadow.git")
        self.table_path = self.keeping / "table"

    def close(self) -> None:
        self.store.objects.close()

    def base(self) -> Tree | None:
        tip = self.store.tip()
        return None if tip is None else self.store.tree(tip)

    def save(self, *, table: Table | None = None, **more: Any) -> Present:
        """Capture, and commit where something changed; the table is read from and written to its file."""
        tip = self.store.tip()
        table = table if table is not None else Table.load(self.table_path)
        with self.store.writer() as writer:
            present = self.captured(table=table, sink=writer, **more)
            if tip is None or present.root.hex() != tip.tree:
                meta = Meta("save", datetime.now(UTC))
                self.store.move(self.store.commit(writer, present.root, meta, parent=tip))
        table.path = self.table_path
        table.save()
        return present

    def look(self, *, table: Table | None = None, **more: Any) -> Present:
        return self.captured(table=table or Table(), sink=MemorySink(self.store.objects), **more)

    def captured(self, **more: Any) -> Present:
        given = {"base": self.base(), "store_dir": os.fsencode(self.keeping), **more}
        return capture(self.root, **given)

    def write(self, path: str | bytes, data: bytes = b"x\n", mode: int | None = None) -> bytes:
        full = os.path.join(self.root, os.fsencode(path))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(data)
        if mode is not None:
            os.chmod(full, mode)
        return full


def told(tree: Tree) -> dict[bytes, tuple[str, int, bytes]]:
    """What a checkpoint holds, in the form of `Manifest.told`."""
    out = {}
    for path, entry in tree.walk():
        content = tree.read(path) if entry.kind in ("file", "link") else b""
        if len(content) > LARGE:
            content = b"sha256:" + hashlib.sha256(content).digest()
        out[path] = (entry.kind, entry.mode, content)
    return out


def standing(root: bytes) -> dict[bytes, tuple[str, int, bytes]]:
    """What stands in a workspace without any ignore rule, by the plain slow walk; no `.git`, sockets or devices."""
    found = Manifest.of(root, skip=(b".git",)).told()
    return {path: node for path, node in found.items() if node[0] not in ("socket", "device")}


def same(tree: Tree, expected: Mapping[bytes, tuple[str, int, bytes]]) -> None:
    found = told(tree)
    paths = sorted(p for p in expected.keys() | found.keys() if expected.get(p) != found.get(p))
    wrong = [f"{p[:80]!r}: {str(expected.get(p))[:120]} | {str(found.get(p))[:120]}" for p in paths[:10]]
    assert not wrong, "on disk | in the checkpoint\n" + "\n".join(wrong)


def set_times(path: bytes, st: os.stat_result) -> None:
    """Put a file's mtime back."""
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns), follow_symlinks=False)


def is_root() -> bool:
    return os.geteuid() == 0


def permissions(path: bytes) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)
