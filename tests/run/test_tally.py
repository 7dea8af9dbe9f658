"""What a run came to, held against what the undo that it names does."""

from __future__ import annotations

import re

from harness.timelines import Walk

from checkpointer.run.tally import Tally, tally
from checkpointer.workspace.undoing.selection import Selector


def came_to(walk: Walk, *turns: str, before: int = 1) -> Tally:
    """The tally of run r1; the undo that it names changes the files that it lists, and no others."""
    walk.had_run = True
    found = tally(walk.timeline(), "r1", turns, before, walk.capture("outside"))
    named = re.fullmatch(r"ckpt undo(?: t(\d+)(?:\.\.t(\d+))?)?(?: --run (r\d+))?", found.undo)
    assert named is not None
    first, last, run = named.groups()
    selector = Selector()
    if first is not None:
        selector = Selector(int(first), int(last or first), runs=frozenset({run}) if run else None)
    assert walk.copy().undo(selector=selector).result.keys() == found.changed.keys()
    return found


def test_what_changed_between_turns_is_nobodys() -> None:
    walk = Walk("f=0")
    walk.did("t1.1", "a=1")
    walk.edit("between=1")
    walk.did("t2.1", "b=1")
    walk.edit("late=1")
    found = came_to(walk, "t1", "t2")
    assert (set(found.changed), set(found.outside)) == ({b"a", b"b"}, {b"between", b"late"})
    assert found.undo == "ckpt undo t1..t2"


def test_what_is_as_it_was_is_not_listed() -> None:
    walk = Walk("f=0 g=0")
    walk.did("t1.1", "f=1 g=1 x=1")
    walk.did("t2.1", "f=0")
    walk.edit("x=-")
    found = came_to(walk, "t1", "t2")
    assert (set(found.changed), set(found.outside)) == ({b"g"}, set())


def test_what_a_turn_put_back_after_somebodys_edit_is_listed() -> None:
    walk = Walk("f=0")
    walk.edit("f=1")
    walk.did("t1.1", "f=0")
    assert set(came_to(walk, "t1").changed) == {b"f"}


def test_what_is_undone_already_is_not_listed() -> None:
    walk = Walk()
    walk.did("t1.1", "a=1")
    walk.did("t2.1", "b=1")
    walk.undo()
    assert set(came_to(walk, "t1", "t2").changed) == {b"a"}


def test_turns_of_others_and_restores_in_the_range_are_left_out_by_name() -> None:
    for meanwhile in ("turn", "restore"):
        walk = Walk("f=0")
        walk.did("t1.1", "a=1")
        if meanwhile == "turn":
            walk.did("t2.1", "theirs=1", "r2")
        else:
            walk.edit("f=9")
            walk.restore(1, [b"f"])
        walk.did("t3.1", "b=1")
        found = came_to(walk, "t1", "t3")
        assert (set(found.changed), set(found.outside)) == ({b"a", b"b"}, set())
        assert found.undo == "ckpt undo t1..t3 --run r1"


def test_one_turn_is_named_where_a_newer_one_is_there() -> None:
    walk = Walk()
    walk.did("t1.1", "a=1")
    assert came_to(walk, "t1").undo == "ckpt undo"
    walk.did("t2.1", "b=1", "r2")
    assert came_to(walk, "t1").undo == "ckpt undo t1"
