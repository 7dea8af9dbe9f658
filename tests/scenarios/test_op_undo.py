"""Scenarios 140-151: the user's edits after the agent's, and what undo and redo mean."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from harness import gitrepo
from harness.manifest import same
from harness.world import World, paths_of

LINES = "".join(f"line {i}\n" for i in range(1, 31))


def test_s140_user_edits_elsewhere_are_kept_and_merged(world: World) -> None:
    world.write("a", LINES)
    world.write("b", "b\n")
    world.step("sed -i 's/^line 3$/AGENT/' a; echo agent > new")
    world.sh("sed -i 's/^line 25$/USER/' a")
    world.write("b", "the user's\n")
    world.write("c", "the user's\n")
    done = world.go("undo")
    assert paths_of(done.json["merged"]) == {b"a"}
    assert world.read("a").decode() == LINES.replace("line 25\n", "USER\n")
    assert world.read("b") == b"the user's\n"
    assert world.read("c") == b"the user's\n"
    assert not world.has("new")


def test_s141_a_conflict_changes_nothing_and_is_named(world: World) -> None:
    world.write("f", LINES)
    world.write("g", "1\n")
    world.step("sed -i 's/^line 3$/AGENT/' f; echo 2 > g")
    world.sh("sed -i 's/^AGENT$/USER/' f")
    before = world.files()
    refused = world.go("undo", ok=3)
    assert refused.error["code"] == "conflict"
    conflicts = refused.json.get("conflicts") or refused.error.get("conflicts")
    assert paths_of(conflicts) == {b"f"}
    assert "3" in str(conflicts[0]["lines"])
    words = world.ckpt("undo", ok=3)
    assert "undo --skip" in words.text
    assert "undo --force" in words.text
    same(before, world.files())
    skipped = world.go("undo", "--skip")
    assert paths_of(skipped.json["skipped"]) == {b"f"}
    assert world.read("g") == b"1\n"
    assert b"USER" in world.read("f")
    world.go("redo", to=before)


def test_s141_force_takes_a_copy_first(world: World) -> None:
    world.write("f", "base\n")
    base = world.files()
    world.step("echo agent > f")
    world.write("f", "the user's fix\n")
    fixed = world.files()
    done = world.go("undo", "--force", to=base)
    assert world.ckpt("cat", str(done.json["before"]), "f").stdout == b"the user's fix\n"
    world.go("redo", to=fixed)


@pytest.mark.parametrize("user", ["rm f", "chmod 600 f; echo u > f", "rm f; mkdir f; echo x > f/x", "rm f; ln -s g f"])
def test_s141_other_edits_of_the_same_path(world: World, user: str) -> None:
    world.write("f", "base\n")
    world.write("g", "1\n")
    world.step("echo agent > f; echo 2 > g")
    world.sh(user)
    edited = world.files()
    world.go("undo", ok=3)
    world.go("undo", "--skip")
    assert edited.differing(world.files()) == {b"g"}
    world.go("redo", to=edited)
    world.go("undo", "--force")
    assert world.read("f") == b"base\n"
    assert world.read("g") == b"1\n"
    world.go("redo", to=edited)


def test_s142_forced_undo_then_redo(world: World) -> None:
    world.write("f", "base\n")
    world.step("echo agent > f")
    world.write("f", "agent, mended\n")
    edited = world.files()
    world.go("undo", "--force")
    assert world.read("f") == b"base\n"
    world.go("redo", to=edited)


def test_s144_the_same_restore_twice(world: World) -> None:
    world.write("f", "1\n")
    world.write("g", "1\n")
    start = world.save()
    before = world.files()
    world.step("echo 2 > f; rm g")
    world.go("restore", str(start), to=before)
    world.write("f", "between\n")
    between = world.files()
    world.go("restore", str(start), to=before)
    listed = [line["checkpoint"] for line in world.ckpt("log", "--json", "--checkpoints").lines]
    assert start in listed
    world.go("undo", to=between)


def test_s145_a_commit_of_the_agent_stays(world: World) -> None:
    world.write("f", "1\n")
    gitrepo.init(world)
    before = world.files()
    world.step("echo 2 > f && git commit -q -am agent")
    head = world.sh("git rev-parse HEAD").strip()
    state = world.sh("git reflog --all; git for-each-ref")
    done = world.ckpt("undo")
    same(before, world.files())
    assert "git" in done.text
    assert head[:7] in done.text
    assert world.sh("git rev-parse HEAD").strip() == head
    assert world.sh("git reflog --all; git for-each-ref") == state


def test_s147_undo_and_redo_again_and_again(world: World) -> None:
    world.write("f", "1\n")
    world.write("gone", "x\n")
    world.write("mode", "x\n", 0o644)
    os.symlink("f", world.at("l"))
    before = world.files()
    world.step("echo 2 > f; rm gone; chmod 755 mode; ln -sfn gone l; mkdir -p new/empty")
    after = world.files()
    for _ in range(3):
        world.go("undo", to=before)
        world.go("redo", to=after)
    refused = world.go("redo", ok=1)
    assert refused.error["code"] == "nothing-to-redo"


def test_s147_a_walk_back_and_forth_over_many_turns(world: World) -> None:
    world.write("f", "0\n")
    states = [world.files()]
    for i in range(1, 6):
        world.step(f"echo {i} >> f; echo {i} > n{i}; rm -f n{i - 2}; mkdir d{i}")
        states.append(world.files())
    for state in reversed(states[:-1]):
        world.go("undo", to=state)
    world.go("undo", ok=1)
    for state in states[1:]:
        world.go("redo", to=state)
    world.go("redo", ok=1)
    world.go("undo", "t3..", to=states[2])
    world.go("redo", to=states[5])


STATES: dict[str, Callable[[World], None]] = {
    "unborn": lambda w: gitrepo.init(w, commit=False),
    "detached": lambda w: (gitrepo.init(w), w.sh("git checkout -q --detach"))[0],
    "rebase": lambda w: (gitrepo.init(w), gitrepo.rebase_in_progress(w))[0],
    "merge": lambda w: (gitrepo.init(w), gitrepo.merge_in_progress(w))[0],
    "bisect": lambda w: (gitrepo.init(w), w.sh("git bisect start -q && git bisect bad"))[0],
    "bare-like": lambda w: w.sh("git init -q --separate-git-dir=../elsewhere ."),
}


@pytest.mark.parametrize("state", STATES)
def test_s148_whatever_git_is_in_the_middle_of(world: World, state: str) -> None:
    world.write("x", "1\n")
    STATES[state](world)
    before, told = world.files(), gitrepo.state(world)
    world.step("echo agent >> x; echo new > made")
    after = world.files()
    world.go("undo", to=before)
    world.go("redo", to=after)
    world.go("undo", to=before)
    assert gitrepo.state(world) == told


def test_s148_another_branch_asks(world: World) -> None:
    world.write("x", "1\n")
    gitrepo.init(world)
    world.step("echo agent > x")
    world.sh("git checkout -q -b other")
    refused = world.go("undo", ok=3)
    assert "--force" in " ".join(refused.error["next"]) + refused.error["message"]
    world.go("undo", "--force")
    assert world.read("x") == b"1\n"


def test_s150_redo_after_a_new_step_is_refused(world: World) -> None:
    world.write("f", "1\n")
    world.step("echo 2 > f")
    second = world.files()
    world.go("undo")
    world.step("echo 3 > g")
    refused = world.go("redo", ok=1)
    assert refused.error["code"] == "nothing-to-redo"
    assert refused.error["next"]
    world.go("restore", "t1", to=second)


def test_s150_an_undone_turn_can_be_applied_again_by_name(world: World) -> None:
    world.write("f", "1\n")
    world.step("echo 2 > f")
    world.go("undo")
    world.step("echo 3 > g")
    world.go("redo", "t1")
    assert world.read("f") == b"2\n"
    assert world.read("g") == b"3\n"


@pytest.mark.parametrize("script", ["git commit -q --amend -am amended", "git reset -q --hard", "git stash -q"])
def test_s151_git_moves_stay_and_are_said(world: World, script: str) -> None:
    world.write("f", "1\n")
    gitrepo.init(world)
    world.write("f", "2, not committed\n")
    before = world.files()
    world.step(f"echo agent > g; {script}")
    state = world.sh("git log --all --format=%H; git reflog --all; git stash list; git for-each-ref")
    done = world.ckpt("undo")
    same(before, world.files())
    assert world.sh("git log --all --format=%H; git reflog --all; git stash list; git for-each-ref") == state
    if "reset" not in script:
        assert "git" in done.text


def test_the_fourth_undo_after_three_turns(world: World) -> None:
    world.write("f", "0\n")
    for i in range(1, 4):
        world.step(f"echo {i} > f")
    for _ in range(3):
        world.go("undo")
    refused = world.ckpt("undo", ok=1)
    assert "nothing to undo" in refused.text
    assert world.read("f") == b"0\n"


def test_edits_are_undone_before_any_run(world: World) -> None:
    world.write("f", "1\n")
    world.save()
    first = world.files()
    world.write("f", "2\n")
    world.save()
    second = world.files()
    world.write("f", "3\n")
    third = world.files()
    world.go("undo", to=second)
    world.go("undo", to=first)
    world.go("redo", to=second)
    world.go("redo", to=third)


def test_undo_of_one_path(world: World) -> None:
    world.write("a", "1\n")
    world.write("b", "1\n")
    world.step("echo 2 > a; echo 2 > b")
    after = world.files()
    world.go("undo", "--", "a")
    assert (world.read("a"), world.read("b")) == (b"1\n", b"2\n")
    world.go("undo")
    assert (world.read("a"), world.read("b")) == (b"1\n", b"1\n")
    world.go("redo")
    world.go("redo", to=after)


def test_restore_elsewhere_touches_nothing(world: World) -> None:
    world.write("f", "1\n")
    world.write("d/g", "1\n", 0o755)
    os.symlink("f", world.at("l"))
    os.mkdir(world.at("empty"))
    number = world.save()
    before = world.files()
    world.write("f", "2\n")
    edited = world.files()
    world.ckpt("restore", str(number), "--to", str(world.base / "elsewhere"))
    same(edited, world.files())
    other = World(world.base, root=world.base / "elsewhere").files()
    assert other.without(b"").told() == before.without(b"").told()


def test_restore_of_one_folder(world: World) -> None:
    world.write("d/a", "1\n")
    world.write("d/b", "1\n")
    world.write("e", "1\n")
    number = world.save()
    world.write("d/a", "2\n")
    world.rm("d/b")
    world.write("d/c", "made\n")
    world.write("e", "2\n")
    edited = world.files()
    world.go("restore", str(number), "--", "d")
    assert (world.read("d/a"), world.read("d/b"), world.read("e")) == (b"1\n", b"1\n", b"2\n")
    assert not world.has("d/c")
    world.go("undo", to=edited)
