"""Travel through a workspace's history: undo, redo, restore, and writing a checkpoint elsewhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from checkpointer import disk
from checkpointer.errors import MissingObject, NothingToDo, Usage
from checkpointer.workspace.basis import Basis
from checkpointer.workspace.changeover import READABLE_IF_MUST, Changeover, CoverFirst, Decision, Scratch
from checkpointer.workspace.checkpoint import By, Operation
from checkpointer.workspace.directories import Directories
from checkpointer.workspace.doubt import once_more
from checkpointer.workspace.entry import below, parents, show
from checkpointer.workspace.outcome import Outcome, Settled
from checkpointer.workspace.restoring.replacements import Replacement
from checkpointer.workspace.restoring.restore import Carrier, Progress
from checkpointer.workspace.shadow.takenout import taken_out
from checkpointer.workspace.trees.tree import Tree, diff
from checkpointer.workspace.undoing.merge import Merger
from checkpointer.workspace.undoing.obstacle import Mode
from checkpointer.workspace.undoing.resolution import Resolution, resolve
from checkpointer.workspace.undoing.selection import Selection, Selector, select_redo, select_undo

if TYPE_CHECKING:
    from checkpointer.workspace.shadow.store import Store
    from checkpointer.workspace.undoing.timeline import OpenTurn
    from checkpointer.workspace.workspace import Workspace


def is_bare(selector: Selector) -> bool:
    """Does it ask for whatever is the newest?"""
    return selector.first is None and not selector.paths and not selector.newest_step


def finished(settled: Settled) -> Outcome:
    """The outcome of an operation that was cut short and is finished now."""
    operation = settled.checkpoint.meta.operation
    return Outcome(
        verb=settled.checkpoint.kind,
        unit=operation.unit if operation is not None else "",
        checkpoint=settled.checkpoint,
        before=settled.before,
        written=list(settled.written),
        removed=list(settled.removed),
        kept=list(settled.stayed),
        notes=[f"this was the {settled.what} that had been cut short, finished now"],
        settled=settled,
    )


@once_more
def undo(
    workspace: Workspace,
    selector: Selector,
    mode: Mode,
    *,
    dry_run: bool,
    by: By,
    open_turns: Sequence[OpenTurn],
    progress: Progress | None,
) -> Outcome:
    cut_off: list[OpenTurn] = []
    if mode != "force" and not dry_run and not all(turn.alive for turn in open_turns):
        # Nobody knows whose the changes after an agent's death are: refuse before a checkpoint says that they are its.
        undo(workspace, selector, mode, dry_run=True, by=by, open_turns=open_turns, progress=progress)
        # From here on their steps are nobody's; that they were cut off is still said.
        cut_off = [turn._replace(steps=()) for turn in open_turns if not turn.alive]
        open_turns = [turn for turn in open_turns if turn.alive]

    def decide(basis: Basis, scratch: Scratch) -> Decision:
        lost = basis.lost()
        with _but_for(lost):
            selection = select_undo(
                basis.timeline(workspace.facts),
                selector,
                mode=mode,
                open_turns=[*open_turns, *cut_off],
                head=workspace.branch(),
                lost=lost,
            )
        return _decided(workspace.root, basis, scratch, selection, mode, dry_run)

    changeover = Changeover(workspace, "undo", dry_run=dry_run, by=by, open_turns=open_turns, progress=progress)
    return changeover.run(decide)


@once_more
def redo(
    workspace: Workspace, selector: Selector, mode: Mode, *, dry_run: bool, by: By, progress: Progress | None
) -> Outcome:
    def decide(basis: Basis, scratch: Scratch) -> Decision:
        lost = basis.lost()
        with _but_for(lost):
            timeline = basis.timeline(workspace.facts)
            selection = select_redo(timeline, selector, mode=mode, head=workspace.branch(), lost=lost)
        return _decided(workspace.root, basis, scratch, selection, mode, dry_run)

    return Changeover(workspace, "redo", dry_run=dry_run, by=by, progress=progress).run(decide)


@contextlib.contextmanager
def _but_for(lost: Collection[int]) -> Iterator[None]:
    """That there is nothing to do is not the truth where checkpoints were lost."""
    try:
        yield
    except NothingToDo as e:
        if not lost:
            raise
        numbers = ", ".join(str(number) for number in sorted(lost))
        raise MissingObject(
            f"{e.message}; but checkpoint {numbers} cannot be read any more, and what it began is not known",
            kept=e.kept or "nothing was written",
            next=(*e.next, "ckpt verify"),
        ) from e


def _decided(
    root: bytes,
    basis: Basis,
    scratch: Scratch,
    selection: Selection,
    mode: Mode,
    dry_run: bool,
    obstructed: Mapping[bytes, str] | None = None,
) -> Decision:
    """A selection merged into the files as they are now. Raises `Conflict`, `NothingToDo`."""
    strange = _of_others(root, basis.unread(selection.moves, ("unreadable",)))
    unread = basis.unread(selection.moves, ("too-large",) if dry_run else READABLE_IF_MUST) - strange.keys()
    if unread:
        raise CoverFirst(unread)
    obstructed = {**_unread_then(basis, selection), **strange, **(obstructed or {})}
    merger = Merger(scratch, scratch.add)

    def resolved(mode: Mode) -> Resolution:
        return resolve(
            selection, basis.present.tree.entry, merger, mode=mode, inside=basis.inside, obstructed=obstructed
        )

    resolution = resolved(mode)
    if resolution.conflicts and mode == "plain":
        raise resolution.refusal()
    notes = list(resolution.notes)
    conflicts = [conflict.to_json() for conflict in resolution.conflicts]
    if mode != "plain":
        would = resolved("plain")
        conflicts = [c.to_json() for c in would.conflicts if mode == "skip" or c.path in resolution.impossible]
        forced = [c for c in would.conflicts if mode == "force" and c.path not in resolution.impossible]
        for conflict in forced:
            where = f"checkpoint {basis.newest.number}"
            notes.append(f"{show(conflict.path)} had later changes ({conflict.by}); as it was, it is in {where}")
    return Decision(
        operation=resolution.operation,
        wanted=resolution.result,
        merged=resolution.merged,
        skipped=resolution.skipped,
        conflicts=conflicts,
        notes=notes,
        lenient=mode != "plain",
        leaving=(lambda found: _decided(root, basis, scratch, selection, mode, dry_run, found))
        if mode != "plain"
        else None,
    )


def _of_others(root: bytes, paths: Collection[bytes]) -> dict[bytes, str]:
    """Those of the paths that cannot be read now, and that we cannot give ourselves the right to read: whatever is
    decided, nobody could keep what they hold.
    """
    found: dict[bytes, str] = {}
    if not paths or os.geteuid() == 0:
        return found
    for path in paths:
        for one in (*parents(path), path):
            with contextlib.suppress(OSError):
                st = os.lstat(os.path.join(root, one))
                mine = st.st_uid == os.geteuid()
                way = os.R_OK if one == path else os.X_OK
                if not mine and not os.access(os.path.join(root, one), way):
                    found[path] = f"{show(one)} belongs to another user and cannot be read, so it cannot be kept"
    return found


def _unread_then(basis: Basis, selection: Selection) -> dict[bytes, str]:
    """Paths that could not be read right after a selected change and hold something else now than was known then.

    The change then took back would be that of the mode alone, and what was written would pass for untouched.
    """
    found = {}
    for change in selection.taken:
        then = basis.tree(change.segment.after)
        unread = then.extras.uncovered.get(change.path) == "unreadable"
        if unread and _contents(then, change.path) != _contents(basis.present.tree, change.path):
            found[change.path] = f"it could not be read after {change.step}, so what changed in it is not known"
    return found


def _contents(tree: Tree, path: bytes) -> dict[bytes, object]:
    entry = tree.entry(path)
    if entry is None or entry.kind != "dir":
        return {path: entry and entry.content}
    return {below: e.content for below, e in tree.walk(path)}


@once_more
def restore(
    workspace: Workspace,
    number: int,
    paths: Sequence[bytes],
    *,
    dry_run: bool,
    by: By,
    open_turns: Sequence[OpenTurn],
    progress: Progress | None,
) -> Outcome:
    """See `Workspace.restore`."""
    target = workspace.store.by_number(number)
    label = f"restore {number}"
    if paths:
        label += " " + " ".join(show(p) for p in paths[:3]) + (" ..." if len(paths) > 3 else "")

    def decide(basis: Basis, scratch: Scratch) -> Decision:
        then = workspace.store.tree(target)
        _known(paths, then, basis)
        changes = diff(basis.present.tree, then, paths)
        taken = [path for at, path in taken_out(workspace.store.directory) if number <= at]
        spared = [p for p, (_, after) in changes.items() if after is None and any(below(p, top) for top in taken)]
        for path in spared:  # it may well have been there: no checkpoint says so any more
            del changes[path]
        if not changes:
            raise NothingToDo(
                f"nothing to restore: every file is as of checkpoint {number} already", kept="nothing was written"
            )
        notes = []
        if spared:
            notes.append(f"purged from checkpoint {number}, so left as it is: {' '.join(show(p) for p in spared[:8])}")
        files = [p for p, (now, _) in changes.items() if now is None or now.kind != "dir"]
        for words, unprotected in (("what no agent did", False), ("what an agent did unprotected, or you", True)):
            others = basis.nobodys(number, files, unprotected=unprotected)
            if others:
                more = f" and {len(others) - 8} more" if len(others) > 8 else ""
                notes.append(f"among it {words}: {' '.join(show(p) for p in others[:8])}{more}")
        return Decision(
            operation=Operation(label, number),
            wanted={path: after for path, (_, after) in changes.items()},
            notes=notes,
            record_empty=False,
        )

    changeover = Changeover(workspace, "restore", dry_run=dry_run, by=by, open_turns=open_turns, progress=progress)
    return changeover.run(decide)


def _known(paths: Sequence[bytes], then: Tree, basis: Basis) -> None:
    for path in paths:
        if path and then.entry(path) is None and basis.present.tree.entry(path) is None:
            raise NothingToDo(
                f"{show(path)} is neither in {then.name} nor among the files now",
                kept="nothing was written",
                next=(f"ckpt log -- {show(path)}",),
            )


def restore_to(
    store: Store, number: int, directory: bytes, paths: Sequence[bytes], progress: Progress | None
) -> Outcome:
    """See `Workspace.restore_to`."""
    checkpoint = store.by_number(number)
    tree = store.tree(checkpoint)
    wanted = {p: e for p, e in tree.walk() if not paths or any(below(p, top) for top in paths)}
    for path in [*wanted]:
        while path:  # directories above a chosen path
            path = path.rpartition(b"/")[0]
            entry = tree.entry(path)
            if entry is not None:
                wanted.setdefault(path, entry)
    if paths and not wanted.keys() - {b""}:
        raise NothingToDo(f"checkpoint {number} holds none of these paths", kept="nothing was written")
    if b".git" in os.path.abspath(directory).split(b"/"):
        raise Usage(f"{show(directory)} is in a .git: nothing is ever written there", kept="nothing was written")
    made = _empty(directory)
    try:
        with Directories(directory) as directories:
            mode = os.fstat(directories.root).st_mode & 0o7777
            top = wanted.pop(b"", None)
            changes = {p: Replacement(None, e) for p, e in wanted.items()}
            if top is not None and made:
                changes[b""] = Replacement(top._replace(mode=mode), top)
            Carrier(directories, store.objects, changes, lambda path: None, checkpoint.id[:12], progress=progress).run()
    except BaseException:
        if made:
            os.rmdir(directory)
        raise
    return Outcome(
        verb="restore",
        unit=f"restore {number}",
        written=sorted(p for p, e in wanted.items() if e.kind != "dir"),
        uncovered={p: r for p, r in tree.extras.uncovered.items() if not paths or any(below(p, t) for t in paths)},
    )


def _empty(directory: bytes) -> bool:
    """Make the directory if it is not there; True if it was made. Raises `Usage` where it holds anything."""
    try:
        if os.listdir(directory):
            raise Usage(f"{show(directory)} is not empty", kept="nothing was written", next=("another directory",))
        return False
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        raise Usage(f"{show(directory)} is not a directory", kept="nothing was written") from None
    with disk.plain_errors(show(directory)):
        os.makedirs(os.path.dirname(os.path.abspath(directory)), exist_ok=True)
        disk.make_directory(directory, mode=0o755)
    return True
