"""Scenarios 1-15: a restore must not lose what it was not asked to touch.

Where the design means something else than the line: a restore of the whole workspace (14) removes files made since and
says so, and is itself undone.
"""

from __future__ import annotations

import os
import time

import pytest
from harness import gitrepo
from harness.machine import SLOW, fill, needs_root, tmpfs, wait_until
from harness.manifest import same
from harness.world import World, paths_of


def test_s001_only_what_the_step_changed_is_written(world: World) -> None:
    world.write("projA/a.txt", "one\n")
    world.write("projB/b.txt", "two\n")
    world.write("loose.bin", bytes(range(256)))
    before = world.files()
    world.step("echo changed > projA/a.txt")
    plan = world.go("undo", "-n").json
    assert paths_of(plan["written"]) == {b"projA/a.txt"}
    assert not plan["removed"]
    done = world.go("undo", to=before).json
    assert paths_of(done["written"]) == {b"projA/a.txt"}


def test_s001_the_plan_is_listed_in_words(world: World) -> None:
    world.write("a", "1")
    world.write("b", "1")
    world.step("echo 2 > a")
    plan = world.ckpt("undo", "-n")
    assert "would" in plan.text
    assert "a" in plan.text
    done = world.ckpt("undo")
    assert "undid" in done.out


def test_s002_a_capture_killed_in_the_middle_is_no_target(world: World) -> None:
    count = 50_000 if SLOW else 3_000
    for i in range(count):
        world.write(f"d{i % 50}/f{i}", f"content of {i}\n" * 3)
    world.watch_git = False
    for pause in (0, 0.05, 0.15, 0.3):
        world.killed("save", after=pause)
    before = world.files()
    world.step("echo edited > d1/f1")
    world.go("undo", to=before)
    assert len(world.files()) == len(before)


@needs_root
def test_s002_a_file_that_cannot_be_read_makes_no_smaller_tree(nobody: World) -> None:
    nobody.write("a", "1\n")
    nobody.write("b", "kept\n")
    nobody.save()
    os.chmod(nobody.at("b"), 0)
    before = nobody.files()
    nobody.step("echo 2 > a")
    nobody.go("undo", to=before)
    os.chmod(nobody.at("b"), 0o644)
    assert nobody.read("b") == b"kept\n"
    assert nobody.ckpt("cat", "1", "b").stdout == b"kept\n"


def test_s003_a_nested_repository_without_a_commit_hides_nothing(world: World) -> None:
    gitrepo.init(world, commit=False)
    world.write("f", "v1")
    first = world.save()
    world.write("f", "v2")
    world.sh("git init -q sub && touch sub/x")
    second = world.save()
    assert second != first
    before = world.files()
    names = world.ckpt("diff", str(first), str(second), "--name-only").out.split()
    assert {"f", "sub/x"} <= set(names)
    world.ckpt("restore", "--json", str(second), ok=(0, 1))
    same(before, world.files())
    assert world.read("f") == b"v2"


@needs_root
def test_s004_an_unreadable_file_is_named_and_the_rest_protected(nobody: World) -> None:
    nobody.write("a", "mine\n", 0o644)
    nobody.write("b", "closed\n", 0o000)
    before = nobody.files()
    run = nobody.step("echo agent > a")
    assert "b" in run.err
    uncovered = nobody.ckpt("save", "--json").json["uncovered"]
    assert [(u["path"], u["reason"]) for u in uncovered] == [("b", "unreadable")]
    done = nobody.go("undo", to=before)
    assert paths_of(done.json["uncovered"]) == {b"b"}


@needs_root
def test_s004_a_folder_that_cannot_be_listed_is_not_an_empty_one(nobody: World) -> None:
    nobody.write("a", "1")
    nobody.save()
    os.chmod(nobody.root, 0o300)
    failed = nobody.ckpt("save", "--json", ok=(1,))
    assert failed.error["code"] in ("capture-failed", "failed")
    os.chmod(nobody.root, 0o755)
    os.mkdir(nobody.at("d"))
    nobody.write("d/x", "1")
    second = nobody.save()
    os.chmod(nobody.at("d"), 0o000)
    nobody.write("a", "2")
    third = nobody.save()
    os.chmod(nobody.at("d"), 0o755)
    assert nobody.ckpt("cat", str(second), "d/x").stdout == b"1"
    assert nobody.ckpt("cat", str(third), "d/x").stdout == b"1"


def test_s006_what_is_ignored_now_is_not_deleted(world: World) -> None:
    gitrepo.init(world, commit=False)
    world.write("x", "1")
    start = world.save()
    world.write(".gitignore", "data/\n")
    for name in "123":
        world.write(f"data/{name}", name)
    world.step("echo 2 > x")
    world.go("restore", str(start))
    assert world.read("x") == b"1"
    assert [world.read(f"data/{n}") for n in "123"] == [b"1", b"2", b"3"]


def test_s006_what_the_target_ignores_is_not_deleted(world: World) -> None:
    gitrepo.init(world, commit=False)
    world.write(".gitignore", "data/\n")
    start = world.save()
    world.rm(".gitignore")
    world.write("data/1", "made while nothing ignored it")
    world.save()
    done = world.go("restore", str(start))
    assert world.has("data/1")
    assert b"data/1" in paths_of(done.json["kept"])


def test_s007_an_ignore_source_that_fails_protects_everything(world: World) -> None:
    gitrepo.init(world)
    (world.home / "ignores").mkdir()
    world.gitconfig(f"[core]\n\texcludesFile = {world.home}/ignores\n")
    world.write("a.log", "1")
    os.symlink("elsewhere", world.at("link"))
    os.mkdir(world.at(".gitignore"))
    before = world.files()
    world.step("echo 2 > a.log; echo new > b.log")
    world.go("undo", to=before)


def test_s007_a_rule_behind_a_symlink_is_no_error(world: World) -> None:
    os.makedirs(world.base / "out")
    (world.base / "out/.gitignore").write_text("*\n")
    os.symlink("../out", world.at("l"))
    os.symlink("../out/.gitignore", world.at(".gitignore"))
    world.write("a", "1")
    before = world.files()
    world.step("echo 2 > a")
    world.go("undo", to=before)


def test_s007_a_file_ignored_after_the_step_is_kept_and_named(world: World) -> None:
    gitrepo.init(world, commit=False)
    world.write("a", "1")
    world.step("echo token > secret.txt; echo 2 > a")
    world.write(".gitignore", "secret.txt\n")
    done = world.go("undo")
    assert world.read("secret.txt") == b"token\n"
    assert b"secret.txt" in paths_of(done.json["kept"])
    assert world.read("a") == b"1"
    assert world.read(".gitignore") == b"secret.txt\n"


def test_s009_a_user_file_made_after_a_failed_step_stays(world: World) -> None:
    world.write("a", "1")
    world.step("cat notes.txt", ok=1)
    world.write("notes.txt", "mine\n")
    refused = world.go("undo", ok=1)
    assert refused.error["code"] == "nothing-to-undo"
    assert "nothing to undo" in world.ckpt("undo", ok=1).text
    assert world.read("notes.txt") == b"mine\n"


def test_s009_an_earlier_turn_goes_back_without_the_user_file(world: World) -> None:
    world.write("a", "1")
    world.step("echo 2 > a")
    world.step("cat notes.txt", ok=1)
    world.write("notes.txt", "mine\n")
    world.go("undo")
    assert world.read("a") == b"1"
    assert world.read("notes.txt") == b"mine\n"


def test_s010_missing_objects_are_named_and_nothing_is_touched(world: World) -> None:
    world.damaged = True
    world.write("f", "line 1\nline 2\nline 3\n")
    world.step("sed -i s/2/two/ f")
    packs = sorted((world.store / "shadow.git/objects/pack").iterdir(), key=lambda p: p.stat().st_mtime_ns)
    oldest = packs[0].name.partition(".")[0]
    for part in packs:
        if part.name.startswith(oldest):
            part.unlink()
    refused = world.go("undo", ok=5)
    assert refused.error["code"] in ("missing-object", "damaged")
    assert "1" in refused.error["message"]


def test_s010_a_second_ckpt_deletes_nothing_of_a_live_session(world: World) -> None:
    world.write("f", "1")
    before = world.files()
    script = "echo 2 > f; touch ../first; while [ ! -e ../go ]; do sleep 0.05; done; echo 3 > f"
    with world.popen("run", "--", "sh", "-c", script) as process:
        wait_until((world.base / "first").exists, 20, "the step")
        world.ckpt("gc", "--yes", ok=(0, 4))
        world.ckpt("status")
        (world.base / "go").touch()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    world.go("undo", to=before)


@needs_root
def test_s012_steps_without_capture_are_not_undone(nobody: World) -> None:
    nobody.write("a", "1")
    for i in range(35):
        nobody.write(f"many/f{i}", "0")
    nobody.step("echo 2 > a")
    store = nobody.store
    nobody.sh(f"chmod -R a-w {store}")
    refused = nobody.ckpt("run", "--", "sh", "-c", "echo 3 > a", ok=125)
    assert "Traceback" not in refused.err
    assert nobody.read("a") == b"2\n"
    for i in range(3):
        nobody.ckpt("run", "--unprotected", "--", "sh", "-c", f"for f in many/*; do echo {i} >> $f; done")
    nobody.sh(f"chmod -R u+w {store}")
    now = nobody.files()
    nobody.go("undo")
    assert nobody.read("a") == b"1"
    assert now.differing(nobody.files()) == {b"a"}


def test_s012_a_stale_lock_is_broken_once_and_said(world: World) -> None:
    world.write("a", "1")
    world.save()
    lock = world.store / "shadow.git/refs/heads/timeline.lock"
    lock.touch()
    os.utime(lock, (time.time() - 600, time.time() - 600))
    before = world.files()
    said = world.step("echo 2 > a")
    assert "lock" in said.err
    assert not lock.exists()
    world.go("undo", to=before)


def test_s013_commits_between_two_steps_stay(world: World) -> None:
    for i in range(10):
        world.write(f"f{i}", "".join(f"line {n}\n" for n in range(20)))
    gitrepo.init(world)
    world.step("sed -i 's/line 3/THREE/' f0")
    for i in range(10):
        world.sh(f"echo user >> f{i}")
    gitrepo.commit_all(world, "by the user")
    before = world.files()
    world.step("sed -i 's/line 10/TEN/' f5")
    state = gitrepo.state(world)
    world.go("undo", to=before)
    assert world.sh("git diff --stat HEAD") == ""
    assert state != gitrepo.state(world)  # only f5 was modified before


def test_s014_files_made_outside_come_back_from_a_restore(world: World) -> None:
    start = world.save()
    for i in range(200):
        world.write(f"mine/{i}", f"by hand {i}")
    world.step("echo agent > agent.txt")
    before = world.files()
    plan = world.ckpt("restore", "-n", str(start))
    assert "mine/" in plan.text
    done = world.go("restore", str(start))
    assert len(done.json["removed"]) >= 201
    assert set(world.files()) == {b""}
    world.go("undo", to=before)


def test_s014_the_agents_part_alone(world: World) -> None:
    world.save()
    world.step("echo agent > agent.txt")
    for i in range(20):
        world.write(f"mine/{i}", f"by hand {i}")
    before = world.files()
    world.go("undo", "t1..", to=before.without(b"agent.txt"))


def test_s015_no_space_in_the_workspace(world: World) -> None:
    with tmpfs(world.base / "small", "4m") as small:
        world.root = small / "w"
        world.root.mkdir()
        big = os.urandom(1 << 20)
        world.write("f", big)
        before = world.files()
        world.step("echo small > f")
        fill(small / "filler")
        refused = world.go("undo", ok=1)
        assert refused.error["code"] == "no-space"
        (small / "filler").unlink()
        world.go("undo", to=before)


@pytest.mark.parametrize("many", [3, 40])
def test_s015_no_space_for_one_of_many_replaces_none(world: World, many: int) -> None:
    with tmpfs(world.base / "small", "4m") as small:
        world.root = small / "w"
        world.root.mkdir()
        for i in range(many):
            world.write(f"f{i:02}", os.urandom((2 << 20) // many))
        before = world.files()
        world.step("for f in f*; do echo x > $f; done")
        fill(small / "filler", leave=1 << 20)
        world.go("undo", ok=1)
        (small / "filler").unlink()
        world.go("undo", to=before)
