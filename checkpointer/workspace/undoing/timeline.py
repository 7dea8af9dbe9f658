"""The fold over a workspace's checkpoints: what can be undone, what was, and what can be redone.

Pure: the checkpoints, and a function that tells what differs between two of them, are arguments. The caller appends the
capture of the present files (real or only looked at) as the newest checkpoint where they differ from the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from checkpointer.workspace.checkpoint import Checkpoint, Operation, Paths, Segment
from checkpointer.workspace.entry import Entry
from checkpointer.workspace.undoing.units import OUTSIDE, UNPROTECTED, Change, State, Step, Unit, gather, had_a_run

Diff = Callable[[int, int], Mapping[bytes, tuple[Entry | None, Entry | None]]]
"""What differs between two checkpoints, by number: path -> (first, second)."""

Listed = tuple[tuple[Segment, Paths], ...]


class OpenTurn(NamedTuple):
    """A turn that has not ended, as the run logs tell: its open steps (handles; the turn's own where it is known only
    by its ends), the number they started at, whether its agent lives, whether a driven run executes them now."""

    run: str
    turn: int
    steps: tuple[str, ...]
    since: int
    alive: bool
    executing: bool = False


class Undone(NamedTuple):
    """An undo that has not been redone. Its effect lies between checkpoints `before` and `number`."""

    number: int
    before: int
    operation: Operation
    head: str | None


class Touch(NamedTuple):
    """One interval in which a path changed: between neighbouring checkpoints, the second of which is `end`."""

    end: Checkpoint
    before: Entry | None
    after: Entry | None


class Marks:
    """A set of changes that grows and shrinks by whole segments or by paths, without asking what a segment holds."""

    def __init__(self) -> None:
        self._log: dict[Segment, list[tuple[bool, frozenset[bytes] | None]]] = {}

    def put(self, listed: Listed, inside: bool) -> None:
        for segment, paths in listed:
            entry = (inside, None if paths is None else frozenset(paths))
            if paths is None:
                self._log[segment] = [entry]
            else:
                self._log.setdefault(segment, []).append(entry)

    def holds(self, segment: Segment, path: bytes) -> bool:
        for inside, paths in reversed(self._log.get(segment, ())):
            if paths is None or path in paths:
                return inside
        return False

    def holds_all(self, segment: Segment) -> bool:
        """True only if every change of the segment is in, whatever there are."""
        log = self._log.get(segment, [])
        return bool(log) and log[0] == (True, None) and all(inside for inside, _ in log)

    def segments(self) -> Container[Segment]:
        return self._log.keys()


class Timeline:
    """Units oldest first, their changes and the state of each. Made by `fold` only; never changes."""

    def __init__(
        self, checkpoints: Sequence[Checkpoint], diff: Diff, *, had_run: bool, first_kept: int, last_turn: int | None
    ) -> None:
        self.checkpoints = tuple(checkpoints)
        self._numbers = {checkpoint.number for checkpoint in checkpoints}
        self.had_run = had_run or had_a_run(checkpoints)
        self.first_kept = first_kept
        self.units: tuple[Unit, ...] = gather(checkpoints, edits=not self.had_run)
        seen = max((unit.turn for unit in self.units if unit.turn is not None), default=0)
        self.last_turn = max(seen, last_turn) if last_turn is not None else None
        self.undone: tuple[Undone, ...] = ()
        self._diff = diff
        self._cache: dict[tuple[int, int], Mapping[bytes, tuple[Entry | None, Entry | None]]] = {}
        self._back = Marks()
        self._left = Marks()
        self._owner = {s: (u, step) for u in reversed(self.units) for step in u.steps for s in step.segments}
        self._play()

    def _play(self) -> None:
        undone: dict[int, Undone] = {}
        for before, end in pairwise(self.checkpoints):
            operation = end.meta.operation
            if operation is None or end.kind not in ("undo", "redo"):
                continue
            self._back.put(operation.taken, end.kind == "undo")
            self._left.put(operation.left, end.kind == "undo")
            if end.kind == "undo":
                undone[end.number] = Undone(end.number, before.number, operation, end.meta.head)
            elif operation.target is not None:
                undone.pop(operation.target, None)
        self.undone = tuple(undone.values())

    def diff(self, before: int, after: int) -> Mapping[bytes, tuple[Entry | None, Entry | None]]:
        if (before, after) not in self._cache:
            self._cache[before, after] = self._diff(before, after)
        return self._cache[before, after]

    def changes(self, of: Unit | Step | Segment) -> tuple[Change, ...]:
        """Every change of a unit, a step or a segment, oldest first; by path within a segment. Costs a diff for each
        segment, once."""
        if isinstance(of, Segment):
            owner = self._owner.get(of)
            unit, step = ("", "") if owner is None else (owner[0].handle, owner[1].handle)
            found = self.diff(of.before, of.after)
            return tuple(Change(unit, step, of, path, *found[path]) for path in sorted(found))
        return tuple(change for segment in sorted(of.segments) for change in self.changes(segment))

    def state_of(self, change: Change) -> State:
        if self._back.holds(*change.key):
            return "back"
        return "left" if self._left.holds(*change.key) else "open"

    def state_of_unit(self, unit: Unit) -> State | None:
        """`open` if any of its changes is, else `left` if any is, else `back`; None for a unit without changes."""
        states = set()
        for segment in unit.segments:
            if self._back.holds_all(segment):
                states.add("back")
            else:
                states |= {self.state_of(change) for change in self.changes(segment)}
            if "open" in states:
                return "open"
        if "left" in states:
            return "left"
        return "back" if states else None

    def is_partly_back(self, unit: Unit) -> bool:
        """Was some of it taken back, and some not?"""
        if not any(segment in self._back.segments() for segment in unit.segments):
            return False
        return len({self.state_of(change) == "back" for change in self.changes(unit)}) == 2

    def taken_whole(self, segment: Segment) -> bool:
        """Is all of it known to be taken back, without a look at what it changed?"""
        return self._back.holds_all(segment)

    def listed(self, what: Listed) -> list[Change]:
        """The changes that an operation names. Segments older than the kept end are passed over."""
        out = []
        for segment, paths in what:
            if segment.before not in self._numbers or segment.after not in self._numbers:
                continue
            wanted = None if paths is None else set(paths)
            out += [change for change in self.changes(segment) if wanted is None or change.path in wanted]
        return out

    def turn(self, number: int) -> Unit | None:
        return next((unit for unit in self.units if unit.turn == number), None)

    def in_scope(self, runs: frozenset[str] | None) -> tuple[Unit, ...]:
        """The units of these runs; every unit where no run is named."""
        return tuple(unit for unit in self.units if runs is None or unit.runs & runs)

    def head_after(self, step: Step) -> str | None:
        """The project's branch when the step's last change was captured."""
        return next((c.meta.head for c in self.checkpoints if c.number == step.last), None)

    def redo_list(self, runs: frozenset[str] | None = None) -> tuple[Undone, ...]:
        """The undos that a bare redo would take back, the newest last.

        A step or restore of these runs with any change, after an undo, takes that undo off the list.
        """
        last = self._last_change(runs)
        out = []
        for undone in self.undone:
            if undone.number < last:
                continue
            if runs is not None and not self._belongs(undone, runs):
                continue
            if undone.operation.taken and not any(self._back.holds(*c.key) for c in self.taken_by(undone)):
                continue
            out.append(undone)
        return tuple(out)

    def taken_by(self, undone: Undone) -> list[Change]:
        return self.listed(undone.operation.taken)

    def _belongs(self, undone: Undone, runs: frozenset[str]) -> bool:
        owners = [self._owner.get(s) for s, _ in (*undone.operation.taken, *undone.operation.left)]
        return bool(owners) and all(owner is not None and owner[0].runs & runs for owner in owners)

    def _last_change(self, runs: frozenset[str] | None) -> int:
        oldest = min((undone.number for undone in self.undone), default=None)
        if oldest is None:
            return 0
        segments = [s for u in self.in_scope(runs) if u.kind != "edit" for s in u.segments if s.after > oldest]
        return next((s.after for s in sorted(segments, reverse=True) if self.diff(s.before, s.after)), 0)

    def history(self, path: bytes) -> Iterator[Touch]:
        """The intervals in which this path changed, newest first."""
        for before, end in zip(self.checkpoints[-2::-1], self.checkpoints[:0:-1], strict=False):
            found = self.diff(before.number, end.number).get(path)
            if found is not None:
                yield Touch(end, *found)

    def change_at(self, end: Checkpoint, path: bytes) -> Change | None:
        """The change of this path whose segment holds the interval ending at this checkpoint, if it is a unit's."""
        for segment in self._owner:
            if segment.before < end.number <= segment.after:
                return next((change for change in self.changes(segment) if change.path == path), None)
        return None

    def owner(self, end: Checkpoint) -> str:
        """Whose the interval is that ends at this checkpoint, in words for people."""
        if end.meta.operation is not None and end.kind in ("undo", "redo"):
            return f"{end.kind} of {end.meta.operation.unit}"
        for segment, (_, step) in self._owner.items():
            if segment.before < end.number <= segment.after:
                return step.handle if step.handles or end.kind == "restore" else OUTSIDE
        return UNPROTECTED if end.meta.unprotected else OUTSIDE


def fold(
    checkpoints: Sequence[Checkpoint],
    diff: Diff,
    *,
    had_run: bool = False,
    first_kept: int | None = None,
    last_turn: int | None = None,
) -> Timeline:
    """Fold a timeline's checkpoints, oldest first and neighbours in time (older pinned ones are not among them).

    `had_run`: a run was there once, even if none of its checkpoints is kept. `first_kept` is the oldest checkpoint of
    the timeline, above 1 if older ones were cut. `last_turn` is the newest turn ever numbered, None if not known.
    Raises `Damaged` on a checkpoint whose steps cannot be read.
    """
    kept = first_kept if first_kept is not None else (checkpoints[0].number if checkpoints else 1)
    return Timeline(checkpoints, diff, had_run=had_run, first_kept=kept, last_turn=last_turn)
