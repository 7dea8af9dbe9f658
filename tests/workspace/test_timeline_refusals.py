"""Redo, scopes, and what stands in the way of an undo before any file is looked at: the rules 9 to 16 one by one."""

from __future__ import annotations

import pytest
from harness.timelines import Walk, t, three_turns

from checkpointer.errors import Busy, Conflict, Damaged, NeedsPerson, NothingToDo, NothingToRedo, TooOld
from checkpointer.workspace.undoing.selection import Selector, select_redo, select_undo
from checkpointer.workspace.undoing.timeline import OpenTurn

# Rules 9 and 10.


def test_redo_after_a_new_step_names_what_to_type() -> None:
    walk = three_turns()
    walk.undo()
    walk.edit("mine=1")
    walk.capture("outside")
    assert walk.timeline().redo_list()
    walk.did("t4.1", "x=1")
    with pytest.raises(NothingToRedo, match="t4 came after the undo of t3") as refused:
        walk.redo()
    assert refused.value.next == ("ckpt redo t3",)
    walk.redo(selector=t(3))
    assert walk.now == "a=3 f1=x f2=x f3=x g1=x g2=x g3=x mine=1 x=1"
    with pytest.raises(NothingToRedo, match="t3 is not undone"):
        walk.redo(selector=t(3))


def test_redo_with_nothing_undone() -> None:
    with pytest.raises(NothingToRedo, match="nothing to redo"):
        three_turns().redo()


def test_redo_of_one_turn_of_several_taken_as_one() -> None:
    walk = three_turns()
    full = walk.now
    walk.undo(selector=t(1, None))
    walk.redo(selector=t(1))
    assert walk.now == "a=1 f1=x g1=x"
    assert {u.handle: walk.timeline().state_of_unit(u) for u in walk.timeline().units} == {
        "t1": "open",
        "t2": "back",
        "t3": "back",
    }
    walk.redo()
    assert walk.now == full
    assert walk.timeline().redo_list() == ()


def test_redo_of_a_turn_undone_step_by_step() -> None:
    walk = three_turns()
    full = walk.now
    for _ in range(2):
        walk.undo(selector=Selector(newest_step=True))
    walk.redo(selector=t(3))
    assert walk.now == full
    assert walk.timeline().redo_list() == ()


def test_redo_of_paths() -> None:
    walk = three_turns()
    full = walk.now
    walk.undo()
    walk.redo(selector=Selector(paths=(b"f3",)))
    assert walk.now == "a=2 f1=x f2=x f3=x g1=x g2=x"
    walk.redo()
    assert walk.now == full


def test_a_restore_empties_the_redo_list_and_is_undone_like_a_turn() -> None:
    walk = three_turns()
    walk.undo()
    walk.restore(1)
    with pytest.raises(NothingToRedo, match="restore 1 came after"):
        walk.redo()
    walk.undo()
    assert walk.now == "a=2 f1=x f2=x g1=x g2=x"
    walk.redo()
    assert walk.now == "a=0"


def test_an_undone_edit_can_be_redone_after_a_run_that_changed_nothing() -> None:
    walk = Walk("a=0")
    walk.edit("a=1")
    walk.undo()
    walk.had_run = True
    walk.redo()
    assert walk.now == "a=1"


def test_a_redo_that_conflicts_says_what_to_look_at() -> None:
    walk = three_turns()
    walk.undo()
    number = walk.checkpoints[-1].number
    walk.edit("a=mine f3=x")
    with pytest.raises(Conflict) as refused:
        walk.redo()
    assert refused.value.next == ("ckpt redo --skip", "ckpt redo --force", f"ckpt diff {number} now -- a")
    assert [c["path"] for c in refused.value.details["conflicts"]] == ["a"]
    walk.redo("skip")
    assert walk.now == "a=mine f1=x f2=x f3=x g1=x g2=x g3=x"


# Rule 12.


def two_runs() -> Walk:
    walk = Walk("a=0 b=0")
    walk.did("t1.1", "a=1", "r1")
    walk.did("t2.1", "b=1", "r2")
    return walk


def test_a_scope_reaches_its_own_turns_only() -> None:
    walk = two_runs()
    mine = Selector(runs=frozenset({"r1"}))
    assert walk.undo(selector=mine).operation.unit == "t1"
    with pytest.raises(NothingToDo, match="of this session"):
        walk.undo(selector=mine)
    with pytest.raises(NeedsPerson, match="t2 is not this session's, but r2's"):
        walk.undo(selector=t(2, runs=frozenset({"r1"})))
    walk.did("t3.1", "b=2", "r2")
    with pytest.raises(NothingToRedo):
        walk.redo()
    walk.redo(selector=mine)  # the other run's step is none in this scope
    assert walk.now == "a=1 b=2"


def test_runs_that_overlapped_need_a_person() -> None:
    walk = Walk("a=0 b=0")
    walk.did("t1.1", "a=1", "r1")
    walk.did("t1.1 t2.1", "b=1", "r1 r2")
    for selector in (Selector(), t(1), Selector(runs=frozenset({"r1"}))):
        with pytest.raises(NeedsPerson, match=r"r1 and r2 worked at the same time in t1\.1\+t2\.1") as refused:
            walk.undo(selector=selector)
        assert "--force" in refused.value.next[-1]
    walk.undo("force")
    assert walk.now == "a=0 b=0"
    assert walk.timeline().state_of_unit(walk.timeline().units[0]) == "back"
    assert walk.timeline().state_of_unit(walk.timeline().units[1]) == "back"


# Rules 13, 15, 16, and a gap.


def test_a_step_being_executed_is_busy_even_by_force() -> None:
    walk = two_runs()
    walk.open_turns = (OpenTurn("r2", 2, ("t2.1",), 2, alive=True, executing=True),)
    with pytest.raises(Busy, match=r"t2\.1"):
        walk.undo("force")
    walk.undo(selector=t(1))
    assert walk.now == "a=0 b=1"


def test_an_open_step_ends_at_the_present_files() -> None:
    walk = two_runs()
    walk.open_turns = (OpenTurn("r2", 2, ("t2.1",), 2, alive=True),)
    walk.edit("c=1")
    resolution = walk.undo()
    assert walk.now == "a=1 b=0"
    assert "has not ended" in resolution.notes[0]


def test_a_dead_agents_open_step_needs_a_person() -> None:
    walk = two_runs()
    walk.open_turns = (OpenTurn("r2", 2, ("t2.1",), 2, alive=False),)
    walk.edit("c=1")
    with pytest.raises(NeedsPerson, match="may be yours") as refused:
        walk.undo("skip")
    assert refused.value.next == ("ckpt diff 2 now", "ckpt undo --force")
    walk.undo("force")
    assert walk.now == "a=1 b=0"


def test_what_is_older_than_the_cut_is_said_to_be() -> None:
    walk = three_turns()
    walk.checkpoints = walk.checkpoints[4:]
    timeline = walk.timeline(first_kept=5, last_turn=3)
    with pytest.raises(TooOld, match="t1 is older than checkpoint 5"):
        select_undo(timeline, t(1))
    walk.undo()
    with pytest.raises(NothingToDo, match="older than checkpoint 5 is no longer kept"):
        select_undo(walk.timeline(first_kept=5), Selector())


def test_another_branch_needs_a_person() -> None:
    walk = Walk("a=0")
    walk.head = "main"
    walk.did("t1.1", "a=1")
    walk.head = "feature"
    with pytest.raises(NeedsPerson, match="on the branch main, and the project is on feature now"):
        walk.undo()
    walk.undo("force")
    walk.head = "main"
    with pytest.raises(NeedsPerson, match="branch feature"):
        walk.redo()
    walk.head = None
    walk.redo()
    assert walk.now == "a=1"


def test_a_step_that_switched_the_branch_is_of_the_new_one() -> None:
    walk = Walk("a=0")
    walk.head = "main"
    walk.capture("outside")
    walk.files = walk.put("a=1")
    walk.head = "feature"
    walk.capture("step", steps=("t1.1",), runs=("r1",))
    walk.undo()
    assert walk.now == "a=0"


def test_undo_does_not_reach_across_a_lost_checkpoint() -> None:
    walk = three_turns()
    timeline = walk.timeline()
    with pytest.raises(Damaged, match="checkpoint 4 could not be read") as refused:
        select_undo(timeline, t(1, None), lost={4})
    assert refused.value.next == ("ckpt restore 3", "ckpt undo t1.. --force")
    assert select_undo(timeline, t(3), lost={4}).label == "t3"
    assert select_undo(timeline, t(1, None), mode="force", lost={4}).label == "t1.."


def test_a_handle_that_is_none_is_damage() -> None:
    walk = Walk()
    walk.did("x9", "a=1")
    with pytest.raises(Damaged, match="x9"):
        walk.timeline()


def test_an_empty_timeline() -> None:
    walk = Walk()
    walk.checkpoints.clear()
    timeline = type(walk).fold([], walk.diff)
    with pytest.raises(NothingToDo):
        select_undo(timeline, Selector())
    with pytest.raises(NothingToRedo):
        select_redo(timeline, Selector())
