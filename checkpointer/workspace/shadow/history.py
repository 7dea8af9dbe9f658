"""Reading the shadow repository: checkpoints in the order they were taken, pinned ones, and what damage left of them.

Reading needs no lock and writes nothing. Nothing of git's is run or obeyed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping

from checkpointer.errors import CheckpointerError, Damaged, MissingObject, NewerFormat, TooOld, Usage
from checkpointer.workspace import facts
from checkpointer.workspace.checkpoint import Checkpoint, relabelled
from checkpointer.workspace.odb.packs import PackedObjects
from checkpointer.workspace.shadow import pins, shallow
from checkpointer.workspace.shadow.commits import newest, read_commit
from checkpointer.workspace.shadow.refs import Refs
from checkpointer.workspace.shadow.repository import KEEP, OLD, PENDING, TIMELINE
from checkpointer.workspace.trees.tree import Tree
from checkpointer.workspace.trees.treeview import Decoded, SalvagedTree

REWRITTEN = "rewritten"
NUMBER = "scan/number"
_ID = re.compile(r"[0-9a-f]{40}")


class History:
    """What one shadow repository at `path` holds; what belongs to it stands beside it, in `path`'s directory.

    `notices` receives lines for people: what was damaged, which lock was broken. `lost` is what the timeline's ref said
    where that led to nothing readable, else None. `Damaged` and `MissingObject` name the checkpoint they concern.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.directory = os.path.dirname(self.path)
        self.notices: list[str] = []
        self.lost: str | None = None
        self.objects = PackedObjects(os.path.join(self.path, "objects"))
        self.refs = Refs(self.path, self.notices)
        self._decoded = Decoded()
        self._known_cut: tuple[object, frozenset[str]] | None = None
        self._tip: tuple[object, Checkpoint | None] | None = None
        self._chain: tuple[object, list[Checkpoint]] | None = None

    def tip(self) -> Checkpoint | None:
        """The newest checkpoint, None where there is none.

        Where the ref or the commit it names cannot be read, the newest readable one stands in, with a notice.
        """
        value = self._raw_tip()
        if self._tip is None or self._tip[0] != value:
            self._tip = (value, self._read_tip(value))
        return self._tip[1]

    def _raw_tip(self) -> bytes | None:
        try:
            return self.refs.raw(TIMELINE)
        except Damaged:
            return b""

    def _read_tip(self, value: bytes | None) -> Checkpoint | None:
        self.lost = None
        if not os.path.isdir(self.path):
            raise Damaged(f"the store is damaged: {self.path} is missing")
        problem = f"{TIMELINE} is missing"
        if value is not None:
            try:
                oid = self.refs.read(TIMELINE)
                return None if oid is None else self.named(read_commit(self.objects, oid))
            except NewerFormat:
                raise
            except Damaged as e:
                problem = e.message
        elif not self._has_packs():
            return None
        found = newest(self.objects)
        if found is None and value is None:
            return None  # a first checkpoint that was cut short
        self.lost = "(missing)" if value is None else value.decode("latin-1").strip()
        self._notice_lost(found, problem)
        return None if found is None else self.named(found)

    def _notice_lost(self, found: Checkpoint | None, problem: str) -> None:
        known = self.highest_number(found)
        if found is not None and known == found.number:
            self.notices.append(f"{problem}; checkpoint {known} is the newest")
            return
        which = f"checkpoint {known}" if found is None or known == found.number + 1 else "the newest checkpoint"
        rest = f"checkpoint {found.number} is the newest that can" if found else "and no other can"
        self.notices.append(f"{which} cannot be read: {problem}; {rest}")

    def _has_packs(self) -> bool:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return any(name.endswith(".pack") for name in os.listdir(self.objects.pack_directory))
        return False

    def highest_number(self, found: Checkpoint | None) -> int:
        """The highest number given out, as far as anybody knows; `found` is the newest checkpoint that can be read.

        Where the timeline led to a commit that cannot be read, that one counts, whatever the hint says.
        """
        hint = self._hint()
        numbers = [hint, found.number if found is not None else 0]
        if self.lost is not None and (_ID.fullmatch(self.lost) or hint != numbers[1]):
            numbers.append(numbers[1] + 1)
        if self.lost is not None or found is None:
            with contextlib.suppress(CheckpointerError):
                numbers.append(facts.load(self.directory).last_number)
        return max(numbers)

    def _hint(self) -> int:
        with contextlib.suppress(OSError, ValueError), open(os.path.join(self.directory, NUMBER), "rb") as f:
            return int(f.read(20))
        return 0

    def named(self, checkpoint: Checkpoint) -> Checkpoint:
        """As people know it: with the label given to it later, and without a parent at the kept end."""
        if checkpoint.id in self.shallow():
            checkpoint = checkpoint._replace(parent=None)
        names = pins.load(self.directory).get(checkpoint.number, ())
        return checkpoint._replace(meta=relabelled(checkpoint.meta, names)) if names else checkpoint

    def shallow(self) -> frozenset[str]:
        """Ids of commits whose parents retention took away: git's file, or what `workspace.toml` knows without it."""
        listed = shallow.load(self.path)
        return listed or self._cut()

    def _cut(self) -> frozenset[str]:
        """What `workspace.toml` says of where the timeline was cut."""
        try:
            st = os.stat(os.path.join(self.directory, facts.NAME))
            key = (st.st_ino, st.st_mtime_ns, st.st_size)
            if self._known_cut is None or self._known_cut[0] != key:
                self._known_cut = (key, frozenset(facts.load(self.directory).cut))
            return self._known_cut[1]
        except (OSError, CheckpointerError):
            return frozenset()

    def checkpoints(self) -> list[Checkpoint]:
        """The timeline, oldest kept one first. `parent` is None at its kept end.

        Where a commit in the middle cannot be read, a notice says so and the list goes on below: two neighbours of
        which the newer one's `parent` is not the older one's `id` stand for a gap.
        """
        tip = self.tip()
        if tip is None:
            return []
        key = (tip, self.shallow(), tuple(pins.load(self.directory).items()))
        if self._chain is None or self._chain[0] != key:
            self._chain = (key, self._walk(tip))
        return list(self._chain[1])

    def _walk(self, tip: Checkpoint) -> list[Checkpoint]:
        cut = self.shallow()
        labels = pins.load(self.directory)
        out = [tip]
        at = tip
        while at.parent is not None:
            try:
                found = read_commit(self.objects, at.parent)
                if found.number >= at.number:
                    raise Damaged(f"checkpoint {at.number} follows checkpoint {found.number}")
            except NewerFormat:
                raise
            except Damaged as e:
                if at.id in self._cut():
                    out[-1] = at._replace(parent=None)
                    break
                older = newest(self.objects, below=at.number)
                self.notices.append(_gap(at, older, e))
                if older is None:
                    break
                found = older
            if found.id in cut:
                found = found._replace(parent=None)
            if found.number in labels:
                found = found._replace(meta=relabelled(found.meta, labels[found.number]))
            out.append(found)
            at = found
        return out[::-1]

    def kept(self) -> list[Checkpoint]:
        """Checkpoints older than the timeline's kept end that stay all the same (pinned, labelled), oldest first."""
        chain = self.checkpoints()
        first = chain[0].number if chain else 0
        out: dict[int, Checkpoint] = {}
        for name, oid in (*self.refs.below(OLD).items(), *self.refs.below(KEEP).items()):
            try:
                found = self.named(read_commit(self.objects, oid))
            except NewerFormat:
                raise
            except Damaged as e:
                self.notices.append(f"checkpoint {name.rpartition('/')[2]}, which is kept, cannot be read: {e.message}")
                continue
            if found.number < first:
                out[found.number] = found._replace(parent=None)
        return [out[number] for number in sorted(out)]

    def has_parent(self, checkpoint: Checkpoint) -> bool:
        """Does its commit name a parent, there or cut off?"""
        return read_commit(self.objects, checkpoint.id).parent is not None

    def pinned(self) -> dict[int, str | None]:
        """Numbers of the checkpoints that people pinned, with the label given there, if any."""
        labels = pins.load(self.directory)
        numbers = (name.removeprefix(KEEP) for name in self.refs.below(KEEP))
        return {int(n): (labels.get(int(n)) or (None,))[-1] for n in numbers if n.isdigit()}

    def by_number(self, number: int) -> Checkpoint:
        """One checkpoint, pinned ones older than the timeline included.

        Raises `TooOld` for one that retention took away, `MissingObject` for one lost to damage, else `Usage`.
        """
        chain = self.checkpoints()
        for checkpoint in reversed(chain):
            if checkpoint.number == number:
                return checkpoint
        for checkpoint in self.kept():
            if checkpoint.number == number:
                return checkpoint
        if not chain or not 0 < number <= self.highest_number(chain[-1]):
            raise Usage(f"there is no checkpoint {number}", next=("ckpt log --checkpoints",))
        if number < self._first_kept(chain[0]):
            raise TooOld(
                f"checkpoint {number} is older than the oldest kept one, {chain[0].number}",
                next=("ckpt log --checkpoints",),
            )
        raise MissingObject(
            f"checkpoint {number} is not on the timeline; it was lost to damage, or never finished",
            kept="every other checkpoint stays usable",
            next=("ckpt log --checkpoints", "ckpt verify"),
        )

    def _first_kept(self, oldest: Checkpoint) -> int:
        """What is older than this number was taken away by retention; what is not, and is not there, was lost."""
        with contextlib.suppress(CheckpointerError):
            return min(facts.load(self.directory).first_kept, oldest.number)
        return oldest.number

    def tree(self, checkpoint: Checkpoint) -> Tree:
        """The checkpoint's files."""
        return Tree(self.objects, bytes.fromhex(checkpoint.tree), f"checkpoint {checkpoint.number}", self._decoded)

    def salvaged(self, checkpoint: Checkpoint) -> Tree:
        """The checkpoint's files as far as they can be read: what cannot counts as not held, with a notice."""
        return SalvagedTree(
            self.objects, bytes.fromhex(checkpoint.tree), f"checkpoint {checkpoint.number}", self.notices, self._decoded
        )

    def is_pending(self) -> bool:
        """Was a restore begun and not finished? True also where the ref that says so cannot be read."""
        try:
            return self.refs.raw(PENDING) is not None
        except Damaged:
            return True

    def pending(self) -> Checkpoint | None:
        """The prepared result of a restore that was begun and not finished."""
        try:
            oid = self.refs.read(PENDING)
            return None if oid is None else read_commit(self.objects, oid)
        except NewerFormat:
            raise
        except Damaged as e:
            self.notices.append(f"a restore was cut short, and what it was to write cannot be read: {e.message}")
            return None

    def rewritten(self, oid: str) -> str | None:
        """The commit id that stands for one which a purge replaced; None where none did."""
        found = latest(rewritten_table(self.directory), oid)
        return None if found == oid else found


def rewritten_table(directory: str | os.PathLike[str]) -> dict[str, str]:
    """Old commit id -> new one, of every purge so far. Lines that cannot be read are passed over."""
    out = {}
    with (
        contextlib.suppress(FileNotFoundError),
        open(os.path.join(directory, REWRITTEN), encoding="ascii", errors="replace") as f,
    ):
        for line in f.read().split("\n"):
            old, _, new = line.partition(" ")
            if _ID.fullmatch(old) and _ID.fullmatch(new) and old != new:
                out[old] = new
    return out


def latest(table: Mapping[str, str], oid: str) -> str:
    """What stands for a commit id after every purge: itself where none replaced it."""
    for _ in range(len(table)):
        if oid not in table:
            break
        oid = table[oid]
    return oid


def _gap(above: Checkpoint, below: Checkpoint | None, why: Damaged) -> str:
    lost = above.number - 1
    which = (
        f"checkpoint {lost}" if below is None or below.number >= lost - 1 else f"checkpoints {below.number + 1}-{lost}"
    )
    rest = "nothing older can be read" if below is None else f"older ones, from {below.number} down, can"
    return f"{which} cannot be read: {why.message}; {rest}"
