"""One undo, redo or restore from the capture of the present to the move of the timeline: announce, do, confirm."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from checkpointer.errors import CaptureFailed, CheckpointerError, Conflict
from checkpointer.workspace.basis import Basis, strangers
from checkpointer.workspace.checkpoint import By, Checkpoint, CheckpointKind, Operation
from checkpointer.workspace.directories import Directories
from checkpointer.workspace.entry import Entry, parents, show, to_json
from checkpointer.workspace.odb.objects import MemorySink, ObjectType
from checkpointer.workspace.outcome import Outcome
from checkpointer.workspace.reading.listing import FOREIGN
from checkpointer.workspace.restoring.carried import Carried
from checkpointer.workspace.restoring.replacements import Replacement
from checkpointer.workspace.restoring.restore import Carrier, Progress
from checkpointer.workspace.restoring.staging import token_of
from checkpointer.workspace.rules.ignore import Rules
from checkpointer.workspace.trees.tree import Tree, edited
from checkpointer.workspace.undoing.plan import Obstruction, Plan, make_plan

if TYPE_CHECKING:
    from checkpointer.workspace.undoing.timeline import OpenTurn
    from checkpointer.workspace.workspace import Workspace

READABLE_IF_MUST = ("too-large", "unreadable")


class CoverFirst(Exception):
    """Raised by a decision: the content of these paths must be captured before it can be made."""

    def __init__(self, paths: Iterable[bytes]) -> None:
        super().__init__()
        self.paths = frozenset(paths)


class Decision(NamedTuple):
    """What the files shall become: `wanted` by path, None for what goes. The rest is for the record and for people."""

    operation: Operation
    wanted: Mapping[bytes, Entry | None]
    merged: Sequence[bytes] = ()
    skipped: Sequence[bytes] = ()
    conflicts: Sequence[dict[str, Any]] = ()
    notes: Sequence[str] = ()
    lenient: bool = False
    """Leave what cannot give way and do the rest (`--skip`, `--force`), instead of refusing all of it."""
    record_empty: bool = True
    """Make a checkpoint even if no file changes."""
    leaving: Callable[[Mapping[bytes, str]], Decision] | None = None
    """The same decision without these paths (and why), which the plan found in the way; None: it is the same."""


class Scratch(MemorySink):
    """A sink that stores nothing, and remembers the blobs it was given, so that a checkpoint can take them over."""

    def __init__(self, basis: Basis) -> None:
        super().__init__(basis.present.tree.objects)
        self.blobs: dict[bytes, bytes] = {}

    def add(self, type: ObjectType, data: bytes) -> bytes:
        oid = super().add(type, data)
        if type == "blob":
            self.blobs[oid] = data
        return oid


Decide = Callable[[Basis, Scratch], Decision]


class Changeover:
    """One use. With `dry_run` nothing is written at all, and the same errors are raised."""

    def __init__(
        self,
        workspace: Workspace,
        verb: CheckpointKind,
        *,
        dry_run: bool,
        by: By,
        open_turns: Sequence[OpenTurn] = (),
        progress: Progress | None = None,
    ) -> None:
        self.workspace = workspace
        self.verb = verb
        self.dry_run = dry_run
        self.by: By = by
        self.open_turns = open_turns
        self.progress = progress

    def run(self, decide: Decide) -> Outcome:
        """The caller holds the lock (or it is a dry run) and has settled what was pending."""
        with self._directory():
            basis, scratch, decision = self._decided(decide)
            plan = self._planned(basis, scratch, decision)
            if plan.obstructions and decision.leaving is not None:
                decision = decision.leaving({o.path: o.why for o in plan.obstructions})
                plan = self._planned(basis, scratch, decision)
            if self.dry_run or (not plan.changes and not decision.record_empty):
                return self._outcome(basis, decision, plan, None, None)
            try:
                checkpoint = self._announce(basis, scratch, decision, plan)
                carried = self._do(basis, plan, checkpoint)
            except CheckpointerError as e:
                held = f"your files are in checkpoint {basis.newest.number}"
                e.kept = f"{e.kept}; {held}" if e.kept else held
                raise
            self._confirm(checkpoint)
            return self._outcome(basis, decision, plan, checkpoint, carried)

    # -- what is there

    @contextlib.contextmanager
    def _directory(self) -> Any:
        """Make a workspace directory that is gone again; take it away if nothing came of it."""
        made = not self.dry_run and self.workspace.make_root()
        try:
            yield
        except BaseException:
            if made:
                with contextlib.suppress(OSError):
                    os.rmdir(self.workspace.root)
            raise

    def _decided(self, decide: Decide) -> tuple[Basis, Scratch, Decision]:
        must: frozenset[bytes] = frozenset()
        while True:
            basis = self._basis(must)
            scratch = Scratch(basis)
            try:
                decision = decide(basis, scratch)
                self._cover(basis, decision.wanted)
                self._cover_hidden(basis, decision.wanted)
                return basis, scratch, decision
            except CoverFirst as e:
                wanted = must | e.paths
                if wanted == must:
                    listed = ", ".join(show(p) for p in sorted(e.paths))
                    raise CaptureFailed(
                        f"cannot read what would be overwritten: {listed}", kept="nothing was written"
                    ) from None
                must = wanted

    def _basis(self, must: frozenset[bytes]) -> Basis:
        meta = self.workspace.meta(
            "before-restore",
            runs=tuple(dict.fromkeys(turn.run for turn in self.open_turns)),
            steps=tuple(dict.fromkeys(step for turn in self.open_turns for step in turn.steps)),
            by=self.by,
        )
        seen_ns = time.time_ns()
        if self.dry_run:
            present = self.workspace.look(progress=self.progress, must_cover=must)
            return Basis.looked(self.workspace.store, present, meta, seen_ns)
        _, present = self.workspace.capture(meta, must_cover=must, progress=self.progress)
        return Basis(self.workspace.store, self.workspace.store.checkpoints(), present, seen_ns)

    def _cover(self, basis: Basis, paths: Iterable[bytes]) -> None:
        """Nothing is overwritten or deleted that no checkpoint holds. (A dry run changes no mode to read a file.)"""
        unread = basis.unread(paths, ("too-large",) if self.dry_run else READABLE_IF_MUST)
        if unread:
            raise CoverFirst(unread)

    def _cover_hidden(self, basis: Basis, wanted: Mapping[bytes, Entry | None]) -> None:
        """A file that is ignored, or was made meanwhile, where one is to be written: it is the present there."""
        tree = basis.present.tree
        hidden = []
        with contextlib.suppress(OSError), Directories(self.workspace.root) as directories:
            for path in (p for p, w in wanted.items() if w is not None and tree.entry(p) is None):
                with contextlib.suppress(OSError):
                    st = directories.lstat(path)
                    if st is not None and (stat.S_ISREG(st.st_mode) or stat.S_ISLNK(st.st_mode)):
                        hidden.append(path)
        if hidden:
            raise CoverFirst(hidden)

    # -- what must change

    def _planned(self, basis: Basis, scratch: Scratch, decision: Decision) -> Plan:
        tree = basis.present.tree
        changes = {p: (tree.entry(p), w) for p, w in decision.wanted.items() if tree.entry(p) != w}
        mounted = self._mounted(basis, changes)
        plan = make_plan(
            {path: change for path, change in changes.items() if path not in mounted},
            protected=_Protected(self.workspace.root, basis, scratch, decision.wanted),
            strangers=lambda directory: strangers(self.workspace.root, tree, directory),
        )
        if mounted:
            plan = plan._replace(obstructions=tuple(sorted((*plan.obstructions, *mounted.values()))))
        if plan.obstructions and not decision.lenient:
            conflicts = [
                {"path": to_json(o.path), "lines": [], "by": "", "at": None, "why": o.why} for o in plan.obstructions
            ]
            first = plan.obstructions[0]
            raise Conflict(
                f"nothing changed: {show(first.path)}: {first.why}",
                kept="every file is as it was",
                next=[
                    f"unmount {show(first.because)}, then again"
                    if first.path in mounted
                    else f"move {show(first.because)} away, then again"
                ],
                conflicts=conflicts,
                files=len(changes),
            )
        return plan

    def _mounted(self, basis: Basis, paths: Iterable[bytes]) -> dict[bytes, Obstruction]:
        """Those of the paths over which another file system is mounted now."""
        uncovered = basis.present.tree.extras.uncovered
        found = {}
        for path in paths if FOREIGN in uncovered.values() else ():
            top = next((p for p in (*parents(path), path) if uncovered.get(p) == FOREIGN), None)
            if top is not None:
                found[path] = Obstruction(path, f"another file system is mounted on {show(top)}", top)
        return found

    # -- announce, do

    def _announce(self, basis: Basis, scratch: Scratch, decision: Decision, plan: Plan) -> Checkpoint:
        store = self.workspace.store
        with store.writer() as writer:
            for entry in plan.result.values():
                if entry is not None and entry.oid in scratch.blobs:
                    writer.add("blob", scratch.blobs[entry.oid])
            root = edited(basis.present.tree, plan.result, writer)
            meta = self.workspace.meta(self.verb, by=self.by, operation=decision.operation)
            checkpoint = store.commit(writer, root, meta, parent=basis.newest)
        store.set_pending(checkpoint)
        return checkpoint

    def _do(self, basis: Basis, plan: Plan, checkpoint: Checkpoint) -> Carried:
        """Replace the files; if that was taken back, nothing is pending any more."""
        store = self.workspace.store
        changes = {path: Replacement(*change) for path, change in plan.changes.items()}
        with Directories(self.workspace.root) as directories:
            carrier = Carrier(
                directories,
                store.objects,
                changes,
                basis.present.signature,
                token_of(checkpoint),
                seen_ns=basis.seen_ns,
                progress=self.progress,
            )
            try:
                return carrier.run()
            except BaseException:
                if carrier.over:
                    store.drop_pending()
                raise

    def _confirm(self, checkpoint: Checkpoint) -> None:
        try:
            self.workspace.store.move(checkpoint)
            self.workspace.store.drop_pending()
        except CheckpointerError as e:
            e.kept = "the files are as asked for; the next command that writes completes the record"
            raise

    def _outcome(
        self, basis: Basis, decision: Decision, plan: Plan, checkpoint: Checkpoint | None, carried: Carried | None
    ) -> Outcome:
        notes = [*decision.notes, *(f"{show(kept.path)} stays: {kept.why}" for kept in plan.kept)]
        kept = {k.path for k in plan.kept}
        if carried is not None:
            kept.update(carried.stayed)
            notes += [f"{show(p)} stays: something was put into it meanwhile" for p in carried.stayed]
            if carried.unlinked:
                names = ", ".join(show(p) for p in carried.unlinked)
                notes.append(f"had further hard links, which keep the old file: {names}")
        written = _named([p for p, w in plan.result.items() if w is not None], plan)
        # What is gone without a successor of its own: a file too that gave way to a directory with something in it.
        gone = plan.result.keys() - set(written) - kept
        removed = [p for p in gone if plan.changes[p][0] is not None]
        obstructed = {o.path for o in plan.obstructions}
        notes += [f"{show(o.path)} is left: {o.why}" for o in plan.obstructions]
        return Outcome(
            verb=self.verb,
            unit=decision.operation.unit,
            checkpoint=checkpoint,
            before=basis.newest.number if not self.dry_run else None,
            written=written,
            removed=_named(removed, plan),
            merged=sorted(p for p in decision.merged if p in plan.result),
            skipped=sorted({*decision.skipped, *obstructed}),
            kept=sorted(kept),
            conflicts=list(decision.conflicts),
            uncovered=basis.present.uncovered,
            notes=notes,
            dry_run=self.dry_run,
        )


def _named(paths: Sequence[bytes], plan: Plan) -> list[bytes]:
    """Without the directories that only come and go with what is in them."""
    above = {p.rpartition(b"/")[0] for p in paths}
    return sorted(p for p in paths if p not in above or not _only_holds(*plan.changes[p]))


def _only_holds(old: Entry | None, new: Entry | None) -> bool:
    """Is this a directory that came or went? One that was there before and after has changed itself."""
    kinds = {entry.kind if entry is not None else None for entry in (old, new)}
    return "dir" in kinds and len(kinds) > 1


class _Protected:
    """Is a path ignored by the rules that hold now, or by those that will hold afterwards?"""

    def __init__(self, root: bytes, basis: Basis, scratch: Scratch, wanted: Mapping[bytes, Entry | None]) -> None:
        self._root = root
        self._basis = basis
        self._scratch = scratch
        self._wanted = wanted
        self._rules: Rules | None = None

    def __call__(self, path: bytes, is_dir: bool) -> bool:
        return self._basis.present.ignored(path, is_dir) or self._then().ignored(path, is_dir)

    def _then(self) -> Rules:
        if self._rules is None:
            wanted = {p: e for p, e in self._wanted.items() if e is None or e.kind in ("file", "link", "dir", "fifo")}
            tree = Tree(
                self._scratch,
                edited(self._basis.present.tree, wanted, self._scratch),
                "the result",
                self._basis.present.tree.decoded,
            )
            self._rules = Rules(self._root, read=lambda path: _plain(tree, path))
        return self._rules


def _plain(tree: Tree, path: bytes) -> bytes | None:
    entry = tree.covered(path)
    return tree.read(path) if entry is not None and entry.kind == "file" else None
