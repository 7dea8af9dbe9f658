"""Everything that stands below a directory, as the operating system tells it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from typing import NamedTuple

LARGE = 1 << 20


class Node(NamedTuple):
    """One path. `content` is a file's bytes (a digest above 1 MiB), a link's target, `b""` for every other kind."""

    kind: str
    mode: int
    content: bytes
    ino: int
    mtime_ns: int

    @property
    def told(self) -> tuple[str, int, bytes]:
        """What a restore promises to bring back."""
        return (self.kind, self.mode, self.content)

    @property
    def untouched(self) -> tuple[int, int]:
        """What must be equal where nobody wrote."""
        return (self.ino, self.mtime_ns)


def _kind(mode: int) -> str:
    for test, name in (
        (stat.S_ISREG, "file"),
        (stat.S_ISDIR, "dir"),
        (stat.S_ISLNK, "link"),
        (stat.S_ISFIFO, "fifo"),
        (stat.S_ISSOCK, "socket"),
    ):
        if test(mode):
            return name
    return "device"


def _read(name: bytes, directory: int, size: int) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)
    try:
        if size <= LARGE:
            parts = []
            while part := os.read(fd, 1 << 20):
                parts.append(part)
            return b"".join(parts)
        digest = hashlib.sha256()
        while part := os.read(fd, 1 << 20):
            digest.update(part)
        return b"sha256:" + digest.digest()
    finally:
        os.close(fd)


def _node(name: bytes, directory: int) -> Node:
    st = os.stat(name, dir_fd=directory, follow_symlinks=False)
    kind = _kind(st.st_mode)
    content = b""
    if kind == "file":
        content = _read(name, directory, st.st_size)
    elif kind == "link":
        content = os.readlink(name, dir_fd=directory)
    mode = 0 if kind == "link" else stat.S_IMODE(st.st_mode)
    return Node(kind, mode, content, st.st_ino, st.st_mtime_ns)


def _walk(directory: int, prefix: bytes, skip: frozenset[bytes]) -> Iterator[tuple[bytes, Node]]:
    for name in sorted(os.fsencode(n) for n in os.listdir(directory)):
        if name in skip:
            continue
        node = _node(name, directory)
        path = prefix + name
        yield path, node
        if node.kind == "dir":
            child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            try:
                yield from _walk(child, path + b"/", skip)
            finally:
                os.close(child)


class Manifest(dict[bytes, Node]):
    """Path relative to the root (bytes, however long) -> `Node`; the root itself is `b""`."""

    @classmethod
    def of(cls, root: str | bytes | os.PathLike[str], skip: tuple[bytes, ...] = ()) -> Manifest:
        """Walk by directory descriptors. Names in `skip` are left out wherever they stand."""
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            st = os.fstat(fd)
            found = cls({b"": Node("dir", stat.S_IMODE(st.st_mode), b"", st.st_ino, st.st_mtime_ns)})
            found.update(_walk(fd, b"", frozenset(skip)))
            return found
        finally:
            os.close(fd)

    def told(self) -> dict[bytes, tuple[str, int, bytes]]:
        return {path: node.told for path, node in self.items()}

    def differing(self, other: Mapping[bytes, Node]) -> set[bytes]:
        """Paths whose kind, mode or content differ, or which stand on one side only."""
        paths = self.keys() | other.keys()
        return {p for p in paths if p not in self or p not in other or self[p].told != other[p].told}

    def without(self, *paths: bytes) -> Manifest:
        return Manifest({p: n for p, n in self.items() if p not in paths})

    def explain(self, other: Mapping[bytes, Node], limit: int = 20) -> str:
        """What differs, one path a line, self first."""
        lines = []
        for path in sorted(self.differing(other))[:limit]:
            mine, theirs = self.get(path), other.get(path)
            lines.append(f"{path[:200]!r}: {_brief(mine)} | {_brief(theirs)}")
        return "\n".join(lines)


def _brief(node: Node | None) -> str:
    return "absent" if node is None else f"{node.kind} {node.mode:o} {node.content[:60]!r}"


def same(expected: Manifest, found: Manifest) -> None:
    """Fail naming the paths that differ."""
    difference = expected.explain(found)
    assert not difference, "expected | found\n" + difference


def untouched(before: Manifest, now: Manifest, changed: set[bytes]) -> None:
    """Fail where a path outside `changed` got another inode or mtime.

    A directory's mtime may move where a name in it did.
    """
    parents = {p.rpartition(b"/")[0] for p in changed}
    wrong = []
    for path, node in before.items():
        if path in changed or path not in now:
            continue
        mine, theirs = node.untouched, now[path].untouched
        if node.kind == "dir" and path in parents:
            mine, theirs = mine[:1], theirs[:1]
        if mine != theirs:
            wrong.append(path)
    assert not wrong, f"touched without need: {sorted(wrong)[:20]}"
