"""What is ours is captured: ignored things are not, but for what was covered, tracked, or must be covered."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.captures import Place, told

from checkpointer.workspace.reading.capture import Present
from checkpointer.workspace.reading.table import Table


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def paths(present: Present) -> set[bytes]:
    return set(told(present.tree)) - {b""}


def save(place: Place, **more: object) -> Present:
    """Save with the table; without it, and with it alone, nothing else may come out. Twice, so that it is settled."""
    fresh = place.look(**more)  # type: ignore[arg-type]
    present = place.save(**more)  # type: ignore[arg-type]
    again = place.look(table=Table.load(place.table_path), **more)  # type: ignore[arg-type]
    for other in (fresh, again):
        assert told(present.tree) == told(other.tree)
        assert present.tree.extras == other.tree.extras
        assert present.root == other.root
    return present


def git(place: Place, *arguments: str, where: str = ".") -> None:
    subprocess.run(
        ["git", "-c", "core.excludesFile=", *arguments], cwd=place.path / where, check=True, capture_output=True
    )


def test_what_git_ignores_is_not_ours(place: Place) -> None:
    place.write(".gitignore", b"*.log\nbuild/\n/only-here\n")
    for name in ("a.log", "build/out", "sub/build/out", "only-here", "sub/only-here", "keep", "sub/b.log"):
        place.write(name)
    assert paths(save(place)) == {b".gitignore", b"keep", b"sub", b"sub/only-here"}
    os.unlink(place.root + b"/a.log")
    place.write("c.log")
    place.write("buildx")
    assert paths(save(place)) == {b".gitignore", b"keep", b"sub", b"sub/only-here", b"buildx"}


def test_ignored_names_cost_no_look(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(".gitignore", b"*.log\n")
    for i in range(20):
        place.write(f"{i}.log")
    place.write("keep")
    time.sleep(0.15)
    place.save()
    place.save()

    def asked(*a: object) -> bool:
        raise AssertionError("matched again")

    from checkpointer.workspace.rules.directoryrules import DirectoryRules

    monkeypatch.setattr(DirectoryRules, "ignored", asked)
    place.write("0.log", b"changed")
    assert place.save().bytes_read == 0
    place.write("keep", b"changed")
    assert place.save().bytes_read == 7


def test_a_name_that_changes_its_kind_is_matched_anew(place: Place) -> None:
    place.write(".gitignore", b"build/\n")
    place.write("build/out")
    place.write("x/build/out")
    save(place)
    for directory in ("", "x/"):
        (place.path / directory / "build" / "out").unlink()
        (place.path / directory / "build").rmdir()
        place.write(f"{directory}build", b"a file now")
    assert {b"build", b"x/build"} <= paths(save(place))


def test_what_was_covered_stays_ours(place: Place) -> None:
    for name in ("secret.env", "logs/one", "logs/deep/two", "other"):
        place.write(name, b"1")
    save(place)
    place.write(".gitignore", b"*.env\nlogs/\n")
    place.write("logs/new", b"not ours")
    place.write("logs/deep/new", b"not ours")
    place.write("logs/more/new", b"not ours")
    place.write("second.env", b"not ours")
    place.write("secret.env", b"2")
    place.write("logs/deep/two", b"2")
    for _ in range(2):
        present = save(place)
        ours = {b"secret.env", b"logs", b"logs/one", b"logs/deep", b"logs/deep/two", b"other", b".gitignore"}
        assert paths(present) == ours
        assert told(present.tree)[b"logs/deep/two"][2] == b"2"
        assert present.ignored(b"logs/deep/two")
        assert present.ignored(b"secret.env")
        assert not present.ignored(b"other")
    os.unlink(place.root + b"/logs/one")
    assert b"logs/one" not in paths(save(place))
    place.write("logs/one", b"new again, and ignored")
    assert b"logs/one" not in paths(save(place))


def test_rules_that_change_are_obeyed(place: Place) -> None:
    place.write("d/.gitignore", b"x\n")
    place.write("d/x", b"1")
    place.write("d/deep/x", b"2")
    place.write("d/deep/y", b"3")
    assert paths(save(place)) == {b"d", b"d/.gitignore", b"d/deep", b"d/deep/y"}
    place.write("d/.gitignore", b"y\n")
    assert paths(save(place)) == {b"d", b"d/.gitignore", b"d/x", b"d/deep", b"d/deep/y", b"d/deep/x"}
    place.write("d/.ckptignore", b"z\n")
    place.write("d/deep/z", b"4")
    assert b"d/deep/z" not in paths(save(place))
    os.unlink(place.root + b"/d/.ckptignore")
    assert b"d/deep/z" in paths(save(place))
    place.write("e/f/env", b"5")
    place.write("e/.gitignore", b"env\n")
    assert b"e/f/env" not in paths(save(place))
    place.write(".ckptignore", b"!env\n")
    assert b"e/f/env" in paths(save(place))


def test_rules_outside_the_work_tree_that_change_are_obeyed(place: Place) -> None:
    git(place, "init", "-q")
    place.write("d/x", b"1")
    place.write("d/y", b"1")
    exclude = place.path / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("x\n")
    assert paths(save(place)) == {b"d", b"d/y"}
    exclude.write_text("")
    assert paths(save(place)) == {b"d", b"d/y", b"d/x"}


def test_what_git_tracks_is_ours(place: Place) -> None:
    git(place, "init", "-q")
    place.write(".gitignore", b"*.log\nvendor/\n")
    for name in ("a.log", "b.log", "vendor/in/a", "vendor/in/b", "vendor/c", "keep"):
        place.write(name, b"1")
    none = {b".gitignore", b"keep"}
    assert paths(save(place)) == none
    git(place, "add", "-f", "a.log", "vendor/in/a")
    tracked = none | {b"a.log", b"vendor", b"vendor/in", b"vendor/in/a"}
    assert paths(save(place)) == tracked
    time.sleep(0.15)
    place.write("vendor/in/a", b"2")
    assert told(save(place).tree)[b"vendor/in/a"][2] == b"2"
    git(place, "rm", "-q", "--cached", "-f", "a.log")
    assert paths(save(place)) == tracked, "what was covered stays ours"
    os.unlink(place.root + b"/vendor/in/a")
    assert b"vendor/in/a" not in paths(save(place))
    place.write("vendor/in/a", b"3")
    assert b"vendor/in/a" in paths(save(place)), "it is tracked still"


def test_what_a_nested_repository_tracks_is_ours(place: Place) -> None:
    place.write("sub/.gitignore", b"*.log\n")
    place.write("sub/deep/a.log", b"1")
    place.write("sub/deep/b.log", b"1")
    assert paths(save(place)) == {b"sub", b"sub/.gitignore", b"sub/deep"}
    git(place, "init", "-q", where="sub")
    git(place, "add", "-f", "deep/a.log", where="sub")
    assert paths(save(place)) == {b"sub", b"sub/.gitignore", b"sub/deep", b"sub/deep/a.log"}
    time.sleep(0.15)
    save(place)
    git(place, "add", "-f", "deep/b.log", where="sub")
    assert b"sub/deep/b.log" in paths(save(place))


def test_what_must_be_covered_is(place: Place) -> None:
    place.write(".gitignore", b"*.env\ncache/\n")
    for name in ("a.env", "b.env", "cache/in/x", "cache/in/y", "keep"):
        place.write(name, b"1")
    assert paths(save(place)) == {b".gitignore", b"keep"}
    time.sleep(0.15)
    save(place)
    must = [b"a.env", b"cache/in/x", b"absent", b"cache/absent/z"]
    expected = {b".gitignore", b"keep", b"a.env", b"cache", b"cache/in", b"cache/in/x"}
    assert paths(save(place, must_cover=must)) == expected
    assert paths(save(place)) == expected


def test_after_a_restore_elsewhere_on_the_timeline(place: Place) -> None:
    """The newest checkpoint may be one that no capture made: what it covers is ours."""
    place.write(".gitignore", b"*.env\n")
    place.write("a.env", b"1")
    place.write("d/b.env", b"1")
    place.write("keep", b"1")
    without = save(place)
    covered = save(place, must_cover=[b"a.env", b"d/b.env"])
    assert {b"a.env", b"d/b.env"} <= paths(covered)
    place.write("keep", b"2")
    save(place)
    time.sleep(0.15)
    save(place)
    table = Table.load(place.table_path)
    assert place.look(table=table, base=without.tree).root == place.look(base=without.tree).root
    assert paths(place.look(base=without.tree)) == {b".gitignore", b"keep", b"d"}
    table = Table.load(place.table_path)
    assert place.look(table=table, base=covered.tree).root == place.look(base=covered.tree).root


def test_names_next_to_git_are_plain(place: Place) -> None:
    for name in (".gitmodules", ".gitkeep", "sub/.github/x", ".git-credentials"):
        place.write(name, b"1")
    assert {b".gitmodules", b".gitkeep", b"sub/.github/x", b".git-credentials"} <= paths(save(place))
