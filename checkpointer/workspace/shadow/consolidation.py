"""Many small packs into one, by copying their entries as they are; what git made into deltas is written whole."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Set

from checkpointer import disk
from checkpointer.errors import Damaged
from checkpointer.workspace.odb import deflate
from checkpointer.workspace.odb.objects import CHUNK
from checkpointer.workspace.odb.packfile import TYPES
from checkpointer.workspace.odb.packs import PackedObjects
from checkpointer.workspace.odb.packwriter import PackWriter, entry_header
from checkpointer.workspace.shadow.commits import in_flight

ENOUGH = 50
_SMALL = 16 << 20


def consolidate(objects: PackedObjects, notices: list[str], *, enough: int = ENOUGH) -> int:
    """Bring the smaller packs into one where there are `enough` of them; returns how many went.

    A large pack is left alone until the small ones are as large together. A pack with an unreadable object stays, with
    a notice. Cut short, it leaves objects twice, never none. The workspace lock is held. Raises `NoSpace`,
    `ReadOnlyStore`, `Failed`.
    """
    if len(objects.packs) < enough:
        return 0
    objects.refresh()
    names = objects.packs.keys() - in_flight(objects) - objects.distrusted - objects.damaged.keys()
    if len(names) < enough:
        return 0
    sized = sorted((os.path.getsize(os.path.join(objects.pack_directory, n + ".pack")), n) for n in names)
    chosen: list[str] = []
    total = 0
    for size, name in sized:
        if size > max(_SMALL, total):
            break
        chosen.append(name)
        total += size
    if len(chosen) < 2:
        return 0
    with PackWriter(objects.directory, objects, keep=False) as writer:
        whole = []
        for name in chosen:
            try:
                copy_pack(objects, name, writer)
                whole.append(name)
            except (Damaged, OSError) as e:
                notices.append(f"{name} was left as it is: {e}")
        made = writer.finish()
    drop_packs(objects, [name for name in whole if name != made])
    return len(whole)


def copy_pack(objects: PackedObjects, name: str, writer: PackWriter, only: Set[bytes] | None = None) -> None:
    """Copy every object of a pack (of those in `only`) that the writer has not got yet. Raises `Damaged`, OSError."""
    index = objects.packs[name]
    pack = objects.open_pack(name)
    placed = index.by_offset()
    ends = [p.offset for p in placed[1:]] + [pack.length - 20]
    for (oid, crc, offset), end in zip(placed, ends, strict=True):
        if writer.has(oid) or (only is not None and oid not in only):
            continue
        pack = objects.open_pack(name)  # reading other packs may have closed it
        try:
            if pack.header(offset).number in TYPES:
                copy_entry(pack.fd, oid, crc, offset, end, writer)
                continue
        except Damaged:
            pass  # it may stand elsewhere too
        add_whole(objects, oid, writer)


def copy_entry(fd: int, oid: bytes, crc: int, offset: int, end: int, writer: PackWriter) -> None:
    """Copy one entry's bytes. Raises `Damaged`, with nothing added, where they are not what the idx file says."""
    seen = 0
    for chunk in _range(fd, offset, end):
        seen = zlib.crc32(chunk, seen)
    if seen != crc:
        raise Damaged(f"object {oid.hex()} is damaged: its checksum is wrong", object=oid.hex())
    writer.add_parts(oid, _range(fd, offset, end))


def _range(fd: int, start: int, end: int) -> Iterable[bytes]:
    while start < end:
        chunk = os.pread(fd, min(CHUNK, end - start), start)
        if not chunk:
            return
        yield chunk
        start += len(chunk)


def add_whole(objects: PackedObjects, oid: bytes, writer: PackWriter) -> None:
    """Add an object read through deltas, or loose, as one entry of its own. Raises `Damaged` or `MissingObject`."""
    kind = objects.kind(oid)
    if kind == "blob" and objects.size(oid) > CHUNK:
        writer.add_parts(oid, _deflated(objects, oid))
    else:
        data = objects.get(oid)[1]
        writer.add_parts(oid, [entry_header(kind, len(data)) + deflate.compress(data)])


def _deflated(objects: PackedObjects, oid: bytes) -> Iterable[bytes]:
    yield entry_header("blob", objects.size(oid))
    packer = deflate.compressor(worth=True)
    for chunk in objects.stream(oid):
        yield packer.compress(chunk)
    yield packer.flush()


def drop_packs(objects: PackedObjects, names: Iterable[str]) -> int:
    """Remove packs whose objects stand elsewhere, durably; returns the bytes freed. Raises our errors."""
    freed = 0
    with disk.plain_errors("the store"):
        for name in names:
            objects.close_pack(name)
            # The idx goes first: without it nobody looks into the pack.
            for suffix in (".idx", ".keep", ".rev", ".bitmap", ".mtimes", ".promisor", ".pack"):
                path = os.path.join(objects.pack_directory, name + suffix)
                try:
                    size = os.path.getsize(path)
                except FileNotFoundError:
                    continue
                disk.remove(path, missing_ok=True)
                freed += size
        disk.sync_directory(objects.pack_directory)
    objects.refresh()
    return freed
