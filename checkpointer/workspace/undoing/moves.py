"""The way of each path in an undo or redo: from what a change left there to what was there before, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from checkpointer.workspace.checkpoint import Segment
from checkpointer.workspace.entry import Entry
from checkpointer.workspace.undoing.timeline import Timeline, Undone
from checkpointer.workspace.undoing.units import Change


class Move(NamedTuple):
    """Take one path from what a change left there (`base`) to what was there before it (`theirs`)."""

    base: Entry | None
    theirs: Entry | None


def backward(changes: Sequence[Change]) -> dict[bytes, tuple[Move, ...]]:
    """Neighbouring changes of a path joined where one begins as the other ended, then the newest first."""
    chains: dict[bytes, list[Move]] = {}
    for change in sorted(changes, key=lambda c: c.segment):
        chain = chains.setdefault(change.path, [])
        if chain and chain[-1].base == change.before:
            chain[-1] = Move(change.after, chain[-1].theirs)
        else:
            chain.append(Move(change.after, change.before))
    return {path: tuple(reversed(chain)) for path, chain in chains.items()}


def forward(
    timeline: Timeline,
    among: Sequence[Undone],
    wanted: set[tuple[Segment, bytes]] | None,
    within: Callable[[bytes], bool],
    *,
    narrowed: bool,
) -> tuple[list[Change], list[Change], dict[bytes, tuple[Move, ...]], list[Undone]]:
    """The changes that a redo puts back (newest undo first), those it leaves no longer, the moves, and the undos
    that are put back whole. A path whose changes are all put back returns by the undo's own effect, exactly;
    else by those changes, oldest first."""
    taken: list[Change] = []
    left: list[Change] = []
    moves: dict[bytes, list[Move]] = {}
    whole = []
    for undone in among:
        every = timeline.taken_by(undone)
        still = [c for c in every if timeline.state_of(c) == "back"]
        chosen = [c for c in still if (wanted is None or c.key in wanted) and within(c.path)]
        lefts = timeline.listed(undone.operation.left)
        taken += chosen
        effect = timeline.diff(undone.before, undone.number)
        if chosen == every and not (wanted is None and narrowed):
            whole.append(undone)
            left += lefts
            for path in effect:
                moves.setdefault(path, []).append(Move(effect[path][1], effect[path][0]))
            continue
        units = {c.unit for c in chosen}
        left += [c for c in lefts if c.unit in units and within(c.path)]
        total = Counter(c.path for c in every)
        for path, mine in _by_path(chosen).items():
            if len(mine) == total[path]:
                if path in effect:
                    moves.setdefault(path, []).append(Move(effect[path][1], effect[path][0]))
            else:
                moves.setdefault(path, []).extend(Move(c.before, c.after) for c in mine)
    return taken, left, {path: tuple(chain) for path, chain in moves.items()}, whole


def _by_path(changes: Iterable[Change]) -> dict[bytes, list[Change]]:
    out: dict[bytes, list[Change]] = {}
    for change in changes:
        out.setdefault(change.path, []).append(change)
    return out
