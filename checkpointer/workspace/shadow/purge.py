"""A path's content is taken out of every checkpoint, for good; numbers and everything else stay.

Ids change, from the first checkpoint that held the path on. `purging` names the paths until nothing is left to do, and
the table `rewritten` (old id -> new one, for logs that go on naming the old) is durable before any ref moves; so a
purge that was cut short is finished by doing it again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from checkpointer import disk
from checkpointer.errors import Failed
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.checkpoint import Checkpoint, Meta, Operation, Paths, Segment
from checkpointer.workspace.entry import Entry, below, from_json, to_json
from checkpointer.workspace.facts import Facts
from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.shadow import shallow, takenout
from checkpointer.workspace.shadow.commits import encode_commit, read_commit
from checkpointer.workspace.shadow.history import REWRITTEN, latest, rewritten_table
from checkpointer.workspace.shadow.reach import reachable
from checkpointer.workspace.shadow.repository import KEEP, OLD, TIMELINE
from checkpointer.workspace.shadow.retention import only_us
from checkpointer.workspace.shadow.store import PURGING, Store
from checkpointer.workspace.shadow.sweep import Swept, drop_caches_of_git, let_go, remove_temporaries, sweep
from checkpointer.workspace.trees.tree import Tree, edited

MARK = PURGING


@dataclass
class Purged:
    """`checkpoints` are the numbers that held one of the paths; `rewritten` counts commits with a new id.

    `elsewhere` are paths at which a checkpoint holds the same content still: that content is not gone. `notes` say what
    could not be removed.
    """

    checkpoints: list[int] = field(default_factory=list)
    rewritten: int = 0
    elsewhere: list[bytes] = field(default_factory=list)
    swept: Swept = field(default_factory=Swept)
    notes: list[str] = field(default_factory=list)


def unfinished(store: Store) -> list[bytes]:
    """The paths of a purge that was cut short; empty where none was, or where its mark cannot be read."""
    try:
        with open(os.path.join(store.directory, MARK), "rb") as f:
            return [from_json(value) for value in json.loads(f.read())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError):
        return []


def purge(store: Store, facts: Facts, paths: Sequence[bytes]) -> Purged:
    """Take these paths, and what is below them, out of every checkpoint, pinned ones too; the workspace lock is held.

    Paths of a purge that was cut short are done along. The files on disk are not touched: what is still there, and not
    ignored, is captured again by the next checkpoint. `facts` is changed and saved. Raises `Failed` while a restore is
    pending, `NoSpace` (nothing changed, or it can be done again), `Damaged` where a checkpoint cannot be read.
    """
    if store.pending() is not None:
        raise Failed("a restore was cut short and is not finished", kept="nothing was removed", next=("ckpt status",))
    only_us(store)
    wanted = sorted({*paths, *unfinished(store)})
    if not wanted or b"" in wanted:
        raise ValueError("a purge needs paths inside the workspace")
    out = Purged()
    with store.writer() as writer, disk.plain_errors("the store"):
        before = [*store.kept(), *store.checkpoints()]
        disk.replace(os.path.join(store.directory, MARK), json.dumps([to_json(p) for p in wanted]).encode("ascii"))
        takenout.remember(store.directory, max((c.number for c in before), default=0), wanted)
        gone: set[bytes] = set()
        table = _rewrite(store, writer, before, wanted, out, gone)
        writer.finish()
    out.rewritten = len(table)
    if table:
        _write_table(store, table)
    finish_moves(store, facts)
    _forget_scan(store)
    remove_temporaries(store, out.swept)
    _remove_objects(store, out, gone)
    return out


def _rewrite(
    store: Store,
    writer: PackWriter,
    before: Sequence[Checkpoint],
    paths: Sequence[bytes],
    out: Purged,
    gone: set[bytes],
) -> dict[str, str]:
    """New commits for all that change: old id -> new id. `gone` receives the blobs that stood at the paths."""
    table: dict[str, str] = {}
    roots: dict[str, str] = {}
    for shown in before:
        checkpoint = read_commit(store.objects, shown.id)
        tree = store.tree(checkpoint)
        if checkpoint.tree not in roots:
            roots[checkpoint.tree] = without(tree, paths, writer, gone).hex()
        root = roots[checkpoint.tree]
        if root != checkpoint.tree:
            out.checkpoints.append(checkpoint.number)
        # Beyond the kept end there is no parent to name any more.
        parent = checkpoint.parent if shown.parent is not None else None
        meta = _without_paths(checkpoint.meta, paths)
        if root != checkpoint.tree or meta != checkpoint.meta or parent in table:
            parent = None if parent is None else table.get(parent, parent)
            table[checkpoint.id] = writer.add("commit", encode_commit(checkpoint.number, root, parent, meta)).hex()
    return table


def without(tree: Tree, paths: Sequence[bytes], writer: PackWriter, gone: set[bytes]) -> bytes:
    """The root of the tree without these paths and what is below; the same root where it holds none of them."""
    changes: dict[bytes, Entry | None] = {}
    for path in paths:
        for found, entry in tree.walk(path):
            changes[found] = None
            if entry.oid:
                gone.add(entry.oid)
        extras = tree.extras
        for listed in (*extras.modes, *extras.uncovered, *extras.torn):
            if below(listed, path):
                changes[listed] = None
    return edited(tree, changes, writer) if changes else tree.root


def _without_paths(meta: Meta, paths: Sequence[bytes]) -> Meta:
    """What an undo says of the paths goes too."""
    operation = meta.operation
    if operation is None:
        return meta

    def cleaned(listed: tuple[tuple[Segment, Paths], ...]) -> tuple[tuple[Segment, Paths], ...]:
        kept = []
        for segment, named in listed:
            if named is not None:
                rest = tuple(p for p in named if not any(below(p, path) for path in paths))
                if named and not rest:
                    continue
                named = rest
            kept.append((segment, named))
        return tuple(kept)

    changed: Operation = operation._replace(taken=cleaned(operation.taken), left=cleaned(operation.left))
    return meta._replace(operation=changed)


def _write_table(store: Store, table: dict[str, str]) -> None:
    whole = {**rewritten_table(store.directory), **table}
    text = "".join(f"{old} {new}\n" for old, new in whole.items())
    with disk.plain_errors("the store"):
        disk.replace(os.path.join(store.directory, REWRITTEN), text.encode("ascii"))


def finish_moves(store: Store, facts: Facts) -> None:
    """Let every ref, `workspace.toml` and `shallow` name the rewritten commits. May be done again."""
    newer = rewritten_table(store.directory)
    for prefix in (KEEP, OLD):
        for name, oid in store.refs.below(prefix).items():
            if oid in newer:
                store.refs.write(name, latest(newer, oid))
    cut = [oid for oid in (latest(newer, old) for old in facts.cut) if _has_parent(store, oid)]
    if cut != facts.cut:
        facts.cut = cut
        facts_file.save(store.directory, facts)
    listed = store.shallow()
    ends = {oid for oid in (latest(newer, old) for old in listed) if _has_parent(store, oid)}
    shallow.save(store.path, ends | listed)  # while the timeline may be either
    tip = store.refs.read(TIMELINE)
    if tip in newer:
        store.move(read_commit(store.objects, latest(newer, tip)))
    shallow.save(store.path, ends)


def _has_parent(store: Store, oid: str) -> bool:
    return read_commit(store.objects, oid).parent is not None


def _forget_scan(store: Store) -> None:
    """What a scan remembers names blobs that are to be gone; the next one reads every file again."""
    directory = os.path.join(store.directory, "scan")
    with disk.plain_errors("the store"), contextlib.suppress(FileNotFoundError):
        for entry in list(os.scandir(directory)):
            if entry.is_file(follow_symlinks=False) and entry.name != "number":
                disk.remove(entry.path, missing_ok=True)
        disk.sync_directory(directory)


def _remove_objects(store: Store, out: Purged, gone: Collection[bytes]) -> None:
    everything = [*store.kept(), *store.checkpoints()]
    live = reachable(store.objects, everything)
    drop_caches_of_git(store)
    let_go(store.objects)
    swept = sweep(store, live)
    swept.bytes += out.swept.bytes
    swept.temporaries = out.swept.temporaries
    out.swept = swept
    still = {oid for oid in gone if oid in live}
    if still:
        out.elsewhere = sorted({p for c in everything for p, entry in store.tree(c).walk() if entry.oid in still})
    out.notes.extend(f"{name} still holds it: {why}" for name, why in swept.left.items())
    if not swept.left:
        with disk.plain_errors("the store"):
            disk.remove(os.path.join(store.directory, MARK), missing_ok=True)
            disk.sync_directory(store.directory)
