"""The shadow repository, written to: checkpoints, the ref that leads to the newest, what is pending, what is pinned.

Whoever writes holds the workspace lock. A checkpoint is durable when its pack is, and on the timeline when the ref is:
content before name. Five syncs: the pack, its idx, their directory, the ref, its directory.
"""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime

from checkpointer import disk
from checkpointer.errors import Damaged, Failed, ReadOnlyStore
from checkpointer.workspace.checkpoint import Checkpoint, Meta
from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.odb.reindex import write_index
from checkpointer.workspace.shadow import pins, repository, shallow
from checkpointer.workspace.shadow.commits import encode_commit, in_flight, read_commit
from checkpointer.workspace.shadow.consolidation import consolidate
from checkpointer.workspace.shadow.history import NUMBER, History
from checkpointer.workspace.shadow.refs import break_if_stale
from checkpointer.workspace.shadow.repository import KEEP, OLD, PENDING, TIMELINE

DAMAGE = "damage.log"
PURGING = "purging"
"""Names the paths of a purge until it is done."""
_LOCKS = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock", f"{TIMELINE}.lock")


class Store(History):
    """Reading and writing. Writing raises `ReadOnlyStore`, `NoSpace`, `Failed`, `Busy`, and leaves what was there."""

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        super().__init__(path)
        self.read_only = read_only
        self._token = os.urandom(8).hex()
        self._given = 0
        self._ready = False

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Store:
        """Make the repository, whole or not at all, and open it; an existing one is only opened."""
        repository.make(os.fspath(path))
        return cls(path)

    def _prepare(self) -> None:
        """Before the first write: repair what is ours to repair. Damage that hides checkpoints is noted in a file."""
        if self.read_only:
            raise ReadOnlyStore(f"the store can be looked at but not written: {self.path}", kept="nothing was written")
        if not self._ready:
            with disk.plain_errors("the store"):
                repository.heal(self.path, self.notices)
                self.refs.heal()
                for name in _LOCKS:
                    break_if_stale(os.path.join(self.path, name), self.notices, wait=False)
            self.objects.refresh()
            self._index_again()
            self.objects.distrust_damaged_packs()
            self._shallow_again()
            if os.path.exists(os.path.join(self.directory, PURGING)):
                self.notices.append("a purge was cut short; the same `ckpt purge` again finishes it")
            self._ready = True
            self._drop_stale_keeps()
        tip = self.tip()
        if self.lost is not None:
            self._move_off_damage(tip)

    def _index_again(self) -> None:
        """Make missing and damaged idx files again from their packs, where those are whole."""
        unindexed = sorted(self.objects.unindexed)
        for name in unindexed:
            try:
                write_index(self.objects.pack_directory, name)
                self.notices.append(f"the index of {name} was missing or damaged and is made anew")
            except (Damaged, OSError) as e:
                self.notices.append(f"{name} is damaged: {e}")
        if unindexed:
            self.objects.refresh()

    def _shallow_again(self) -> None:
        """Finish a cut of the timeline that `workspace.toml` knows and the `shallow` file does not (or no longer)."""
        known = {oid for oid in self._cut() if bytes.fromhex(oid) in self.objects}
        if not known <= shallow.load(self.path):
            shallow.save(self.path, known)

    def _move_off_damage(self, tip: Checkpoint | None) -> None:
        """The newest checkpoint is lost: note what the ref said, then let it name the newest one that can be read."""
        number = self.highest_number(tip)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        now_it_is = tip.id if tip else "gone"
        line = f"{now} {TIMELINE} was {self.lost!r}, is {now_it_is}; numbers go on after {number}\n"
        with disk.plain_errors("the store"):
            fd = os.open(
                os.path.join(self.directory, DAMAGE), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            try:
                disk.append(fd, line.encode("utf-8", "backslashreplace"), path=DAMAGE)
            finally:
                os.close(fd)
        self._give_out(number)
        if tip is None:
            self.refs.delete(TIMELINE)
        else:
            self.refs.write(TIMELINE, tip.id)
        self.lost = None
        self._tip = (self._raw_tip(), tip)
        self.notices.append(f"what was lost is noted in {os.path.join(self.directory, DAMAGE)}")

    def writer(self) -> PackWriter:
        """A sink for one checkpoint. Repairs first what can be repaired, with notices."""
        self._prepare()
        return PackWriter(self.objects.directory, self.objects, self._token)

    def next_number(self) -> int:
        """The number that the next checkpoint gets. Numbers are never given out twice."""
        pending = self.pending()
        return max(self.highest_number(self.tip()), self._given, pending.number if pending else 0) + 1

    def _give_out(self, number: int) -> None:
        """Remember the number where a damaged newest checkpoint cannot take it along. A hint: not synced."""
        self._given = max(self._given, number)
        path = os.path.join(self.directory, NUMBER)
        with contextlib.suppress(OSError):
            try:
                fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                disk.make_directory(os.path.dirname(path))
                fd = disk.create(path)
            try:
                # In place: replacing it by name makes some file systems write it out at once.
                os.pwrite(fd, b"%019d\n" % self._given, 0)
            finally:
                os.close(fd)

    def commit(
        self,
        writer: PackWriter,
        root: bytes,
        meta: Meta,
        *,
        number: int | None = None,
        parent: Checkpoint | None,
    ) -> Checkpoint:
        """Add the commit with this root tree and make everything in the writer durable. No ref is moved.

        The time in the returned checkpoint is the stored one, in whole seconds. Raises `Failed` where objects that the
        writer found stored were removed meanwhile (by somebody's `git gc`): taking the checkpoint again then works.
        """
        self._prepare()
        if number is None:
            number = self.next_number()
        self._give_out(number)
        data = encode_commit(number, root.hex(), None if parent is None else parent.id, meta)
        oid = writer.add("commit", data)
        writer.finish()
        self._check(writer)
        return read_commit(self.objects, oid.hex())

    def heal(self, writer: PackWriter) -> None:
        """A capture found what the newest checkpoint holds: what of it was damaged in the store is stored again."""
        if self.objects.doubts and writer.finish() is not None:
            self._let_go()
            self.notices.append("the newest checkpoint was damaged in the store; what it holds is stored again")

    def _check(self, writer: PackWriter) -> None:
        if writer.relied:
            self.objects.refresh()
            gone = sum(oid not in self.objects for oid in writer.relied)
            if gone:
                raise Failed(f"{gone} objects were removed from the store by another program", next=("ckpt save",))

    def move(self, checkpoint: Checkpoint) -> None:
        """The timeline leads to this checkpoint now, durably; then a user's `git gc` may repack what it holds."""
        self._prepare()
        self.refs.write(TIMELINE, checkpoint.id)
        self._tip = (self._raw_tip(), self.named(checkpoint))
        self._let_go()

    def _let_go(self) -> None:
        """Remove the `.keep` files of this object's packs. Those of others stay: their refs may not have moved."""
        mine = f"ckpt {self._token}\n".encode()
        for name in in_flight(self.objects):
            path = os.path.join(self.objects.pack_directory, name + ".keep")
            with contextlib.suppress(OSError), open(path, "rb") as f:  # one that stays costs space at most
                if f.read(100) == mine:
                    disk.remove(path, missing_ok=True)

    def _drop_stale_keeps(self) -> None:
        """Packs of a checkpoint whose maker was killed right after the ref had moved are no longer in flight.

        Packs without a commit (a first checkpoint's) and packs of what never got onto the timeline stay until a gc.
        """
        stale = in_flight(self.objects) & self.objects.packs.keys()
        if not stale:
            return
        chain = {checkpoint.id for checkpoint in self.checkpoints()}
        for name in stale - self.objects.distrusted:
            commits = [oid for oid, _, _ in self.objects.packs[name] if self.objects.kind(oid) == "commit"]
            if commits and all(oid.hex() in chain for oid in commits):
                with disk.plain_errors("the store"):
                    disk.remove(os.path.join(self.objects.pack_directory, name + ".keep"), missing_ok=True)

    def set_pending(self, checkpoint: Checkpoint) -> None:
        """Durably: a restore to this prepared result has begun."""
        self._prepare()
        self.refs.write(PENDING, checkpoint.id)

    def drop_pending(self) -> None:
        """Durably: no restore is under way."""
        self._prepare()
        self.refs.delete(PENDING)

    def pin(self, number: int, label: str | None = None) -> None:
        """Keep a checkpoint for good, and name it. Raises as `by_number` does."""
        self._prepare()
        checkpoint = self.by_number(number)
        self.refs.write(f"{KEEP}{number}", checkpoint.id)
        self._label(number, label, pinned=True)

    def unpin(self, number: int) -> None:
        """Let a pinned checkpoint go when its time has come; without effect where it is not pinned."""
        self._prepare()
        if self.refs.raw(f"{KEEP}{number}") is not None:
            old = next((c for c in self.kept() if c.number == number), None)
            if old is not None:
                self.refs.write(f"{OLD}{number}", old.id)  # a gc decides whether it stays for another reason
            self._label(number, None, pinned=False)
            self.refs.delete(f"{KEEP}{number}")

    def _label(self, number: int, label: str | None, *, pinned: bool) -> None:
        known = pins.load(self.directory)
        if not pinned:
            known.pop(number, None)
        elif label is not None:
            known[number] = (*(name for name in known.get(number, ()) if name != label), label)
        with disk.plain_errors("the store"):
            pins.save(self.directory, known)
        self._tip = self._chain = None

    def consolidate(self) -> None:
        """Bring many small packs into one, where there are enough of them; cheap otherwise."""
        self._prepare()
        consolidate(self.objects, self.notices)
