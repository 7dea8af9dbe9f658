"""What the files become: a selection's moves merged into the present files, and what of it is in the way.

Pure: the present files, the merge of one path and the selection are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from checkpointer.errors import Conflict, NothingToDo
from checkpointer.workspace.checkpoint import Operation, Paths, Segment
from checkpointer.workspace.entry import Entry, parents, show
from checkpointer.workspace.undoing.conflict import InTheWay, blame, refusal
from checkpointer.workspace.undoing.merge import Merged
from checkpointer.workspace.undoing.moves import Move
from checkpointer.workspace.undoing.obstacle import Mode
from checkpointer.workspace.undoing.plan import never_held
from checkpointer.workspace.undoing.selection import Selection
from checkpointer.workspace.undoing.timeline import Timeline
from checkpointer.workspace.undoing.units import Change

Merge = Callable[[Entry | None, Entry | None, Entry | None], Merged]
Result = dict[bytes, Entry | None]

_DIRECTORY = Entry("dir", b"", 0o755)


class Resolution(NamedTuple):
    """What is to be written: `result` names every path that becomes something else (None: it goes).

    `written`, `removed` and `merged` (a part of written) are those paths by kind of work, `skipped` the paths left as
    they are, `impossible` those that even force has to leave. `operation` is what the new checkpoint records.
    With `conflicts` in plain mode nothing may be written: raise `refusal()`.
    """

    selection: Selection
    mode: Mode
    result: Mapping[bytes, Entry | None]
    merged: tuple[bytes, ...]
    skipped: tuple[bytes, ...]
    impossible: tuple[bytes, ...]
    conflicts: tuple[InTheWay, ...]
    operation: Operation
    notes: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[bytes, ...]:
        return tuple(path for path in sorted(self.result) if self.result[path] is not None)

    @property
    def removed(self) -> tuple[bytes, ...]:
        return tuple(path for path in sorted(self.result) if self.result[path] is None)

    def refusal(self) -> Conflict:
        """The error that a plain undo or redo ends in."""
        return refusal(self.selection, self.conflicts, self.impossible)


def resolve(
    selection: Selection,
    present: Callable[[bytes], Entry | None],
    merge: Merge,
    *,
    mode: Mode = "plain",
    inside: Callable[[bytes], Iterable[bytes]] = lambda directory: (),
    obstructed: Mapping[bytes, str] | None = None,
) -> Resolution:
    """Merge the selection into the present files.

    `present` answers for every path, with an entry of kind `socket`, `device` or `uncovered` for what stands there
    and is not covered. `inside` lists the paths below a directory of the present (lazily, in any order).
    `obstructed` are paths that a plan of an earlier resolution found in the way, and why: they stay, even by force.
    Raises `NothingToDo` if everything selected is there only because a later change put it there (rule 7), naming that
    one. Does not raise on a conflict: see `Resolution.refusal`.
    """
    return _Work(selection, present, merge, mode, inside, obstructed or {}).resolution()


class _Work:
    """One resolution in the making."""

    def __init__(
        self,
        selection: Selection,
        present: Callable[[bytes], Entry | None],
        merge: Merge,
        mode: Mode,
        inside: Callable[[bytes], Iterable[bytes]],
        obstructed: Mapping[bytes, str],
    ) -> None:
        self.selection = selection
        self.timeline = selection.timeline
        self.present = present
        self.merge = merge
        self.mode = mode
        self.inside = inside
        self.obstructed = obstructed
        self.result: Result = {}
        self.merged: set[bytes] = set()
        self.skipped: set[bytes] = set()
        self.impossible: set[bytes] = set()
        self.conflicts: dict[bytes, InTheWay] = {}

    def final(self, path: bytes) -> Entry | None:
        return self.result[path] if path in self.result else self.present(path)

    def resolution(self) -> Resolution:
        for path, moves in sorted(self.selection.moves.items()):
            self._move(path, moves)
        while self._settle_structure():
            pass
        taken, left = self._taken()
        if self.selection.verb == "undo":
            self._prune(taken)
        self.result = {path: entry for path, entry in self.result.items() if entry != self.present(path)}
        label, target = self.selection.label, self.selection.target
        return Resolution(
            selection=self.selection,
            mode=self.mode,
            result=self.result,
            merged=tuple(sorted(self.merged & self.result.keys())),
            skipped=tuple(sorted(self.skipped)),
            impossible=tuple(sorted(self.impossible)),
            conflicts=tuple(self.conflicts[path] for path in sorted(self.conflicts)),
            operation=Operation(label, target, compact(self.timeline, taken), compact(self.timeline, left)),
            notes=self.selection.notes,
        )

    # One path.

    def _move(self, path: bytes, moves: Sequence[Move]) -> None:
        entry = self.present(path)
        goal = moves[-1].theirs
        by_line = False
        for base, theirs in moves:
            if theirs == base or entry == theirs:
                continue
            stuck = self.obstructed.get(path) or never_held(entry) or never_held(theirs)
            if stuck:
                self._in_the_way(path, stuck, impossible=True)
                return
            merged = self.merge(base, entry, theirs)
            if merged.why:
                self._in_the_way(path, merged.why, merged.lines, goal)
                return
            entry, by_line = merged.entry, by_line or merged.by_line
        if entry != self.present(path):
            self.result[path] = entry
        if by_line:
            self.merged.add(path)

    def _in_the_way(
        self,
        path: bytes,
        why: str,
        lines: tuple[tuple[int, int], ...] = (),
        goal: Entry | None = None,
        *,
        impossible: bool = False,
        because: bytes | None = None,
    ) -> None:
        """What a conflict at this path comes to: `goal` by force, else it stays as it is."""
        if self.mode == "force" and not impossible:
            if never_held(goal):
                self._in_the_way(path, never_held(goal), impossible=True)
                return
            if goal != self.present(path):
                self.result[path] = goal
            return
        self.result.pop(path, None)
        if impossible:
            self.impossible.add(path)
        if self.mode == "plain":
            by, at = blame(self.selection, path if because is None else because)
            self.conflicts.setdefault(path, InTheWay(path, why, lines, by, at))
        else:
            self.skipped.add(path)

    # What stands above and below.

    def _settle_structure(self) -> bool:
        """Make the result one that can stand on a disk; true if anything had to change.

        What must stand in a directory is looked at first, so that no later look takes that directory away again.
        """
        kept = [path for path in sorted(self.result) if self.result[path] is not None]
        changed = [path for path in kept if self._parents_change(path)]
        if not changed:
            changed = [path for path in kept if self._holds_more(path)]
        return bool(changed) or self._some_stay()

    def _some_stay(self) -> bool:
        """A directory that is to go although something remains in it stays: no conflict."""
        occupied = self._occupied()
        staying = []
        for path in sorted((p for p, e in self.result.items() if e is None), key=lambda p: -p.count(b"/")):
            entry = self.present(path)
            if entry is not None and entry.kind == "dir" and not self._empties(path, occupied):
                del self.result[path]
                staying.append(path)
        return bool(staying)

    def _occupied(self) -> set[bytes]:
        """The directories in which the result puts something."""
        return {top for path, entry in self.result.items() if entry is not None for top in parents(path)}

    def _empties(self, directory: bytes, occupied: set[bytes]) -> bool:
        return directory not in occupied and not any(True for _ in self._remaining(directory))

    def _remaining(self, directory: bytes) -> Iterator[bytes]:
        """What stands below a directory now and stays."""
        return (p for p in self.inside(directory) if p != directory and self.final(p) is not None)

    def _parents_change(self, path: bytes) -> bool:
        """Everything above a path that is to stand must be a directory; true if that had to be seen to."""
        changed = False
        for top in parents(path):
            entry = self.final(top)
            if entry is not None and entry.kind == "dir":
                continue
            changed = True
            if entry is None:
                was = self.present(top)
                if was is not None and was.kind == "dir":
                    del self.result[top]
                else:
                    self.result[top] = self._directory(top)
            elif self.mode == "force" and not never_held(entry):
                self.result[top] = self._directory(top)
            else:
                why = f"{show(top)} is not a directory any more"
                self._in_the_way(path, why, impossible=bool(never_held(entry)), because=top)
                break
        return changed

    def _holds_more(self, path: bytes) -> bool:
        """A directory must give way to something else at its path, but holds what nobody asked to take away."""
        wanted, entry = self.result[path], self.present(path)
        if wanted is None or wanted.kind == "dir" or entry is None or entry.kind != "dir":
            return False
        more = list(self._remaining(path))
        if not more:
            return False
        stuck = [other for other in more if never_held(self.present(other))]
        if self.mode == "force" and not stuck:
            self.result.update(dict.fromkeys(more))
        else:
            why = f"it is a directory now and holds {show((stuck or more)[0])}"
            self._in_the_way(path, why, impossible=bool(stuck), because=(stuck or more)[0])
        return True

    def _directory(self, path: bytes) -> Entry:
        """The directory as it was before it was taken away."""
        for _, before, after in self.timeline.history(path):
            if before is not None and before.kind == "dir" and (after is None or after.kind != "dir"):
                return before
        return _DIRECTORY

    def _prune(self, taken: Sequence[Change]) -> None:
        """A directory whose making was taken back while something was still in it goes with the last of that."""
        keys = {change.key for change in taken}
        gone = {top for path, entry in self.result.items() if entry is None for top in parents(path)}
        occupied = self._occupied()
        for top in sorted(gone, key=lambda path: -path.count(b"/")):
            entry = self.final(top)
            if top in self.result or entry is None or entry.kind != "dir":
                continue
            if self._empties(top, occupied) and not self._asked_for(top, keys):
                self.result[top] = None

    def _asked_for(self, directory: bytes, taken: set[tuple[Segment, bytes]]) -> bool:
        """Would the directory be there if what is taken back had never happened?"""
        touches = list(self.timeline.history(directory))
        there = touches[-1].before if touches else self.present(directory)
        for end, _, after in reversed(touches):
            if end.kind in ("undo", "redo"):
                continue
            change = self.timeline.change_at(end, directory)
            if change is None or (change.key not in taken and self.timeline.state_of(change) != "back"):
                there = after
        return there is not None and there.kind == "dir"

    # What is recorded.

    def _taken(self) -> tuple[list[Change], list[Change]]:
        """The changes the operation takes, and those it leaves."""
        selection = self.selection
        if selection.verb == "redo" and not selection.named:
            return list(selection.taken), list(selection.left)
        out = self.skipped | self.conflicts.keys()
        if selection.verb == "redo":
            taken, left = list(selection.taken), list(selection.left)
        else:
            taken = [change for change in selection.taken if change.path not in out]
            skipped = [change for change in selection.taken if change.path in self.skipped]
            left = [change for change in skipped if self.timeline.state_of(change) == "open"]
        stays = self._stays_open(taken)
        nothing = all(self.final(path) == self.present(path) for path in self.result)
        if stays and len(stays) == len(taken) and nothing and not self.conflicts:
            unit = list(stays.values())[-1]
            verb = selection.verb
            raise NothingToDo(
                f"nothing to {verb}: {selection.label} is there already, because of {unit} which came later",
                kept="nothing was written",
                next=[f"ckpt undo {unit}"] if unit.startswith("t") else ["ckpt undo"],
            )
        return [change for change in taken if change.key not in stays], left

    def _stays_open(self, taken: Sequence[Change]) -> dict[tuple[Segment, bytes], str]:
        """Rule 7: the changes whose path does not change now and over which a later open change stands, and of which
        unit that is."""
        same = [change for change in taken if self.final(change.path) == self.present(change.path)]
        if not same:
            return {}
        keys = {change.key for change in taken}
        paths = {change.path for change in same}
        first = min(change.segment for change in same)
        later: dict[bytes, tuple[Segment, str]] = {}
        for unit in self.timeline.units:
            for segment in unit.segments:
                if segment <= first or self.timeline.taken_whole(segment):
                    continue
                for other in self.timeline.changes(segment):
                    open_ = other.path in paths and other.key not in keys and self.timeline.state_of(other) == "open"
                    if open_ and (other.path not in later or later[other.path][0] < segment):
                        later[other.path] = (segment, unit.handle)
        return {c.key: later[c.path][1] for c in same if c.path in later and later[c.path][0] > c.segment}


def compact(timeline: Timeline, changes: Iterable[Change]) -> tuple[tuple[Segment, Paths], ...]:
    """Changes as an operation records them: by segment, None for every one of a segment's changes."""
    by_segment: dict[Segment, set[bytes]] = {}
    for change in changes:
        by_segment.setdefault(change.segment, set()).add(change.path)
    out: list[tuple[Segment, Paths]] = []
    for segment, paths in sorted(by_segment.items()):
        whole = len(paths) == len(timeline.diff(segment.before, segment.after))
        out.append((segment, None if whole else tuple(sorted(paths))))
    return tuple(out)
