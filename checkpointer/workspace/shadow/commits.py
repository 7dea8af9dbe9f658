"""Commit objects of the timeline: encoded from a checkpoint, decoded into one, and found when no ref leads to them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from checkpointer.errors import Damaged
from checkpointer.workspace.checkpoint import Checkpoint, Meta, decode, encode
from checkpointer.workspace.odb.packs import PackedObjects

_WHO = b"ckpt <ckpt@localhost>"
_LATEST = 253402300799  # the last second that datetime can hold
_HEAD = re.compile(
    rb"tree (?P<tree>[0-9a-f]{40})\n(?:parent (?P<parent>[0-9a-f]{40})\n)?"
    rb"author [^\n]*\ncommitter [^\n]*> (?P<at>[0-9]{1,12}) [+-][0-9]{4}\n"
)


def encode_commit(number: int, tree: str, parent: str | None, meta: Meta) -> bytes:
    """The commit object of a checkpoint; the time is kept in whole seconds, from 1970 on."""
    who = b"%s %d +0000" % (_WHO, min(max(int(meta.at.timestamp()), 0), _LATEST))
    lines = [b"tree " + tree.encode()]
    if parent is not None:
        lines.append(b"parent " + parent.encode())
    lines += [b"author " + who, b"committer " + who, b"", encode(number, meta)]
    return b"\n".join(lines)


def decode_commit(oid: str, data: bytes) -> Checkpoint:
    """The checkpoint a commit object stands for. Raises `Damaged` where it is not one of ours."""
    head, _, message = data.partition(b"\n\n")
    match = _HEAD.fullmatch(head + b"\n")
    if match is None or int(match["at"]) > _LATEST:
        raise Damaged(f"commit {oid} is not a checkpoint")
    number, meta = decode(message, datetime.fromtimestamp(int(match["at"]), UTC))
    parent = match["parent"]
    return Checkpoint(number, oid, match["tree"].decode(), None if parent is None else parent.decode(), meta)


def read_commit(objects: PackedObjects, oid: str) -> Checkpoint:
    """Raises `MissingObject` or `Damaged`."""
    kind, data = objects.get(bytes.fromhex(oid))
    if kind != "commit":
        raise Damaged(f"object {oid} is a {kind}, not a commit")
    return decode_commit(oid, data)


def in_flight(objects: PackedObjects) -> set[str]:
    """Names of packs with a `.keep` file: written, but no ref has moved to what they hold (or was about to)."""
    return {name[:-5] for name in os.listdir(objects.pack_directory) if name.endswith(".keep")}


def every_commit(objects: PackedObjects) -> Iterator[Checkpoint]:
    """Every readable checkpoint there is, reachable or not, but for those in flight; in no order.

    Reads the header of every object in the store: only for when a ref or a commit is damaged.
    """
    objects.refresh()
    kept = in_flight(objects)
    seen = set()
    for oid in objects.everything(without=kept):
        if oid in seen:
            continue
        try:
            if objects.kind(oid) == "commit":
                seen.add(oid)
                yield read_commit(objects, oid.hex())
        except Damaged:
            continue


def newest(objects: PackedObjects, below: int | None = None) -> Checkpoint | None:
    """The readable checkpoint with the highest number (below `below`), the newest where two have it."""
    found = [c for c in every_commit(objects) if below is None or c.number < below]
    return max(found, key=lambda c: (c.number, c.meta.at), default=None)
