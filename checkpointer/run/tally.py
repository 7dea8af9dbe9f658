"""What a run came to: the files that its turns changed, with the undo for just those, and the files that changed
meanwhile in no turn of anybody's. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from checkpointer.workspace.entry import Entry
from checkpointer.workspace.undoing.moves import backward
from checkpointer.workspace.undoing.selection import Selector
from checkpointer.workspace.undoing.timeline import Timeline
from checkpointer.workspace.undoing.units import Change, Unit

Paths = Mapping[bytes, tuple[Entry | None, Entry | None]]


class Tally(NamedTuple):
    """`changed`: path -> (before the turns, as they left it), of the files that differ from what they were before;
    `outside`: path -> (at the first checkpoint, at the last one). `undo` is what to type to take `changed` back.
    """

    changed: Paths
    outside: Paths
    undo: str


def tally(timeline: Timeline, run: str, turns: Sequence[str], before: int, after: int) -> Tally:
    """Of the turns of a run with these handles, oldest first, between two checkpoints; what was undone already is not
    counted.
    """
    units = [unit for unit in timeline.units if unit.handle in turns]
    changes = {c.key: c for unit in units for c in timeline.changes(unit) if timeline.state_of(c) != "back"}
    changed = dict(_to_take_back(timeline, sorted(changes.values(), key=lambda c: c.segment), after))
    whole = timeline.diff(before, after)
    outside = {path: whole[path] for path in _of_nobody(timeline, before, after) if path in whole}
    return Tally(
        changed, {path: outside[path] for path in outside.keys() - changed.keys()}, _undo(timeline, run, units)
    )


def _to_take_back(
    timeline: Timeline, changes: Sequence[Change], after: int
) -> Iterator[tuple[bytes, tuple[Entry | None, Entry | None]]]:
    first: dict[bytes, Change] = {}
    for change in changes:
        first.setdefault(change.path, change)
    for path, moves in backward(changes).items():
        real = [move for move in moves if move.base != move.theirs]
        as_before = len(moves) == 1 and path not in timeline.diff(first[path].segment.before, after)
        if real and not as_before:
            yield path, (moves[-1].theirs, moves[0].base)


def _of_nobody(timeline: Timeline, before: int, after: int) -> set[bytes]:
    """The paths that changed in intervals that are no turn's, no restore's and no undo's."""
    owned = {n for unit in timeline.units for s in unit.segments for n in range(s.before + 1, s.after + 1)}
    found: set[bytes] = set()
    for one, end in pairwise(timeline.checkpoints):
        inside = before <= one.number and end.number <= after
        if inside and end.number not in owned and end.meta.operation is None:
            found |= timeline.diff(one.number, end.number).keys()
    return found


def _undo(timeline: Timeline, run: str, units: Sequence[Unit]) -> str:
    numbers = sorted(unit.turn for unit in units if unit.turn is not None)
    if not numbers:
        return "ckpt undo"
    if len(numbers) == 1:
        newest = next((unit for unit in reversed(timeline.units) if timeline.state_of_unit(unit) == "open"), None)
        return "ckpt undo" if newest is units[0] else f"ckpt undo {units[0].handle}"
    start, end = min(unit.first for unit in units), max(unit.last for unit in units)
    for unit in timeline.units:
        if unit.turn is not None:
            among = numbers[0] <= unit.turn <= numbers[-1]
        else:
            among = start <= unit.first and unit.last <= end
        if among and unit not in units:
            return f"ckpt undo {Selector(numbers[0], numbers[-1])} --run {run}"
    return f"ckpt undo {Selector(numbers[0], numbers[-1])}"
