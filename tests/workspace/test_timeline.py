"""What an undo takes, how it is merged and what is recorded: the rules 1 to 8 one by one."""

from __future__ import annotations

import pytest
from harness.timelines import Walk, f, t, three_turns

from checkpointer.errors import Conflict, NothingToDo, Usage
from checkpointer.workspace.checkpoint import Segment
from checkpointer.workspace.undoing.selection import Selector, select_undo
from checkpointer.workspace.undoing.timeline import OpenTurn
from checkpointer.workspace.undoing.units import OUTSIDE, UNPROTECTED

# Units and steps.


def test_turns_and_restores_are_units_in_the_order_of_their_last_change() -> None:
    walk = Walk("a=0")
    walk.did("t1.1", "a=1")
    walk.did("t1.2", "b=1")
    walk.edit("mine=1")
    walk.did("t2.1", "a=2")
    walk.restore(1)
    assert walk.units() == ["t1", "t2", "restore 1"]
    first = walk.timeline().turn(1)
    assert first is not None
    assert [step.handle for step in first.steps] == ["t1.1", "t1.2"]
    assert (first.first, first.last, first.runs) == (1, 3, frozenset({"r1"}))


def test_neighbouring_intervals_of_one_step_are_one_segment() -> None:
    walk = Walk()
    for value in "123":
        walk.did("t1.1", f"a={value}")
    (unit,) = walk.timeline().units
    assert unit.segments == (Segment(1, 4),)
    assert [(c.before, c.after) for c in walk.timeline().changes(unit)] == [(None, f("3"))]


def test_what_changed_while_an_agent_was_not_protected_is_not_said_to_be_outside_any() -> None:
    walk = Walk("a=0")
    walk.did("t1.1", "a=1")
    for by in ("agent", "person"):
        walk.edit(f"a={by}")
        walk.append(walk.meta("outside", by=by))
    timeline = walk.timeline()
    assert [timeline.owner(c) for c in timeline.checkpoints[-2:]] == [UNPROTECTED, OUTSIDE]


def test_steps_that_overlapped_are_one() -> None:
    walk = Walk()
    walk.did("t3.2", "a=1")
    walk.did("t3.2 t3.3", "b=1")
    walk.did("t3.3", "c=1")
    walk.did("t3.4", "d=1")
    (unit,) = walk.timeline().units
    assert [(step.handle, step.segments) for step in unit.steps] == [
        ("t3.2+3", (Segment(1, 4),)),
        ("t3.4", (Segment(4, 5),)),
    ]
    resolution = walk.undo(selector=t(3, 3, 2))
    assert (walk.now, resolution.operation.unit) == ("d=1", "t3.2+3")


def test_a_turn_known_by_its_ends_owns_what_no_step_owns() -> None:
    walk = Walk()
    walk.did("t1", "a=1")
    walk.did("t1 t1.1", "b=1")
    walk.did("t1", "c=1")
    (unit,) = walk.timeline().units
    assert [(step.handle, step.exact) for step in unit.steps] == [("t1.1", True), ("t1", False)]
    assert "known only by its ends" in walk.select_undo(Selector(newest_step=True)).notes[0]
    assert walk.select_undo(t(1, 1, 1)).notes == ()


def test_an_operation_inside_an_open_step_owns_its_own_interval() -> None:
    walk = Walk("a=0 b=0")
    walk.did("t1.1", "a=1")
    walk.open_turns = (OpenTurn("r1", 2, ("t2.1",), 2, alive=True),)
    walk.edit("b=1")
    walk.undo(selector=t(1))
    walk.open_turns = ()
    walk.did("t2.1", "b=2")
    turn = walk.timeline().turn(2)
    assert turn is not None
    assert [step.segments for step in turn.steps] == [(Segment(2, 3), Segment(4, 5))]
    assert walk.now == "a=0 b=2"
    walk.undo()
    assert walk.now == "a=0 b=0"


def test_runs_are_told_apart_where_they_ever_worked_apart() -> None:
    walk = Walk()
    walk.did("t1.1 t2.1", "a=1", "r1 r2")
    walk.did("t2.2", "b=1", "r2")
    timeline = walk.timeline()
    assert {unit.handle: unit.runs for unit in timeline.units} == {"t1": frozenset({"r1"}), "t2": frozenset({"r2"})}


# Rule 1: those without changes do not count.


def test_a_turn_whose_steps_cancel_out_is_passed_over() -> None:
    walk = Walk("a=0")
    walk.did("t1.1", "a=1")
    walk.did("t2.1", "a=2")
    walk.did("t2.1", "a=1")
    walk.undo()
    assert walk.now == "a=0"
    with pytest.raises(NothingToDo, match="t2 changed nothing"):
        walk.undo(selector=t(2))


# Rule 2: edits before the first run.


def test_before_any_run_each_interval_of_edits_is_taken_back_by_itself() -> None:
    walk = Walk("a=0")
    walk.edit("a=1")
    walk.capture("save")
    walk.edit("b=1")
    walk.capture("save")
    walk.edit("c=1")  # up to the present files
    assert walk.units() == ["edit 2", "edit 3", "edit 4"]
    for expected in ("a=1 b=1", "a=1", "a=0"):
        walk.undo()
        assert walk.now == expected
    with pytest.raises(NothingToDo, match="nothing to undo"):
        walk.undo()
    for expected in ("a=1", "a=1 b=1", "a=1 b=1 c=1"):
        walk.redo()
        assert walk.now == expected


def test_after_a_run_edits_are_units_no_more_for_good() -> None:
    walk = Walk("a=0")
    walk.edit("a=1")
    walk.capture("save")
    walk.did("t1.1", "b=1")
    walk.edit("c=1")
    assert walk.units() == ["t1"]
    walk.undo()
    with pytest.raises(NothingToDo, match="nothing to undo"):
        walk.undo()
    assert walk.now == "a=1 c=1"
    cut = Walk("a=0")
    cut.edit("a=1")
    cut.had_run = True  # none of the run's checkpoints is kept
    assert cut.units() == []


# Rule 3: what is chosen.


def test_undo_three_times_then_nothing_is_left() -> None:
    walk = three_turns()
    labels = [walk.undo().operation.unit for _ in range(3)]
    assert (labels, walk.now) == (["t3", "t2", "t1"], "a=0")
    with pytest.raises(NothingToDo, match="nothing to undo") as refused:
        walk.undo()
    assert refused.value.next == ("ckpt redo",)


def test_the_newest_step() -> None:
    walk = three_turns()
    assert walk.undo(selector=Selector(newest_step=True)).operation.unit == "t3.2"
    assert walk.now == "a=3 f1=x f2=x f3=x g1=x g2=x"
    assert walk.undo(selector=Selector(newest_step=True)).operation.unit == "t3.1"
    assert walk.now == "a=2 f1=x f2=x g1=x g2=x"


def test_paths_narrow_to_the_newest_turn_that_touched_them() -> None:
    walk = three_turns()
    assert walk.undo(selector=Selector(paths=(b"f2", b"a"))).operation.unit == "t3"
    assert walk.now == "a=2 f1=x f2=x f3=x g1=x g2=x g3=x"
    assert walk.undo(selector=Selector(paths=(b"f2",))).operation.unit == "t2"
    with pytest.raises(NothingToDo, match="in these paths"):
        walk.undo(selector=Selector(paths=(b"nowhere",)))


def test_paths_mean_what_is_below_them_and_nothing_else() -> None:
    walk = Walk("d/a=0 d2=0")
    walk.did("t1.1", "d/a=1 d2=1")
    walk.undo(selector=Selector(paths=(b"d",)))
    assert walk.now == "d/a=0 d2=1"


def test_a_range_is_taken_as_one() -> None:
    walk = three_turns()
    walk.edit("mine=1")
    resolution = walk.undo(selector=t(2, 3))
    assert (resolution.operation.unit, walk.now) == ("t2..t3", "a=1 f1=x g1=x mine=1")
    walk.redo()
    assert walk.now.startswith("a=3")
    assert walk.undo(selector=t(1, None)).operation.unit == "t1.."
    assert walk.now == "a=0 mine=1"
    walk.redo()
    assert walk.now.startswith("a=3")


def test_a_range_takes_the_restores_in_it() -> None:
    walk = three_turns()
    walk.restore(3)
    assert walk.now == "a=1 f1=x g1=x"
    walk.undo(selector=t(2, None))
    assert walk.now == "a=1 f1=x g1=x"
    walk.redo()
    walk.undo()
    assert walk.now == "a=3 f1=x f2=x f3=x g1=x g2=x g3=x"


def test_what_was_left_is_taken_only_by_name() -> None:
    walk = Walk("a=0 b=0")
    walk.did("t1.1", "a=1 b=1")
    walk.edit("a=mine")
    resolution = walk.undo("skip")
    assert (resolution.skipped, walk.now) == ((b"a",), "a=mine b=0")
    with pytest.raises(NothingToDo) as refused:
        walk.undo()
    assert "t1" in refused.value.message
    assert refused.value.next[0] == "ckpt undo t1"
    walk.edit("a=1")
    walk.undo(selector=t(1))
    assert walk.now == "a=0 b=0"


@pytest.mark.parametrize(
    ("selector", "kind", "words"),
    [
        (t(4), Usage, "no turn t4; the newest is t3"),
        (t(0), Usage, "no turn t0"),
        (t(3, 1), Usage, "ends before it begins"),
        (t(1, 1, 9), NothingToDo, "t1.9 changed nothing"),
    ],
)
def test_what_is_not_there_is_said_so(selector: Selector, kind: type[Exception], words: str) -> None:
    timeline = three_turns().timeline(last_turn=3)
    with pytest.raises(kind, match=words):
        select_undo(timeline, selector)


def test_a_turn_that_is_undone_already() -> None:
    walk = three_turns()
    walk.undo()
    with pytest.raises(NothingToDo, match="undone already") as refused:
        walk.undo(selector=t(3))
    assert refused.value.next == ("ckpt redo t3",)


# Rules 4 to 7.


def test_joined_changes_are_merged_once() -> None:
    walk = Walk("a=0")
    walk.did("t1.1", "a=1")
    walk.did("t1.2", "a=2")
    assert len(walk.select_undo(Selector()).moves[b"a"]) == 1
    walk.edit("a=mine")
    walk.did("t1.3", "a=3")
    assert len(walk.select_undo(Selector()).moves[b"a"]) == 2
    with pytest.raises(Conflict):
        walk.undo()
    walk.undo("force")
    assert walk.now == "a=0"


def test_a_conflict_names_lines_whose_and_what_to_type() -> None:
    walk = Walk("a=0 b=0 c=0")
    walk.did("t3.1", "a=1 b=1 c=1")
    walk.edit("a=mine")
    walk.capture("outside")
    walk.did("t4.1", "b=2", "r2")
    walk.edit("c=now")
    before = walk.now
    with pytest.raises(Conflict) as refused:
        walk.undo(selector=t(3, 3, None, b"a", b"b", b"c"))
    error = refused.value
    found = [(c["path"], c["lines"], c["by"], c["at"]) for c in error.details["conflicts"]]
    assert found == [
        ("a", [[3, 4]], "outside any agent", walk.checkpoints[2].meta.at.isoformat()),
        ("b", [[3, 4]], "t4.1", walk.checkpoints[3].meta.at.isoformat()),
        ("c", [[3, 4]], "outside any agent", None),
    ]
    assert error.message == "nothing changed: in 3 of 3 files the same lines were changed again after t3"
    assert error.next == (
        "ckpt undo t3 --skip -- a b c",
        "ckpt undo t3 --force -- a b c",
        "ckpt diff t3 now -- a",
    )
    assert walk.now == before


def test_a_later_undo_can_be_what_is_in_the_way() -> None:
    walk = Walk("a=0")
    walk.did("t1.1", "a=1")
    walk.did("t2.1", "a=2")
    walk.did("t3.1", "a=3")
    walk.undo("force", t(2))
    with pytest.raises(Conflict) as refused:
        walk.undo(selector=t(3))
    assert refused.value.details["conflicts"][0]["by"] == "undo of t2"


def test_force_takes_the_oldest_and_redo_brings_the_edit_back() -> None:
    walk = Walk("a=0 b=0")
    walk.did("t1.1", "a=1 b=1")
    walk.edit("a=mine")
    walk.undo("force")
    assert walk.now == "a=0 b=0"
    walk.redo()
    assert walk.now == "a=mine b=1"


def test_what_only_a_later_change_put_back_stays_open() -> None:
    walk = Walk("a=0")
    walk.did("t1.1", "a=1")
    walk.did("t2.1", "a=0")
    before = len(walk.checkpoints)
    with pytest.raises(NothingToDo, match="because of t2") as refused:
        walk.undo(selector=t(1))
    assert refused.value.next == ("ckpt undo t2",)
    assert len(walk.checkpoints) == before
    walk.undo()
    assert walk.now == "a=1"
    walk.undo()
    assert walk.now == "a=0"


# Rule 8.


def test_the_operation_is_recorded_compactly() -> None:
    walk = Walk("a=0")
    walk.did("t1.1", "a=1 b=1")
    whole = walk.undo().operation
    assert whole.taken == ((Segment(1, 2), None),)
    redone = walk.redo().operation
    assert (redone.taken, redone.target) == (((Segment(1, 2), None),), walk.checkpoints[-2].number)
    part = walk.undo(selector=Selector(paths=(b"b",))).operation
    assert part.taken == ((Segment(1, 2), (b"b",)),)
    rest = walk.undo().operation
    assert rest.taken == ((Segment(1, 2), (b"a",)),)
    assert walk.timeline().state_of_unit(walk.timeline().units[0]) == "back"
