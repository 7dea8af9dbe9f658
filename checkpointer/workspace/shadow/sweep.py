"""Objects that no checkpoint needs are taken out of the packs, and what killed processes left lying about goes too."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from checkpointer import disk
from checkpointer.errors import Damaged, NoSpace
from checkpointer.workspace.odb import loose
from checkpointer.workspace.odb.objects import new_hash, oid_of
from checkpointer.workspace.odb.packfile import TYPES
from checkpointer.workspace.odb.packs import PackedObjects
from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.shadow.commits import in_flight
from checkpointer.workspace.shadow.consolidation import copy_pack, drop_packs
from checkpointer.workspace.shadow.history import History

_FRESH = 3600.0
_TEMPORARY = re.compile(
    r"(?P<mine>\d+)-[0-9a-f]+\.ckpt-tmp|\.?tmp_.*"
    r"|.+\.(?P<replaced>\d+)\.tmp|shadow\.git\.(?P<made>\d+)-[0-9a-f]+\.tmp"
)
_MARGIN = 1 << 20
_TOGETHER = 64 << 20


@dataclass
class Swept:
    """What one sweep did. `bytes` were freed; `left` names packs that could not be rewritten, each with the reason."""

    bytes: int = 0
    objects: int = 0
    temporaries: int = 0
    left: dict[str, str] = field(default_factory=dict)


def sweep(history: History, live: set[bytes]) -> Swept:
    """Remove every object that is not in `live` from the store, durably; the workspace lock is held.

    Packs without a live object go first. A pack with live and dead ones is written anew, then removed: that needs free
    space of about its live size, and where there is none the pack is left, with the reason. So is a pack with a live
    object that cannot be read. Cut short at any point, nothing live is missing.
    """
    objects = history.objects
    objects.refresh()
    swept = Swept()
    homes = _homes(objects, live)
    dead: list[str] = []
    mixed: list[str] = []
    for name, index in objects.packs.items():
        keep = homes.get(name, set())
        if len(keep) < index.count:
            (mixed if keep else dead).append(name)
    held = {oid for name in objects.packs for oid in homes.get(name, ())}
    swept.objects = len({oid for name in (*dead, *mixed) for oid, _, _ in objects.packs[name]} - held)
    _drop(history, dead, swept)
    for group in _groups(objects, mixed):
        _rewrite(history, group, homes, swept)
    _drop_loose(objects, live, swept)
    return swept


def _homes(objects: PackedObjects, live: set[bytes]) -> dict[str, set[bytes]]:
    """For every pack the live objects that stay in it: each in one pack, the largest in which it is sound.

    Only what stands in more than one pack is read for that: all other copies of it are about to be removed.
    """
    fine = sorted(objects.packs.keys() - objects.distrusted, key=lambda n: (-objects.packs[n].count, n))
    homes: dict[str, set[bytes]] = {}
    placed: dict[bytes, str] = {}
    proven: set[bytes] = set()
    for name in (*fine, *sorted(objects.distrusted & objects.packs.keys())):
        homes[name] = set()
        for oid, _ in objects.packs[name].places():
            if oid not in live:
                continue
            if oid not in placed:
                placed[oid] = name
            elif oid not in proven:
                if not _is_sound(objects, placed[oid], oid):
                    placed[oid] = name
                    continue
                proven.add(oid)
    for oid, name in placed.items():
        homes[name].add(oid)
    return homes


def _is_sound(objects: PackedObjects, name: str, oid: bytes) -> bool:
    offset = objects.packs[name].find(oid)
    assert offset is not None
    try:
        pack = objects.open_pack(name)
        header = pack.header(offset)
        if header.number not in TYPES:
            return oid_of(*pack.resolve(offset, objects.get)) == oid
        h = new_hash(TYPES[header.number], header.size)
        for chunk in pack.inflate_chunks(header):
            h.update(chunk)
        return h.digest() == oid
    except (Damaged, OSError):
        return False


def _size(objects: PackedObjects, name: str) -> int:
    try:
        return os.path.getsize(os.path.join(objects.pack_directory, name + ".pack"))
    except OSError:
        return 0


def _live_size(objects: PackedObjects, name: str, live: set[bytes]) -> int:
    """Bytes that the entries of these objects take in a pack (at most, where they are deltas, what they make)."""
    total = 0
    placed = objects.packs[name].by_offset()
    ends = [p.offset for p in placed[1:]] + [_size(objects, name) - 20]
    for (oid, _, offset), end in zip(placed, ends, strict=True):
        if oid in live:
            total += end - offset
    return total


def _groups(objects: PackedObjects, names: list[str]) -> Iterator[list[str]]:
    """Small packs together, large ones alone, the smallest first: each group frees what the next may need."""
    group: list[str] = []
    total = 0
    for name in sorted(names, key=lambda n: (_size(objects, n), n)):
        size = _size(objects, name)
        if group and total + size > _TOGETHER:
            yield group
            group, total = [], 0
        group.append(name)
        total += size
    if group:
        yield group


def _free(objects: PackedObjects) -> int:
    found = os.statvfs(objects.pack_directory)
    return found.f_bavail * found.f_frsize


def _rewrite(history: History, group: list[str], homes: dict[str, set[bytes]], swept: Swept) -> None:
    objects = history.objects
    needed = sum(_live_size(objects, name, homes[name]) for name in group) + _MARGIN
    if _free(objects) < needed:
        swept.left.update(dict.fromkeys(group, f"that needs {needed} bytes of free space"))
        return
    whole = []
    with PackWriter(objects.directory, objects, keep=False) as writer:
        try:
            for name in group:
                try:
                    copy_pack(objects, name, writer, only=homes[name])
                    whole.append(name)
                except (Damaged, OSError) as e:
                    swept.left[name] = str(e)
            made = writer.finish()
        except NoSpace as e:
            swept.left.update(dict.fromkeys(group, e.message))
            return
    if made is not None:
        swept.bytes -= _size(objects, made) + os.path.getsize(os.path.join(objects.pack_directory, made + ".idx"))
    _drop(history, [name for name in whole if name != made], swept)


def _drop(history: History, names: list[str], swept: Swept) -> None:
    if names:
        swept.bytes += drop_packs(history.objects, names)


def _drop_loose(objects: PackedObjects, live: set[bytes], swept: Swept) -> None:
    """Loose objects that nobody needs go, and damaged ones of which a sound pack has another."""
    sound = [index for name, index in objects.packs.items() if name not in objects.distrusted]
    with disk.plain_errors("the store"):
        for oid in list(objects.loose()):
            path = objects.loose_path(oid)
            if oid not in live or (loose.problem(path, oid) and any(i.find(oid) is not None for i in sound)):
                swept.bytes += os.path.getsize(path)
                swept.objects += oid not in live
                disk.remove(path, missing_ok=True)


def let_go(objects: PackedObjects) -> None:
    """Remove every `.keep` file: with the workspace lock held and nothing pending, nothing is in flight."""
    with disk.plain_errors("the store"):
        for name in in_flight(objects):
            disk.remove(os.path.join(objects.pack_directory, name + ".keep"), missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove_temporaries(history: History, swept: Swept) -> None:
    """Remove what killed processes left: temporary files whose process is gone, or that are an hour old.

    The workspace lock is held: nothing of ours is being written now, but for what runs keep beside the store.
    """
    places = (history.directory, os.path.join(history.directory, "scan"), history.path, history.objects.pack_directory)
    with disk.plain_errors("the store"):
        for place in places:
            for entry in os.scandir(place) if os.path.isdir(place) else ():
                match = _TEMPORARY.fullmatch(entry.name)
                if match is None:
                    continue
                st = entry.stat(follow_symlinks=False)
                pid = match["mine"] or match["replaced"] or match["made"]
                gone = pid is not None and int(pid) != os.getpid() and not _alive(int(pid))
                if not gone and time.time() - st.st_mtime < _FRESH:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    swept.bytes += st.st_size
                    disk.remove(entry.path, missing_ok=True)
                swept.temporaries += 1


def drop_caches_of_git(history: History) -> None:
    """Remove what a user's git derived from commits and packs that are no more; it makes these anew at need."""
    info = os.path.join(history.objects.directory, "info")
    with disk.plain_errors("the store"):
        for path in (os.path.join(info, "commit-graph"), os.path.join(info, "packs")):
            disk.remove(path, missing_ok=True)
        chain = os.path.join(info, "commit-graphs")
        if os.path.isdir(chain):
            shutil.rmtree(chain, ignore_errors=True)
        for entry in os.scandir(history.objects.pack_directory):
            if entry.name.startswith("multi-pack-index"):
                disk.remove(entry.path, missing_ok=True)
