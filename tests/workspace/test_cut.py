"""A timeline is never cut inside a turn, nor under an undo that can still be redone."""

from __future__ import annotations

from datetime import UTC, datetime

from checkpointer.workspace.checkpoint import Checkpoint, CheckpointKind, Meta, Operation, Segment
from checkpointer.workspace.entry import Entry
from checkpointer.workspace.undoing.cut import may_begin
from checkpointer.workspace.undoing.timeline import Timeline, fold

AT = datetime(2026, 12, 1, tzinfo=UTC)


def point(n: int, kind: CheckpointKind, *steps: str, operation: Operation | None = None) -> Checkpoint:
    meta = Meta(kind, AT, ("r1",) if steps else (), steps, operation=operation)
    return Checkpoint(n, f"{n:040x}", f"{n:040x}", f"{n - 1:040x}" if n > 1 else None, meta)


def timeline(*checkpoints: Checkpoint) -> Timeline:
    """Every interval changes a path of its own."""

    def diff(a: int, b: int) -> dict[bytes, tuple[Entry | None, Entry | None]]:
        return {b"f%d" % b: (None, Entry("file", b"%020d" % b, 0o644))}

    return fold(checkpoints, diff)


def allowed(found: Timeline) -> list[int]:
    may = may_begin(found)
    return [c.number for c in found.checkpoints if may(c.number)]


def test_between_turns_only() -> None:
    found = timeline(
        point(1, "base"),
        point(2, "step", "t1.1"),
        point(3, "step", "t1.2"),
        point(4, "outside"),
        point(5, "turn", "t2"),
    )
    assert allowed(found) == [1, 3, 4, 5]


def test_not_inside_a_turn_whose_steps_lie_apart() -> None:
    found = timeline(
        point(1, "base"), point(2, "step", "t1.1"), point(3, "outside"), point(4, "step", "t1.2"), point(5, "save")
    )
    assert allowed(found) == [1, 4, 5]


def test_not_under_an_undo_that_can_be_redone() -> None:
    taken = ((Segment(1, 2), None),)
    undone = point(3, "undo", operation=Operation("t1", None, taken))
    start = (point(1, "base"), point(2, "turn", "t1"), undone)
    assert allowed(timeline(*start, point(4, "outside"))) == [1, 4]
    assert allowed(timeline(*start, point(4, "turn", "t2"))) == [1, 2, 3, 4]  # the redo list is empty now
    redone = point(4, "redo", operation=Operation("t1", 3, taken))
    assert allowed(timeline(*start, redone)) == [1, 2, 3, 4]
