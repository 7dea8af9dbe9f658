"""Scenarios 39-52: symlinks, modes, empty directories, hard links, special files."""

from __future__ import annotations

import os
import socket

import pytest
from harness import gitrepo
from harness.manifest import Manifest, same, untouched
from harness.world import World, paths_of


def outside(world: World) -> Manifest:
    return Manifest.of(world.base / "out")


def test_s039_a_link_that_became_a_folder(world: World) -> None:
    os.mkdir(world.base / "out")
    (world.base / "out/keep").write_text("precious")
    os.symlink("../out", world.at("lib"))
    world.write("a", "1")
    before, precious = world.files(), outside(world)
    world.step("rm lib; mkdir lib; echo x > lib/keep")
    after = world.files()
    world.go("undo", to=before)
    world.go("redo", to=after)
    world.go("undo", to=before)
    same(precious, outside(world))
    untouched(precious, outside(world), set())


def test_s040_a_folder_that_became_a_link(world: World) -> None:
    os.mkdir(world.base / "out")
    (world.base / "out/other").write_text("theirs")
    world.write("lib/a", "1\n")
    world.write("lib/deep/b", "2\n")
    before, precious = world.files(), outside(world)
    world.step("mv lib ../stash; ln -s ../out lib")
    after = world.files()
    world.go("undo", to=before)
    world.go("redo", to=after)
    world.go("undo", to=before)
    same(precious, outside(world))
    untouched(precious, outside(world), set())


def test_s042_writing_through_a_link(world: World) -> None:
    world.write("target.txt", "old\n")
    os.symlink("target.txt", world.at("link.txt"))
    before = world.files()
    world.step("echo x > link.txt")
    done = world.go("undo", to=before)
    assert paths_of(done.json["written"]) == {b"target.txt"}


def test_s042_a_target_outside_is_outside(world: World) -> None:
    os.mkdir(world.base / "out")
    (world.base / "out/t").write_text("old\n")
    os.symlink("../out/t", world.at("link.txt"))
    world.step("echo x > link.txt")
    world.go("undo", ok=1)
    assert (world.base / "out/t").read_text() == "x\n"


def test_s043_a_path_through_a_link_is_not_stored_twice(world: World) -> None:
    world.write("real/f", "1\n")
    os.symlink("real", world.at("l"))
    world.step("echo 2 > l/f")
    stored = world.shadow("ls-tree", "-r", "--name-only", "timeline:files").split()
    assert stored == ["l", "real/f"]
    assert world.shadow("cat-file", "-p", "timeline:files/l") == "real"


def test_s045_executable_scripts_stay_executable(world: World) -> None:
    for i in range(57):
        world.write(f"bin/s{i}", f"#!/bin/sh\necho {i}\n", 0o755)
    gitrepo.init(world)
    before = world.files()
    world.step("for f in bin/*; do echo '# more' >> $f; done")
    world.go("undo", to=before)
    assert world.sh("GIT_OPTIONAL_LOCKS=0 git diff --summary") == ""


@pytest.mark.parametrize(
    ("first", "second"),
    [(0o644, 0o755), (0o755, 0o644), (0o600, 0o644), (0o644, 0o640), (0o444, 0o644), (0o4755, 0o755), (0o666, 0o777)],
    ids=lambda m: f"{m:o}",
)
def test_s046_mode_only(world: World, first: int, second: int) -> None:
    world.write("s.sh", "#!/bin/sh\n", first)
    world.write("other", "x", 0o644)
    before = world.files()
    world.step(f"chmod {second:o} s.sh")
    after = world.files()
    assert before.differing(after) == {b"s.sh"}
    world.go("undo", to=before)
    world.go("redo", to=after)
    world.go("undo", to=before)


@pytest.mark.parametrize(("first", "second"), [(0o755, 0o700), (0o700, 0o755), (0o1777, 0o755), (0o2775, 0o755)])
def test_s046_mode_of_a_folder_only(world: World, first: int, second: int) -> None:
    world.write("d/f", "x")
    os.chmod(world.at("d"), first)
    os.mkdir(world.at("empty"))
    os.chmod(world.at("empty"), first)
    before = world.files()
    world.step(f"chmod {second:04o} d; chmod {second:04o} empty; chmod ug-s d empty || true; chmod {second:o} d empty")
    after = world.files()
    world.go("undo", to=before)
    world.go("redo", to=after)


def test_s046_mode_of_the_root(world: World) -> None:
    world.write("f", "x")
    os.chmod(world.root, 0o750)
    before = world.files()
    world.step("chmod 755 .; echo 2 > f")
    world.go("undo", to=before)


def test_s046_edited_content_keeps_a_mode_changed_later(world: World) -> None:
    world.write("s", "1\n", 0o644)
    world.step("echo 2 > s")
    os.chmod(world.at("s"), 0o755)
    world.go("undo")
    assert world.read("s") == b"1\n"
    assert os.stat(world.at("s")).st_mode & 0o777 == 0o755


def test_s048_hard_links(world: World) -> None:
    world.write("h1", "old\n")
    os.link(world.at("h1"), world.at("h2"))
    os.link(world.at("h1"), world.base / "outside-link")
    before = world.files()
    world.step("echo new > h1")
    assert world.read("h2") == b"new\n"
    done = world.go("undo", to=before)
    one, two = os.stat(world.at("h1")), os.stat(world.at("h2"))
    if one.st_ino != two.st_ino:
        assert "link" in world.ckpt("redo").text or "link" in done.text or "link" in str(done.json)
    assert (world.base / "outside-link").read_text() == "new\n"  # nothing is written through a hard link


def test_s049_a_socket_is_left_alone(world: World) -> None:
    world.write("a", "1")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(os.fsdecode(world.at("app.sock")))
        before = world.files()
        world.step("echo 2 > a")
        done = world.go("undo", to=before)
        uncovered = [(u["path"], u["reason"]) for u in done.json["uncovered"]]
        assert uncovered == [("app.sock", "socket")]
        start = world.save()
        os.mkdir(world.at("new"))
        world.go("restore", str(start))
        assert world.has("app.sock")


def test_s049_a_socket_in_the_way_is_a_conflict(world: World) -> None:
    world.write("a", "1")
    world.step("rm a")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(os.fsdecode(world.at("a")))
        world.go("undo", ok=3)


def test_s051_nothing_waits_for_a_fifo(world: World) -> None:
    world.write("a", "1")
    os.mkfifo(world.at("p"), 0o600)
    before = world.files()
    quick = {"timeout": 10.0}
    world.step("echo 2 > a; mkfifo q", **quick)
    for verb in ("status", "log", "show", "diff", "verify", "workspaces"):
        world.ckpt(verb, **quick)
    world.ckpt("cat", "1", "p", ok=(0, 1, 2), **quick)
    world.go("undo", to=before, **quick)
    after = world.files()
    world.rm("p")
    world.save(**quick)
    world.go("restore", "t1-", to=after, **quick)


def test_s052_a_file_that_became_a_fifo(world: World) -> None:
    world.write("f", "old bytes\n", 0o640)
    before = world.files()
    world.step("rm f; mkfifo f", timeout=10.0)
    after = world.files()
    world.go("undo", to=before, timeout=10.0)
    world.go("redo", to=after, timeout=10.0)


KINDS = {
    "absent": "rm -rf x",
    "file": "rm -rf x; printf 'content' > x",
    "other-file": "rm -rf x; printf 'other' > x; chmod 755 x",
    "empty-file": "rm -rf x; : > x",
    "link": "rm -rf x; ln -s y x",
    "dangling-link": "rm -rf x; ln -s nowhere/at/all x",
    "dir": "rm -rf x; mkdir x",
    "full-dir": "rm -rf x; mkdir -p x/deep/er; echo 1 > x/deep/f; ln -s f x/deep/l; mkdir x/empty",
    "fifo": "rm -rf x; mkfifo x",
}


@pytest.mark.parametrize("first", list(KINDS)[:-1])
def test_every_kind_becomes_every_kind(world: World, first: str) -> None:
    """Forth by the undo of a restore, back by the restore: each pair of kinds both ways."""
    world.write("y", "stays\n")
    world.sh(KINDS[first])
    start = world.save()
    before = world.files()
    for second in list(KINDS)[list(KINDS).index(first) + 1 :]:
        world.sh(KINDS[second])
        after = world.files()
        world.go("restore", str(start), to=before, timeout=20.0)
        world.go("undo", to=after, timeout=20.0)
