"""A workspace: the files of one directory and the store that holds their checkpoints, behind one lock."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from checkpointer import disk
from checkpointer.errors import CheckpointerError, ReadOnlyStore
from checkpointer.workspace import exposed
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.checkpoint import By, Checkpoint, CheckpointKind, Meta, Operation
from checkpointer.workspace.entry import Entry
from checkpointer.workspace.facts import Facts
from checkpointer.workspace.locking import WorkspaceLock
from checkpointer.workspace.outcome import Saved, Settled
from checkpointer.workspace.project.gitdir import git_above
from checkpointer.workspace.reading.table import Table
from checkpointer.workspace.restoring import rootdir
from checkpointer.workspace.restoring.leftovers import but_for_temporaries
from checkpointer.workspace.shadow.recollection import facts_of
from checkpointer.workspace.shadow.store import Store
from checkpointer.workspace.trees.tree import diff

if TYPE_CHECKING:
    from checkpointer.workspace.odb.objects import Sink
    from checkpointer.workspace.outcome import Outcome
    from checkpointer.workspace.reading.capture import Present
    from checkpointer.workspace.trees.tree import Tree
    from checkpointer.workspace.undoing.obstacle import Mode
    from checkpointer.workspace.undoing.selection import Selector
    from checkpointer.workspace.undoing.timeline import OpenTurn, Timeline

Progress = Callable[[str, int, int | None, int], None]

DEFAULT_LIMIT = 1 << 30
DEFAULT_WAIT = 10.0
_TABLE = "scan/table"


class Workspace:
    """`root` is absolute with links resolved; `directory` holds its store. Opening reads `workspace.toml` only.

    `limit` is the size in bytes above which a file that was never covered is not; `wait` how many seconds a writing
    call waits for the lock; `jobs` how many processes read a large tree, None for as many as pay. `notices` are lines
    for people. Writing raises `Busy`, `ReadOnlyStore`, `NoSpace`, `CaptureFailed`, `Damaged`, `Failed`.
    """

    def __init__(self, root: bytes, directory: Path, *, read_only: bool = False) -> None:
        self.root = root
        self.directory = directory
        self.read_only = read_only
        self.limit = DEFAULT_LIMIT
        self.wait = DEFAULT_WAIT
        self.jobs: int | None = None
        self.notices: list[str] = []
        self.store = Store(directory / "shadow.git", read_only=read_only)
        self.facts = self._facts()
        self._lock = WorkspaceLock(directory / "lock")

    def _facts(self, *, repair: bool = False) -> Facts:
        known, notice = facts_of(self.directory, self.root, self.store, repair=repair)
        self.notices += [notice] if notice else []
        return known

    # -- the lock

    @contextlib.contextmanager
    def locked(self, doing: str, wait: float | None = None) -> Iterator[None]:
        """Hold the workspace lock; within one process it may be taken again by whoever holds it."""
        if self.read_only:
            raise ReadOnlyStore(f"the store can be looked at but not written: {self.directory}")
        nested = self._lock.held
        with self._lock.hold(doing, self.wait if wait is None else wait):
            if not nested:
                self.facts = self._facts(repair=True)
            yield

    @contextlib.contextmanager
    def _all_locked(self, doing: str, others: Sequence[Workspace]) -> Iterator[None]:
        """This lock, and those of workspaces inside this one or around it; always in the same order."""
        with contextlib.ExitStack() as stack:
            for workspace in sorted((self, *others), key=lambda w: os.fspath(w.directory)):
                stack.enter_context(workspace.locked(doing))
            yield

    def branch(self) -> str | None:
        """The project's branch, `detached`, or None without a project git."""
        return git.head() if (git := git_above(self.root)) is not None else None

    def meta(
        self,
        kind: CheckpointKind,
        *,
        runs: Sequence[str] = (),
        steps: Sequence[str] = (),
        label: str | None = None,
        by: By = "person",
        operation: Operation | None = None,
    ) -> Meta:
        """What a checkpoint taken now says beside its files."""
        return Meta(kind, datetime.now(UTC), tuple(runs), tuple(steps), label, self.branch(), by, operation)

    def ignores(self) -> Callable[[bytes, bool], bool]:
        """Asks the ignore rules that hold now: `(path, is_dir) -> bool`."""
        from checkpointer.workspace.rules.ignore import Rules

        return Rules(self.root).ignored

    def look(self, progress: Progress | None = None, must_cover: Collection[bytes] = ()) -> Present:
        """The files as they are now; nothing is written or locked. A directory that is gone is an empty one.

        What a restore that was cut short left of its own is not among them. Raises `CaptureFailed`, `Damaged`.
        """
        from checkpointer.workspace.odb.objects import MemorySink

        sink = MemorySink(self.store.objects)
        if os.path.isdir(self.root):
            present = self._read(self.root, sink, self._table(), must_cover, progress)
            return but_for_temporaries(present, self.store.pending(), sink)
        with rootdir.stand_in(self.store) as root:
            return self._read(root, sink, self._table(empty=True), (), progress)

    def timeline(self, open_turns: Sequence[OpenTurn] = ()) -> Timeline:
        """The timeline as the store has it, without a look at the files.

        `open_turns` are accepted for symmetry with `undo`; what they changed since the newest checkpoint is not in it.
        """
        from checkpointer.workspace.undoing.timeline import fold

        return fold(
            self.store.checkpoints(),
            self.diff,
            had_run=self.facts.had_run,
            first_kept=self.facts.first_kept,
            last_turn=self.facts.last_turn or None,
        )

    def diff(self, a: int, b: int, paths: Sequence[bytes] = ()) -> dict[bytes, tuple[Entry | None, Entry | None]]:
        """What differs from one checkpoint to another, by number."""
        before, after = (self.store.tree(self.store.by_number(number)) for number in (a, b))
        return diff(before, after, paths)

    # -- writing

    def save(
        self,
        *,
        kind: CheckpointKind = "save",
        label: str | None = None,
        runs: Sequence[str] = (),
        steps: Sequence[str] = (),
        by: By = "person",
        progress: Progress | None = None,
    ) -> Saved:
        """A checkpoint of the files as they are now; where nothing changed, the newest one, which then gets the label.

        Finishes first what was cut short: see `Saved.settled`.
        """
        with self.locked(kind):
            rootdir.must_be_there(self.root)
            settled = self.settle(progress)
            before = self.store.tip()
            meta = self.meta(kind, runs=runs, steps=steps, label=label, by=by)
            checkpoint, present = self.capture(meta, progress=progress)
            created = before is None or checkpoint.number != before.number
            if label is not None and checkpoint.meta.label != label:
                self.store.pin(checkpoint.number, label)
                checkpoint = self.store.by_number(checkpoint.number)
            then = present.tree if not created else self.store.salvaged(before) if before is not None else None
            saved = Saved(checkpoint, created, then, present.tree, present, settled)
            self.notices += exposed.look(self.root, self.directory, saved) if created else ()
            return saved

    def capture(
        self, meta: Meta, *, must_cover: Collection[bytes] = (), progress: Progress | None = None
    ) -> tuple[Checkpoint, Present]:
        """Read the files; make a checkpoint of them unless the newest one holds exactly these. The lock is held."""
        tip = self.store.tip()
        table = self._table()
        with self.store.writer() as writer:
            present = self._read(self.root, writer, table, must_cover, progress)
            if tip is not None and tip.tree == present.tree.root.hex():
                checkpoint = tip
                self.store.heal(writer)
            else:
                checkpoint = self.store.commit(writer, present.tree.root, meta, parent=tip)
                self.store.move(checkpoint)
        self._remember(meta)
        with contextlib.suppress(OSError):  # it only saves work
            disk.make_directory(self.directory / "scan")
            table.save()
        with contextlib.suppress(CheckpointerError, OSError):  # the checkpoint is kept, whatever becomes of this
            self.store.consolidate()
        return checkpoint, present

    def _remember(self, meta: Meta) -> None:
        """`workspace.toml` says at once that there was a run: it changes what undo means."""
        if meta.runs and not self.facts.had_run:
            self.facts.had_run = True
            facts_file.save(self.directory, self.facts)

    def settle(self, progress: Progress | None = None) -> Settled | None:
        """Finish an undo, redo or restore that was cut short. What had to be left is in a checkpoint afterwards."""
        with self.locked("finishing what was cut short"):
            if not self.store.is_pending():
                return None
            from checkpointer.workspace.restoring.settle import settle

            settled = settle(self.store, self.root, progress)
            if settled is None:
                return None
            if settled.abandoned:
                self.notices.append(f"the {settled.what} that was cut short was given up: {settled.abandoned}")
                return settled
            self.notices.append(f"the {settled.what} that was cut short is finished now")
            if settled.left:
                self.capture(self.meta("outside"), progress=progress)
            return settled

    def undo(
        self,
        selector: Selector,
        *,
        mode: Mode = "plain",
        dry_run: bool = False,
        by: By = "person",
        open_turns: Sequence[OpenTurn] = (),
        progress: Progress | None = None,
        others: Sequence[Workspace] = (),
    ) -> Outcome:
        """Take back what `selector` names. Raises what `select_undo` and `resolve` do, and `Interfered`.

        `others` are workspaces inside this one or around it: their locks are held too. A bare undo after one that was
        cut short is that one: it is finished, and no further one is made.
        """
        from checkpointer.workspace import travel

        with self._ready("undo", dry_run, others) as settled:
            if settled is not None and settled.checkpoint.kind == "undo" and travel.is_bare(selector):
                return travel.finished(settled)
            return travel.undo(self, selector, mode, dry_run=dry_run, by=by, open_turns=open_turns, progress=progress)

    def redo(
        self,
        selector: Selector,
        *,
        mode: Mode = "plain",
        dry_run: bool = False,
        by: By = "person",
        progress: Progress | None = None,
        others: Sequence[Workspace] = (),
    ) -> Outcome:
        """Take back the newest undo, or apply an undone turn again. As `undo` otherwise."""
        from checkpointer.workspace import travel

        with self._ready("redo", dry_run, others) as settled:
            if settled is not None and settled.checkpoint.kind == "redo" and travel.is_bare(selector):
                return travel.finished(settled)
            return travel.redo(self, selector, mode, dry_run=dry_run, by=by, progress=progress)

    def restore(
        self,
        number: int,
        paths: Sequence[bytes] = (),
        *,
        dry_run: bool = False,
        by: By = "person",
        open_turns: Sequence[OpenTurn] = (),
        progress: Progress | None = None,
        others: Sequence[Workspace] = (),
    ) -> Outcome:
        """Make the files, or these paths and what is below them, exactly as of a checkpoint.

        Raises `Usage`, `TooOld`, `MissingObject` as `History.by_number` does, `NothingToDo` where nothing differs,
        `Usage` for a path that neither the checkpoint nor the present holds, `Conflict`, `Interfered`.
        """
        from checkpointer.workspace import travel

        with self._ready("restore", dry_run, others):
            return travel.restore(self, number, paths, dry_run=dry_run, by=by, open_turns=open_turns, progress=progress)

    def restore_to(
        self, number: int, directory: bytes, paths: Sequence[bytes] = (), progress: Progress | None = None
    ) -> Outcome:
        """Write the files of a checkpoint into another directory, which is made, or is empty. Nothing else is touched.

        Raises `Usage` where it holds anything, as `History.by_number` does, `NoSpace`, `Failed`.
        """
        from checkpointer.workspace import travel

        return travel.restore_to(self.store, number, directory, paths, progress)

    # -- parts

    @contextlib.contextmanager
    def _ready(self, verb: str, dry_run: bool, others: Sequence[Workspace]) -> Iterator[Settled | None]:
        """The locks held and nothing pending; for a dry run, nothing pending."""
        if dry_run:
            pending = self.store.pending()
            if pending is not None:
                raise Settled(pending, 0).refuses_to_look()
            yield None
            return
        with self._all_locked(verb, others):
            settled = self.settle()
            if settled is not None and settled.left:
                raise settled.refuses_to_go_on(verb, self.store.tip())
            yield settled

    def make_root(self) -> bool:
        """Make the workspace directory where it is gone. True if it was made."""
        return rootdir.make(self.root, self.store)

    def _table(self, *, empty: bool = False) -> Table:
        path = self.directory / _TABLE
        return Table(path) if empty else Table.load(path)

    def _read(
        self,
        root: bytes,
        sink: Sink,
        table: Table,
        must_cover: Collection[bytes],
        progress: Progress | None,
    ) -> Present:
        from checkpointer.workspace.reading.capture import capture

        tip = self.store.tip()
        base: Tree | None = self.store.salvaged(tip) if tip is not None else None
        present = capture(
            root,
            # Every store, not ours alone: they all lie there, and that may be inside this workspace.
            store_dir=os.fsencode(
                self.directory.parent if self.directory.parent.name == "workspaces" else self.directory
            ),
            base=base,
            table=table,
            sink=sink,
            limit=self.limit,
            jobs=self.jobs,
            must_cover=must_cover,
            progress=progress,
        )
        self.notices.extend(text for text in present.notices if text not in self.notices)
        return present
