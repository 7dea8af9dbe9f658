"""Loose objects: we write none, but a user's git may unpack ours into them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, get_args

from checkpointer.errors import Damaged
from checkpointer.workspace.odb import deflate
from checkpointer.workspace.odb.objects import CHUNK, ObjectType, new_hash

_READ = 64 << 10


class LooseObject:
    """One open loose object. Raises `Damaged` or OSError."""

    def __init__(self, path: str) -> None:
        self._file: IO[bytes] = open(path, "rb")  # noqa: SIM115
        self._unpacker = deflate.decompressor()
        self._pending = b""
        try:
            start = b""
            while b"\0" not in start:
                more = self._some(64)
                if not more or len(start) > 64:
                    raise Damaged("it is no loose object")
                start += more
            head, _, self._first = start.partition(b"\0")
            kind, _, size = head.partition(b" ")
            if kind.decode("ascii", "replace") not in get_args(ObjectType) or not size.isdigit():
                raise Damaged("it is no loose object")
            self.kind: ObjectType = kind.decode("ascii")  # type: ignore[assignment]
            self.size = int(size)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def _some(self, limit: int) -> bytes:
        try:
            while not self._unpacker.eof:
                ended = False
                if not self._pending:
                    self._pending = self._file.read(_READ)
                    ended = not self._pending
                out: bytes = self._unpacker.decompress(self._pending, limit)  # may have some left without new input
                self._pending = self._unpacker.unconsumed_tail
                if out:
                    return out
                if ended and not self._unpacker.eof:
                    raise Damaged("it is cut short")
        except deflate.ERRORS as e:
            raise Damaged(str(e)) from None
        return b""

    def chunks(self) -> Iterator[bytes]:
        """The content in chunks of at most `CHUNK` bytes; closes the file."""
        try:
            left = self.size
            chunk = self._first
            while True:
                left -= len(chunk)
                if left < 0:
                    break
                if chunk:
                    yield chunk
                chunk = self._some(CHUNK)
                if not chunk:
                    break
            if left:
                raise Damaged("it is not as long as it says")
        finally:
            self._file.close()


def head(path: str) -> tuple[ObjectType, int]:
    """Type and size of a loose object."""
    found = LooseObject(path)
    found.close()
    return found.kind, found.size


def read(path: str) -> tuple[ObjectType, bytes]:
    """Type and content of a loose object."""
    found = LooseObject(path)
    return found.kind, b"".join(found.chunks())


def problem(path: str, oid: bytes) -> str:
    """What is wrong with a loose object; empty where nothing is."""
    try:
        found = LooseObject(path)
        h = new_hash(found.kind, found.size)
        for chunk in found.chunks():
            h.update(chunk)
        return "" if h.digest() == oid else f"{path}: its content is not what its id says"
    except Damaged as e:
        return f"{path}: {e.message}"
    except OSError as e:
        return f"{path}: {e.strerror or e}"
