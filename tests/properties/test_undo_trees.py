"""Undo and redo over whole trees: whatever is taken back in whatever order can stand on a disk, and comes back."""

from __future__ import annotations

import random

from harness.timelines import PlainWorld, no_text, t
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpointer.errors import Conflict, NothingToDo
from checkpointer.workspace.entry import Entry, below, parents

NAMES = (b"a", b"b")
PLACES = tuple(b"/".join(parts) for parts in [(x,) for x in NAMES] + [(x, y) for x in NAMES for y in NAMES]) + tuple(
    b"/".join((x, y, z)) for x in NAMES for y in NAMES for z in NAMES
)


def mutated(files: dict[bytes, Entry], choose: random.Random, serial: int) -> dict[bytes, Entry]:
    """One thing made, changed, removed or replaced by something of another kind; the rest follows."""
    out = dict(files)
    path = choose.choice(PLACES)
    made = choose.choice(
        [
            Entry("file", str(serial).encode(), choose.choice((0o644, 0o755))),
            Entry("file", str(serial).encode(), 0o644),
            Entry("link", str(serial).encode(), 0),
            Entry("dir", b"", choose.choice((0o755, 0o700))),
            Entry("fifo", b"", 0o600),
            None,
            None,
        ]
    )
    if made is None or made.kind != "dir":
        for other in [p for p in out if below(p, path)]:
            del out[other]
    if made is not None:
        for top in parents(path):
            if out.get(top, Entry("dir", b"", 0)).kind != "dir":
                del out[top]
            out.setdefault(top, Entry("dir", b"", 0o755))
        out[path] = made
    return out


def can_stand(files: dict[bytes, Entry]) -> bool:
    return all(files.get(top) is not None and files[top].kind == "dir" for path in files for top in parents(path))


def grown(choose: random.Random, turns: int, *, edits: bool) -> PlainWorld:
    files: dict[bytes, Entry] = {}
    serial = 0
    for serial in range(6):
        files = mutated(files, choose, serial)
    world = PlainWorld(no_text, files)
    world.had_run = True
    for turn in range(1, turns + 1):
        for step in range(1, choose.randint(2, 3)):
            serial += 1
            files = mutated(mutated(world.files, choose, serial), choose, serial + 100)
            world.step(f"t{turn}.{step}", "r1", files)
        if edits and choose.random() < 0.5:
            serial += 1
            world.files = mutated(world.files, choose, serial)
    return world


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_without_edits_undo_leads_back_to_the_start_and_redo_forth(seed: int, turns: int) -> None:
    world = grown(random.Random(seed), turns, edits=False)
    start, seen = world.trees[1], [dict(world.files)]
    while True:
        try:
            assert world.undo().conflicts == ()
        except NothingToDo:
            break
        seen.append(dict(world.files))
    assert world.files == start
    for files in reversed(seen[:-1]):
        world.redo()
        assert world.files == files


@settings(max_examples=400)
@given(st.integers(0, 2**32), st.integers(2, 5), st.sampled_from(["plain", "skip", "force"]))
def test_any_turn_taken_back_leaves_what_can_stand_and_redo_undoes_it(seed: int, turns: int, mode: str) -> None:
    choose = random.Random(seed)
    world = grown(choose, turns, edits=True)
    for _ in range(4):
        before = dict(world.files)
        try:
            world.undo(mode, t(choose.randint(1, turns)))  # type: ignore[arg-type]
        except (Conflict, NothingToDo):
            assert world.files == before
            continue
        assert can_stand(world.files)
        again = world.copy()
        again.redo()
        assert again.files == before


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(2, 4))
def test_turns_of_other_paths_taken_back_in_any_order_leave_nothing(seed: int, turns: int) -> None:
    """Each turn writes files of its own, in directories shared with the others."""
    choose = random.Random(seed)
    world = PlainWorld(no_text)
    world.had_run = True
    for turn in range(1, turns + 1):
        files = dict(world.files)
        for _ in range(2):
            path = choose.choice(PLACES) + b"/%d" % turn
            files[path] = Entry("file", b"%d" % turn, 0o644)
            for top in parents(path):
                files.setdefault(top, Entry("dir", b"", choose.choice((0o755, 0o700))))
        world.step(f"t{turn}.1", "r1", files)
    full = dict(world.files)
    order = choose.sample(range(1, turns + 1), turns)
    for turn in order:
        world.undo(selector=t(turn))
        assert can_stand(world.files)
    assert world.files == {}
    for _ in order:
        world.redo()
    assert world.files == full
