"""What undo takes back: turns, restores and a person's edits, the steps in each, and the stretches they own.

Everything here is read off the checkpoints of a timeline, oldest first. An interval lies between neighbouring
checkpoints and is named by the one that ends it: that one's meta says who owns it. Neighbouring intervals that share a
step are one segment; steps that shared an interval are one step, since nobody can tell which of them wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from checkpointer.errors import Damaged
from checkpointer.workspace.checkpoint import OPERATIONS, Checkpoint, Segment
from checkpointer.workspace.entry import Entry

UnitKind = Literal["turn", "restore", "edit"]
State = Literal["open", "back", "left"]
OUTSIDE = "outside any agent"
"""How an interval of nobody's is called."""
UNPROTECTED = "not protected then: an agent's or yours"
"""How one is called in which an agent was at work that nothing could be kept of."""


class Handle(NamedTuple):
    """A turn and, unless the turn is known only by its ends, one step of it."""

    turn: int
    step: int | None

    def __str__(self) -> str:
        return f"t{self.turn}" if self.step is None else f"t{self.turn}.{self.step}"


def parse_handle(text: str) -> Handle:
    """`t3.2` or `t3`. Raises `Damaged` on anything else: handles in checkpoints are written by us."""
    match = re.fullmatch(r"t(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise Damaged(f"not a step's handle: {text}")
    return Handle(int(match[1]), int(match[2]) if match[2] else None)


def join_handles(handles: Iterable[Handle]) -> str:
    """`t3.2`, `t3.2+3` for steps of one turn that overlapped, `t3.2+t4.1` for steps of several turns."""
    ordered = sorted(handles, key=lambda h: (h.turn, h.step or 0))
    words = [str(ordered[0])]
    for before, handle in pairwise(ordered):
        words.append(str(handle.step) if handle.turn == before.turn and handle.step else str(handle))
    return "+".join(words)


class Change(NamedTuple):
    """One path in one segment: what stood there before it and after it. Segment and path are its identity."""

    unit: str
    step: str
    segment: Segment
    path: bytes
    before: Entry | None
    after: Entry | None

    @property
    def key(self) -> tuple[Segment, bytes]:
        return self.segment, self.path


class Step(NamedTuple):
    """One tool call, or several that overlapped; for a restore or an edit the only step there is.

    `segments` are oldest first; there are several where an undo, redo or restore was made while the step was open.
    `runs` are the runs that were at work, `crowded` those of an interval in which there was more than one.
    `exact` is false for a turn known only by its ends: others may have written what it owns.
    """

    handle: str
    segments: tuple[Segment, ...]
    handles: frozenset[Handle] = frozenset()
    runs: frozenset[str] = frozenset()
    crowded: frozenset[str] = frozenset()
    exact: bool = True

    @property
    def last(self) -> int:
        return self.segments[-1].after


class Unit(NamedTuple):
    """A turn (`t3`), a restore (`restore 17`) or, before the first run, one interval of edits (`edit 5`).

    `first` and `last` are the numbers of the checkpoints right before it and right after it. A step that overlapped
    with one of another turn is in both turns. `runs` is empty for what a person did.
    """

    handle: str
    kind: UnitKind
    steps: tuple[Step, ...]
    turn: int | None = None
    runs: frozenset[str] = frozenset()

    @property
    def first(self) -> int:
        return min(step.segments[0].before for step in self.steps)

    @property
    def last(self) -> int:
        return max(step.last for step in self.steps)

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(sorted(segment for step in self.steps for segment in step.segments))


class _Stretch:
    """Neighbouring intervals of the same steps, of one operation, or one interval of nobody's."""

    __slots__ = ("crowded", "end", "handles", "runs", "segment")

    def __init__(
        self, segment: Segment, end: Checkpoint, handles: set[Handle], runs: set[str], crowded: set[str]
    ) -> None:
        self.segment = segment
        self.end = end
        self.handles = handles
        self.runs = runs
        self.crowded = crowded


def _owners(checkpoint: Checkpoint) -> set[Handle]:
    """The steps that own the interval ending here: a turn known by its ends owns only what no step owns."""
    if checkpoint.kind in OPERATIONS:
        return set()
    handles = {parse_handle(text) for text in checkpoint.meta.steps}
    return {h for h in handles if h.step is not None} or handles


def _stretches(checkpoints: Sequence[Checkpoint]) -> list[_Stretch]:
    out: list[_Stretch] = []
    for start, end in pairwise(checkpoints):
        handles = _owners(end)
        crowd = set(end.meta.runs) if len(end.meta.runs) > 1 and handles else set()
        if out and handles & out[-1].handles:
            last = out[-1]
            last.segment, last.end = Segment(last.segment.before, end.number), end
            last.handles |= handles
            last.runs |= set(end.meta.runs)
            last.crowded |= crowd
        else:
            out.append(_Stretch(Segment(start.number, end.number), end, handles, set(end.meta.runs), crowd))
    return out


def _steps(stretches: Sequence[_Stretch]) -> list[Step]:
    """Stretches that share a handle, directly or through others, are one step."""
    group_of: dict[Handle, list[_Stretch]] = {}
    for stretch in stretches:
        joined = [stretch]
        for group in {id(group_of[h]): group_of[h] for h in stretch.handles if h in group_of}.values():
            joined += group
        for member in joined:
            group_of.update(dict.fromkeys(member.handles, joined))
    return sorted(
        (_step(group) for group in {id(group): group for group in group_of.values()}.values()),
        key=lambda step: (step.last, step.segments[0]),
    )


def _step(group: Sequence[_Stretch]) -> Step:
    handles = frozenset[Handle]().union(*(s.handles for s in group))
    return Step(
        handle=join_handles(handles),
        segments=tuple(sorted(s.segment for s in group)),
        handles=handles,
        runs=frozenset[str]().union(*(s.runs for s in group)),
        crowded=frozenset[str]().union(*(s.crowded for s in group)),
        exact=all(h.step is not None for h in handles),
    )


def _runs_of_turns(checkpoints: Sequence[Checkpoint]) -> dict[int, frozenset[str]]:
    """Which run each turn belongs to. An interval names turns and runs together, so the answer is what is left when
    all its intervals are laid over each other; several where two runs never worked apart."""
    known: dict[int, frozenset[str]] = {}
    together: list[tuple[set[int], frozenset[str]]] = []
    for checkpoint in checkpoints[1:]:
        turns = {handle.turn for handle in _owners(checkpoint)}
        runs = frozenset(checkpoint.meta.runs)
        together.append((turns, runs))
        for turn in turns:
            known[turn] = known.get(turn, runs) & runs or runs
    for turns, runs in together:
        if len(turns) == len(runs) > 1:
            settled = frozenset().union(*(known[t] for t in turns if len(known[t]) == 1))
            for turn in turns:
                if len(known[turn]) > 1:
                    known[turn] = known[turn] - settled or known[turn]
    return known


def had_a_run(checkpoints: Sequence[Checkpoint]) -> bool:
    return any(checkpoint.meta.runs or checkpoint.meta.steps for checkpoint in checkpoints)


def gather(checkpoints: Sequence[Checkpoint], *, edits: bool) -> tuple[Unit, ...]:
    """Every unit of these checkpoints (oldest first, neighbours in time), in the order of their last change.

    `edits` asks for a person's intervals too, as it is until the first run. Raises `Damaged` on an unreadable handle.
    """
    stretches = _stretches(checkpoints)
    steps = _steps([s for s in stretches if s.handles])
    runs = _runs_of_turns(checkpoints)
    turns: dict[int, list[Step]] = {}
    for step in steps:
        for turn in {handle.turn for handle in step.handles}:
            turns.setdefault(turn, []).append(step)
    units = [Unit(f"t{turn}", "turn", tuple(own), turn, runs[turn]) for turn, own in turns.items()]
    for stretch in stretches:
        end = stretch.end
        if end.kind == "restore" and end.meta.by == "watch":
            continue  # a run's recovery put back what a cut-off call left: nobody asked for it, and nobody undoes it
        if end.kind == "restore":
            handle = end.meta.operation.unit if end.meta.operation else f"restore {end.number}"
            units.append(Unit(handle, "restore", (Step(handle, (stretch.segment,)),), runs=frozenset(end.meta.runs)))
        elif edits and not stretch.handles and end.kind not in OPERATIONS:
            handle = f"edit {end.number}"
            units.append(Unit(handle, "edit", (Step(handle, (stretch.segment,)),)))
    return tuple(sorted(units, key=lambda unit: (unit.last, unit.first)))
