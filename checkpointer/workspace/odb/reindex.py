"""The index of one of our packs made again from the pack, where the idx file is missing or damaged."""

from __future__ import annotations

import os
import zlib

from checkpointer import disk
from checkpointer.errors import Damaged
from checkpointer.workspace.odb.objects import CHUNK, new_hash
from checkpointer.workspace.odb.packfile import PackFile
from checkpointer.workspace.odb.packindex import Placed, encode_index


def indexed_again(path: str) -> bytes:
    """The idx file of the pack at `path`. Raises `Damaged` or OSError.

    Packs with deltas were written by git, whose `index-pack` can do this: `Damaged`.
    """
    pack = PackFile(path)
    try:
        head = os.pread(pack.fd, 12, 0)
        if head[:8] != b"PACK\0\0\0\2":
            raise Damaged(f"{pack.name} is not a pack")
        placed = []
        at = 12
        for _ in range(int.from_bytes(head[8:12], "big")):
            header = pack.header(at)
            h = new_hash(pack.kind(header), header.size)
            end = at
            for chunk, consumed in pack.inflate_with_end(header):
                h.update(chunk)
                end = consumed
            placed.append(Placed(h.digest(), _crc(pack.fd, at, end), at))
            at = end
        if at != pack.length - 20:
            raise Damaged(f"{pack.name} is damaged: it does not end after its last entry")
        return encode_index(placed, pack.check_digest())
    finally:
        pack.close()


def write_index(directory: str, name: str) -> None:
    """Make the idx file of a pack in this directory again, durably. Raises `Damaged`, OSError or our errors."""
    data = indexed_again(os.path.join(directory, name + ".pack"))
    with disk.plain_errors("the store"):
        disk.replace(os.path.join(directory, name + ".idx"), data)


def _crc(fd: int, start: int, end: int) -> int:
    crc = 0
    while start < end:
        chunk = os.pread(fd, min(CHUNK, end - start), start)
        crc = zlib.crc32(chunk, crc)
        start += len(chunk)
    return crc
