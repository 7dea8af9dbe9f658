"""Checkpoints and their objects, refs, facts: each promise of a shadow repository checked."""

from __future__ import annotations

import itertools
import os
import stat
import zlib
from collections.abc import Iterator

from checkpointer.audit.finding import Audit, Progress
from checkpointer.errors import CheckpointerError, Damaged, NewerFormat
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.odb import loose
from checkpointer.workspace.odb.objects import CHUNK, new_hash
from checkpointer.workspace.odb.packfile import TYPES
from checkpointer.workspace.odb.packs import PackedObjects
from checkpointer.workspace.shadow import shallow
from checkpointer.workspace.shadow.commits import in_flight, read_commit
from checkpointer.workspace.shadow.history import History, rewritten_table
from checkpointer.workspace.shadow.repository import CONFIG, HEAD, KEEP, OLD, PENDING, TIMELINE
from checkpointer.workspace.shadow.store import PURGING
from checkpointer.workspace.trees.extras import REASONS, Extras
from checkpointer.workspace.trees.gittree import TREE, decode_tree, encode_tree
from checkpointer.workspace.trees.tree import Tree


def check(history: History, audit: Audit, progress: Progress | None = None) -> None:
    """Everything that the shadow repository and the files beside it promise. Raises `NewerFormat`."""
    _repository(history, audit)
    _permissions(history.directory, audit)
    sound = _objects(history.objects, audit, progress)
    chain = _chain(history, audit)
    _facts(history, chain, audit)
    _checkpoints(history, [*_kept(history, audit), *chain], sound, audit, progress)


def _repository(history: History, audit: Audit) -> None:
    for name, content in (("HEAD", HEAD), ("config", CONFIG)):
        try:
            with open(os.path.join(history.path, name), "rb") as f:
                found = f.read()
        except OSError as e:
            audit.add("config", f"{name} cannot be read: {e.strerror or e}; git needs it, ckpt does not")
            continue
        if found != content:
            audit.add("config", f"{name} is not what ckpt wrote", harmless=b"\0" not in found and bool(found))
        audit.count("files")


def _permissions(directory: str, audit: Audit) -> None:
    """Nobody else may look into the store."""
    mine = os.geteuid()

    def failed(e: OSError) -> None:
        audit.unchecked.append(f"{e.filename}: {e.strerror or e}")

    for place, directories, names in os.walk(directory, onerror=failed):
        for path in (place, *(os.path.join(place, n) for n in names)):
            try:
                st = os.lstat(path)
            except OSError:
                continue  # removed meanwhile
            if st.st_mode & 0o077 and not stat.S_ISLNK(st.st_mode):
                audit.add("permissions", f"others may look into {path}: mode {stat.S_IMODE(st.st_mode):o}")
            if st.st_uid != mine:
                audit.add("permissions", f"{path} belongs to user {st.st_uid}", harmless=mine == 0)
        directories.sort()
        audit.count("files", len(names))


def _objects(objects: PackedObjects, audit: Audit, progress: Progress | None) -> set[bytes]:
    """Read every object of every pack; the ids of those that are sound."""
    sound: set[bytes] = set()
    try:
        objects.refresh()
    except Damaged as e:
        audit.add("pack", e.message)
        return sound
    for name, why in objects.damaged.items():
        audit.add("pack", why)
        audit.unchecked.append(f"what {name}.idx listed")
    for name in sorted(objects.unindexed - objects.damaged.keys()):
        audit.add("pack", f"{name}.pack has no idx file; git cannot read it, the next save makes one")
    total = sum(index.count for index in objects.packs.values())
    for name, index in objects.packs.items():
        try:
            index.check()
            pack = objects.open_pack(name)
            if pack.check_digest() != index.pack_digest:
                audit.add("pack", f"{name}.idx belongs to another pack")
        except Damaged as e:
            audit.add("pack", e.message)
        except OSError as e:
            audit.add("pack", f"{name}.pack cannot be read: {e.strerror or e}")
            audit.unchecked.append(f"{index.count} objects of {name}")
            continue
        audit.count("packs")
        for oid, problem in _pack_objects(objects, name):
            if problem:
                audit.add("object", problem)
            else:
                sound.add(oid)
            audit.count("objects")
            if progress is not None:
                progress("objects", audit.checked["objects"], total, 0)
    for oid in objects.loose():
        problem = loose.problem(objects.loose_path(oid), oid)
        if problem:
            audit.add("object", problem)
        else:
            sound.add(oid)
        audit.count("objects")
    return sound


def _pack_objects(objects: PackedObjects, name: str) -> Iterator[tuple[bytes, str]]:
    """Every object of one pack, with what is wrong about it, in the order of the pack."""
    pack = objects.open_pack(name)
    placed = objects.packs[name].by_offset()
    ends = [p.offset for p in placed[1:]] + [pack.length - 20]
    for (oid, crc, offset), end in zip(placed, ends, strict=True):
        pack = objects.open_pack(name)  # reading other packs may have closed it
        try:
            header = pack.header(offset)
            seen = 0
            at = offset
            while at < end:
                chunk = os.pread(pack.fd, min(CHUNK, end - at), at)
                if not chunk:
                    break
                seen = zlib.crc32(chunk, seen)
                at += len(chunk)
            if seen != crc:
                raise Damaged("its checksum is wrong")
            if header.number in TYPES:
                h = new_hash(TYPES[header.number], header.size)
                for chunk in pack.inflate_chunks(header):
                    h.update(chunk)
                if h.digest() != oid:
                    raise Damaged("its content is not what its id says")
            else:
                objects.get(oid)
            yield oid, ""
        except Damaged as e:
            yield oid, f"object {oid.hex()} in {name}.pack: {e.message}"


def _chain(history: History, audit: Audit) -> list[Checkpoint]:
    try:
        value = history.refs.read(TIMELINE)
    except Damaged as e:
        audit.add("ref", e.message)
        value = None
    try:
        chain = history.checkpoints()
    except NewerFormat:
        raise
    except CheckpointerError as e:
        audit.add("chain", e.message)
        return []
    if value is None and chain:
        audit.add("ref", f"{TIMELINE} names no checkpoint, but there are some", chain[-1].number)
    elif chain and value != chain[-1].id:
        audit.add("chain", f"the newest checkpoint cannot be read; {chain[-1].number} is the newest that can")
    for older, newer in itertools.pairwise(chain):
        if newer.number <= older.number:
            audit.add("chain", f"checkpoint {newer.number} follows checkpoint {older.number}", newer.number)
        if newer.parent != older.id:
            audit.add("chain", f"what stands between checkpoints {older.number} and {newer.number} cannot be read")
    if chain and chain[0].parent is not None:
        audit.add("chain", f"nothing older than checkpoint {chain[0].number} can be read", chain[0].number)
    audit.count("checkpoints", len(chain))
    return chain


def _kept(history: History, audit: Audit) -> list[Checkpoint]:
    kept = history.kept()
    readable = {c.id for c in (*kept, *history.checkpoints())}
    for prefix in (KEEP, OLD):
        for name, oid in history.refs.below(prefix).items():
            if oid not in readable:
                audit.add("ref", f"{name} names no checkpoint that can be read: {oid}")
    try:
        pending = history.refs.read(PENDING)
        if pending is not None:
            read_commit(history.objects, pending)
            audit.add("ref", "an undo, redo or restore was cut short and is not finished", harmless=True)
    except Damaged as e:
        audit.add("ref", e.message)
    audit.count("checkpoints", len(kept))
    flying = in_flight(history.objects) if os.path.isdir(history.objects.pack_directory) else set()
    if flying:
        audit.add("pack", f"{len(flying)} packs were never put on the timeline; ckpt gc removes them", harmless=True)
    return kept


def _facts(history: History, chain: list[Checkpoint], audit: Audit) -> None:
    try:
        facts = facts_file.load(history.directory)
    except NewerFormat:
        raise
    except Damaged as e:
        audit.add("facts", e.message)
        return
    if chain and chain[0].number < facts.first_kept:
        audit.add("facts", f"{facts_file.NAME} says that the timeline begins at {facts.first_kept}", harmless=True)
    if sorted(facts.cut) != sorted(shallow.load(history.path)):
        audit.add("facts", f"{facts_file.NAME} and {shallow.NAME} name different ends of the timeline")
    cut_short = os.path.exists(os.path.join(history.directory, PURGING))
    if cut_short:
        audit.add("object", "a purge was cut short: the same ckpt purge again finishes it", harmless=True)
    for old, new in rewritten_table(history.directory).items():
        if not cut_short and bytes.fromhex(old) in history.objects:
            audit.add("object", f"commit {old}, which a purge replaced by {new}, is still there")


def _checkpoints(
    history: History, checkpoints: list[Checkpoint], sound: set[bytes], audit: Audit, progress: Progress | None
) -> None:
    """Every object that each checkpoint needs is there and sound, and its extras fit its tree."""
    needs = _Needs(history.objects, sound)
    for n, checkpoint in enumerate(checkpoints):
        problems = needs.of(bytes.fromhex(checkpoint.tree))
        for problem in problems:
            audit.add("object", f"checkpoint {checkpoint.number} needs {problem}", checkpoint.number)
        if not problems:
            for problem in _misfits(history.tree(checkpoint)):
                audit.add("extras", f"checkpoint {checkpoint.number}: {problem}", checkpoint.number)
        if progress is not None:
            progress("checkpoints", n + 1, len(checkpoints), 0)


class _Needs:
    """What is missing or damaged at trees and below them, each looked at once; the first problems only."""

    MOST = 20

    def __init__(self, objects: PackedObjects, sound: set[bytes]) -> None:
        self._objects = objects
        self._sound = sound
        self._fine: set[bytes] = set()
        self._bad: dict[bytes, list[str]] = {}

    def of(self, root: bytes) -> list[str]:
        own: dict[bytes, tuple[list[bytes], list[str]]] = {}
        stack = [(root, False)]
        while stack:
            oid, below_done = stack.pop()
            if below_done:
                trees, problems = own.pop(oid)
                for tree in trees:
                    problems.extend(self._bad.get(tree, ()))
                if problems:
                    self._bad[oid] = problems[: self.MOST]
                else:
                    self._fine.add(oid)
            elif oid not in self._fine and oid not in self._bad and oid not in own:
                own[oid] = self._look(oid)
                stack.append((oid, True))
                stack.extend((tree, False) for tree in own[oid][0])
        return self._bad.get(root, [])

    def _look(self, oid: bytes) -> tuple[list[bytes], list[str]]:
        """Trees directly below a tree, and what is wrong with it and its blobs."""
        try:
            kind, data = self._objects.get(oid)
            if kind != "tree":
                raise Damaged(f"it is a {kind}")
            items = decode_tree(data)
            problems = []
            if encode_tree(items) != data:
                problems.append(f"tree {oid.hex()}, which is not written as ckpt writes them")
        except (Damaged, ValueError) as e:
            return [], [f"tree {oid.hex()}: {e}"]
        for _, mode, child in items:
            if mode != TREE and child not in self._sound:
                there = "is damaged" if child in self._objects else "is missing"
                problems.append(f"object {child.hex()}, which {there}")
        return [child for _, mode, child in items if mode == TREE], problems


def _misfits(tree: Tree) -> Iterator[str]:
    try:
        extras = tree.extras
        if Extras.decode(extras.encode()) != extras or extras.encode() != tree.read_extras():
            yield "extras.json is not written as ckpt writes it"
        for path in (*extras.directories, *extras.fifos):
            if tree.node(path) is not None:
                yield f"{path!r} is in the tree and beside it"
        for path in (*extras.modes, *extras.torn):
            if not tree.covers(path):
                yield f"extras.json speaks of {path!r}, which is not there"
        for path, reason in extras.uncovered.items():
            if reason not in REASONS:
                yield f"{path!r} is uncovered for an unknown reason: {reason}"
    except NewerFormat:
        raise
    except Damaged as e:
        yield e.message
