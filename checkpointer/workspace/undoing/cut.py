"""Where the kept end of a timeline may be: never inside a turn, nor under an undo that can still be redone; pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from checkpointer.workspace.undoing.timeline import Timeline

TURNS = 3
"""So many of the newest turns stay within reach of undo and redo, whatever the store takes."""


def needed_from(timeline: Timeline, turns: int = TURNS) -> int | None:
    """The oldest checkpoint that undo and redo of the newest turns and restores rest on; None where there are none."""
    units = [unit for unit in timeline.units if unit.kind != "edit"][-turns:]
    needed = [unit.first for unit in units]
    for undone in timeline.redo_list()[-turns:]:
        needed += [undone.before, *(s.before for s, _ in (*undone.operation.taken, *undone.operation.left))]
    return min(needed, default=None)


class _Stretch(NamedTuple):
    """A cut at `n` parts it where `first < n <= last`."""

    first: int
    last: int


def may_begin(timeline: Timeline) -> Callable[[int], bool]:
    """Answers whether the timeline may begin at checkpoint `n`, so that all of a unit is kept or none of it."""
    whole = [_Stretch(unit.first, unit.last - 1) for unit in timeline.units]  # at its end a unit is gone as a whole
    for undone in timeline.redo_list():
        needed = [segment.before for segment, _ in (*undone.operation.taken, *undone.operation.left)]
        whole.append(_Stretch(min([undone.before, *needed]), undone.number))

    def may(number: int) -> bool:
        return not any(stretch.first < number <= stretch.last for stretch in whole)

    return may
