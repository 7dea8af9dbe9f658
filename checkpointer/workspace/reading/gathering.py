"""What a capture adds, passed on to the real sink and readable at once."""

from __future__ import annotations

from collections.abc import Iterator

from checkpointer.errors import MissingObject
from checkpointer.workspace.odb.objects import Objects, ObjectType, Reopen, Sink


class Gathering:
    """A sink that passes everything on and remembers the trees, so that they can be read before the pack is finished.

    It is also an `Objects` over what is stored. The content of files can be read only where `sink` can, or after the
    pack it writes is finished.
    """

    def __init__(self, sink: Sink, stored: Objects | None) -> None:
        self.sink = sink
        self._stored = stored
        self.everything = False
        """Remember blobs too; files of the workspace are never added while this is set."""
        self._trees: dict[bytes, tuple[ObjectType, bytes]] = {}

    def add(self, type: ObjectType, data: bytes) -> bytes:
        oid = self.sink.add(type, data)
        if type == "tree" or self.everything:
            self._trees[oid] = (type, data)
        return oid

    def add_stream(self, fd: int, size: int, reopen: Reopen | None = None) -> tuple[bytes, int]:
        return self.sink.add_stream(fd, size, reopen)

    def _below(self, oid: bytes) -> Objects:
        if self._stored is None:
            raise MissingObject(f"object {oid.hex()} is not stored yet")
        return self._stored

    def get(self, oid: bytes) -> tuple[ObjectType, bytes]:
        return self._trees.get(oid) or self._below(oid).get(oid)

    def stream(self, oid: bytes) -> Iterator[bytes]:
        if oid in self._trees:
            return iter((self._trees[oid][1],))
        return self._below(oid).stream(oid)

    def size(self, oid: bytes) -> int:
        return len(self._trees[oid][1]) if oid in self._trees else self._below(oid).size(oid)

    def __contains__(self, oid: bytes) -> bool:
        return oid in self._trees or (self._stored is not None and oid in self._stored)
