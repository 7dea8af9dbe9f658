"""Directories, links, modes and what no checkpoint holds, in undo and redo."""

from __future__ import annotations

import pytest
from harness.timelines import Walk, f, t

from checkpointer.errors import Conflict
from checkpointer.workspace.entry import Entry
from checkpointer.workspace.undoing.resolution import resolve
from checkpointer.workspace.undoing.selection import Selector

DIR = Entry("dir", b"", 0o755)
LINK = Entry("link", b"there", 0)
SOCKET = Entry("socket", b"", 0o755)


class Tree(Walk):
    """Every entry is given, directories too."""

    def __init__(self, **files: Entry) -> None:
        super().__init__()
        self.set(**files)
        self.trees[1] = dict(self.files)

    def set(self, **files: Entry | None) -> None:
        """`d__x` is `d/x`; None removes."""
        for name, entry in files.items():
            path = name.replace("__", "/").encode()
            if entry is None:
                self.files.pop(path, None)
            else:
                self.files[path] = entry

    def made(self, *args: object) -> object:  # type: ignore[override]
        return super().made(*args)  # type: ignore[arg-type]

    def turn(self, number: int, **files: Entry | None) -> None:
        self.capture("outside")
        self.set(**files)
        self.capture("step", steps=(f"t{number}.1",), runs=("r1",))

    @property
    def kinds(self) -> dict[str, str]:
        return {path.decode(): entry.kind for path, entry in self.files.items()}


def test_a_directory_made_by_a_turn_goes_with_it_and_comes_back() -> None:
    tree = Tree()
    tree.turn(1, d=DIR, d__e=DIR, d__e__x=f("1"), d__empty=DIR)
    tree.undo()
    assert tree.kinds == {}
    tree.redo()
    assert tree.kinds == {"d": "dir", "d/e": "dir", "d/e/x": "file", "d/empty": "dir"}


def test_a_directory_stays_for_what_is_in_it_and_that_is_no_conflict() -> None:
    tree = Tree()
    tree.turn(1, d=DIR, d__x=f("1"))
    tree.set(d__mine=f("mine"))
    resolution = tree.undo()
    assert tree.kinds == {"d": "dir", "d/mine": "file"}
    assert resolution.conflicts == ()
    tree.redo()
    assert tree.kinds == {"d": "dir", "d/x": "file", "d/mine": "file"}


def test_a_directory_goes_with_the_last_turn_that_used_it_whatever_the_order() -> None:
    tree = Tree()
    tree.turn(1, d=DIR, d__x=f("1"))
    tree.turn(2, d__y=f("2"))
    tree.undo(selector=t(1))
    assert tree.kinds == {"d": "dir", "d/y": "file"}
    tree.undo(selector=t(2))
    assert tree.kinds == {}
    tree.redo()
    assert tree.kinds == {"d": "dir", "d/y": "file"}
    tree.redo()
    assert tree.kinds == {"d": "dir", "d/x": "file", "d/y": "file"}


def test_a_persons_directory_stays_when_it_is_emptied() -> None:
    tree = Tree()
    tree.set(d=DIR)
    tree.turn(1, d__x=f("1"))
    tree.undo()
    assert tree.kinds == {"d": "dir"}


def test_a_directory_comes_back_with_its_mode_for_the_sake_of_a_file() -> None:
    private = DIR._replace(mode=0o700)
    tree = Tree(d=private, d__x=f("1"), d__y=f("2"))
    tree.turn(1, d__x=None)
    tree.turn(2, d__y=None, d=None)
    tree.undo(selector=t(1))
    assert tree.files == {b"d": private, b"d/x": f("1")}
    tree.undo(selector=t(2))
    assert tree.files == {b"d": private, b"d/x": f("1"), b"d/y": f("2")}


def test_undo_of_a_path_brings_the_directories_above_it() -> None:
    private = DIR._replace(mode=0o700)
    tree = Tree(d=private, d__e=private, d__e__x=f("1"), d__y=f("2"))
    tree.turn(1, d=None, d__e=None, d__e__x=None, d__y=None)
    tree.undo(selector=Selector(paths=(b"d/e/x",)))
    assert tree.files == {b"d": private, b"d/e": private, b"d/e/x": f("1")}


def test_a_link_that_became_a_directory_and_the_reverse() -> None:
    tree = Tree(lib=LINK, real=DIR, real__a=f("1"))
    tree.turn(1, lib=DIR, lib__keep=f("x"), real=LINK, real__a=None)
    tree.undo()
    assert tree.files == {b"lib": LINK, b"real": DIR, b"real/a": f("1")}
    tree.redo()
    assert tree.files == {b"lib": DIR, b"lib/keep": f("x"), b"real": LINK}


def test_a_directory_that_must_give_way_but_holds_somebodys_file() -> None:
    tree = Tree(a=f("old"))
    tree.turn(1, a=DIR, a__x=f("1"))
    tree.set(a__mine=f("mine"))
    with pytest.raises(Conflict) as refused:
        tree.undo()
    (conflict,) = refused.value.details["conflicts"]
    assert (conflict["path"], conflict["why"]) == ("a", "it is a directory now and holds a/mine")
    skipping = tree.copy()
    assert skipping.undo("skip").skipped == (b"a",)
    assert skipping.kinds == {"a": "dir", "a/mine": "file"}  # type: ignore[attr-defined]
    tree.undo("force")
    assert tree.files == {b"a": f("old")}
    tree.redo()
    assert tree.kinds == {"a": "dir", "a/x": "file", "a/mine": "file"}


def test_a_file_stands_where_a_directory_must_come_back() -> None:
    tree = Tree(d=DIR, d__x=f("1"), d__y=f("2"))
    tree.turn(1, d__x=None)
    tree.set(d__y=None, d=f("mine"))
    with pytest.raises(Conflict) as refused:
        tree.undo()
    (conflict,) = refused.value.details["conflicts"]
    assert (conflict["path"], conflict["why"]) == ("d/x", "d is not a directory any more")
    skipping = tree.copy()
    assert skipping.undo("skip").skipped == (b"d/x",)
    tree.undo("force")
    assert tree.files == {b"d": DIR, b"d/x": f("1")}
    tree.redo()
    assert tree.files == {b"d": f("mine")}


def test_a_mode_alone_is_a_change_and_meets_an_edit() -> None:
    tree = Tree(s=f("1", 0o644))
    tree.turn(1, s=f("1", 0o755))
    resolution = tree.undo()
    assert resolution.result == {b"s": f("1", 0o644)}


@pytest.mark.parametrize("kind", ["socket", "device", "uncovered"])
def test_what_no_checkpoint_holds_is_left_even_by_force(kind: str) -> None:
    stuck = Entry(kind, b"", 0)  # type: ignore[arg-type]
    tree = Tree(a=f("old"), b=f("old"))
    tree.turn(1, a=stuck, b=f("new"))
    with pytest.raises(Conflict) as refused:
        tree.undo()
    (conflict,) = refused.value.details["conflicts"]
    assert conflict["path"] == "a"
    for mode in ("skip", "force"):
        left = tree.copy()
        resolution = left.undo(mode)  # type: ignore[arg-type]
        assert left.files == {b"a": stuck, b"b": f("old")}
        assert (resolution.skipped, resolution.impossible) == ((b"a",), (b"a",))
        left.redo()
        assert left.files == tree.files


def test_a_socket_that_somebody_put_in_the_place_of_a_file() -> None:
    tree = Tree(a=f("old"))
    tree.turn(1, a=f("new"))
    tree.set(a=SOCKET)
    assert tree.undo("force").impossible == (b"a",)
    assert tree.files == {b"a": SOCKET}


def test_a_socket_in_a_directory_that_must_give_way_holds_it_even_by_force() -> None:
    tree = Tree(a=f("old"))
    tree.turn(1, a=DIR, a__x=f("1"))
    tree.set(a__socket=SOCKET)
    assert tree.undo("force").skipped == (b"a",)
    assert tree.files == {b"a": DIR, b"a/socket": SOCKET}


def test_a_path_that_the_plan_found_in_the_way_is_left() -> None:
    tree = Tree(a=f("old"), b=f("old"))
    tree.turn(1, a=DIR, a__x=f("1"), b=f("new"))
    selection = tree.select_undo(Selector())
    for mode in ("skip", "force"):
        left = resolve(
            selection,
            tree.files.get,
            tree.merge,
            mode=mode,  # type: ignore[arg-type]
            inside=tree.inside,
            obstructed={b"a": "it holds a/ignored, which stays"},
        )
        assert left.skipped == left.impossible == (b"a",)
        assert left.result == {b"a/x": None, b"b": f("old")}
        assert [paths for _, paths in left.operation.left] == [(b"a",)]
