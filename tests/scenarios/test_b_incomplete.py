"""Scenarios 16-27: a restore brings everything back, however it was changed."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from harness import gitrepo
from harness.world import World, paths_of


def test_s016_edits_by_shell_tools(world: World) -> None:
    world.write("b.py", "b = 1\n")
    world.write("d", "d\n")
    before = world.files()
    world.step(
        """cat > a.py <<'X'
a = 1
X
sed -i s/1/2/ b.py
python3 -c 'open("c.py", "w").write("c")'
mv d e
"""
    )
    assert not world.has("d")
    world.go("undo", to=before)


@pytest.mark.parametrize("git", [True, False], ids=["git", "plain"])
def test_s018_an_untracked_file_of_the_agent(world: World, git: bool) -> None:
    world.write("tracked", "x")
    if git:
        gitrepo.init(world)
    world.step("echo v1 > n.txt")
    before = world.files()
    world.step("echo v2 > n.txt")
    world.go("undo", to=before)
    assert world.read("n.txt") == b"v1\n"


def test_s019_many_kinds_of_change_in_one_step(world: World) -> None:
    for folder in "wxyz":
        for i in range(4):
            world.write(f"{folder}/f{i}", f"{folder}{i}\n", 0o640 if i % 2 else 0o755)
        os.symlink("f0", world.at(f"{folder}/l"))
    os.mkdir(world.at("empty"))
    before = world.files()
    world.step(
        "for d in w x y z; do for i in 0 1 2; do echo more >> $d/f$i; done; done;"
        "echo 1 > new1; echo 2 > w/new2; mkdir -p deep/er; echo 3 > deep/er/new3; rm w/f3 x/f3;"
        "ln -sf f1 w/l; chmod 600 x/f0; rmdir empty; chmod 700 y"
    )
    world.go("undo", to=before)
    assert {b"empty", b"w/f3"} <= set(world.files())


def test_s021_restore_removes_what_was_made_and_names_the_users(world: World) -> None:
    world.write("a", "1")
    start = world.save()
    before = world.files()
    world.step("mkdir -p n; echo 1 > n/n1; echo 2 > n/n2; echo 3 > n3; echo 2 > a")
    world.write("mine", "by hand")
    with_mine = world.files()
    plan = world.ckpt("restore", "-n", str(start))
    assert "mine" in plan.text
    world.go("restore", str(start), to=before)
    world.go("undo", to=with_mine)
    world.go("undo", "t1..")
    assert world.read("a") == b"1"
    assert set(world.files()) == {b"", b"a", b"mine"}


def test_s022_names_are_literal(world: World) -> None:
    names = ["a*b", "axxb", ":(top)x", "-n"]
    for name in names:
        world.write(name, "1")
    start = world.save()
    for name in names:
        world.write(name, "2")
    world.go("restore", str(start), "--", "a*b")
    assert [world.read(n) for n in names] == [b"1", b"2", b"2", b"2"]
    world.go("restore", str(start), "--", "-n")
    world.go("restore", str(start), "--", ":(top)x")
    assert [world.read(n) for n in names] == [b"1", b"2", b"1", b"1"]


def test_s022_a_foreign_checkpoint_is_refused(world: World, worlds: Callable[..., World]) -> None:
    other = worlds()
    other.write("x", "other")
    foreign = other.ckpt("save", "--json").json["commit"]
    world.write("a", "1")
    world.save()
    world.write("a", "2")
    for handle in (foreign, foreign[:12], "99", "t9", "r9", "no such label"):
        refused = world.go("restore", handle, ok=2)
        assert refused.error["exit"] == 2
        assert refused.error["message"]


def test_s024_a_deleted_untracked_file(world: World) -> None:
    gitrepo.init(world)
    world.write("u.txt", "untracked")
    first = world.save()
    before = world.files()
    world.step("rm u.txt")
    second = world.save()
    assert first != second
    world.ckpt("diff", str(first), str(second), "--exit-code", ok=1)
    assert world.ckpt("diff", str(first), str(second), "--name-only").out.split() == ["u.txt"]
    world.go("undo", to=before)


def test_s025_binaries_and_dot_files_without_rules(world: World) -> None:
    for name, size in (("logo.png", 5000), ("model.onnx", 12 << 20), ("app.log", 900), (".env", 60)):
        world.write(name, os.urandom(size))
    before = world.files()
    world.step("for f in logo.png model.onnx app.log .env; do head -c 100000 /dev/urandom > $f; done")
    world.go("undo", to=before)


def test_s025_ignored_files_are_brought_back_where_they_are_ours(world: World) -> None:
    world.write("app.log", "tracked though ignored")
    gitrepo.init(world)
    world.write(".gitignore", "*.log\n.env\nlocal.cfg\n")
    world.write(".ckptignore", "!.env\n")
    world.write(".env", "SECRET=1")
    world.write("local.cfg", "not ours")
    world.step("echo x > app.log; echo x > .env; echo x > local.cfg")
    done = world.go("undo")
    assert world.read("app.log") == b"tracked though ignored"
    assert world.read(".env") == b"SECRET=1"
    assert world.read("local.cfg") == b"x\n"
    assert paths_of(done.json["written"]) == {b"app.log", b".env"}


def test_s027_back_to_an_empty_folder(world: World) -> None:
    start = world.save()
    before = world.files()
    assert set(before) == {b""}
    world.step("echo 1 > a; mkdir d; echo 2 > d/b; echo 3 > c")
    world.go("restore", str(start), to=before)
