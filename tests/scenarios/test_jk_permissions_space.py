"""Scenarios 105 and 106: what may not be written, and a full disk."""

from __future__ import annotations

import os
import time

from harness.machine import needs_root, tmpfs
from harness.manifest import same
from harness.world import World, paths_of


@needs_root
def test_s105_a_read_only_file_in_a_read_only_folder(nobody: World) -> None:
    nobody.write("d/f", "old\n", 0o444)
    nobody.write("e", "old\n")
    os.chmod(nobody.at("d"), 0o555)
    before = nobody.files()
    nobody.step("chmod u+w d/f; echo new > d/f; chmod u-w d/f; echo new > e")
    edited = nobody.files()
    done = nobody.ckpt("undo", "--json", ok=(0, 1))
    if done.status:
        assert b"d/f" in done.stdout + done.stderr
        same(edited, nobody.files())
        os.chmod(nobody.at("d"), 0o755)
        nobody.go("undo")
        os.chmod(nobody.at("d"), 0o555)
    same(before, nobody.files())


@needs_root
def test_s105_a_folder_of_somebody_else(nobody: World) -> None:
    nobody.write("theirs/f", "old\n", 0o644)
    nobody.write("mine", "old\n")
    before = nobody.files()
    nobody.step("echo new > theirs/f; echo new > mine")
    for path in ("theirs", "theirs/f"):
        os.chown(nobody.at(path), 0, 0)
    refused = nobody.go("undo", ok=1)
    assert b"theirs" in refused.stdout + refused.stderr
    assert nobody.ckpt("log", "--checkpoints").out
    nobody.own()
    nobody.go("undo", to=before)


@needs_root
def test_s105_a_file_of_somebody_else_in_my_folder(nobody: World) -> None:
    nobody.write("f", "old\n", 0o644)
    before = nobody.files()
    nobody.step("echo new > f")
    os.chown(nobody.at("f"), 0, 0)
    edited = nobody.files()
    done = nobody.ckpt("undo", "--json", ok=(0, 1))
    same(before if done.status == 0 else edited, nobody.files())


@needs_root
def test_s105_a_whole_workspace_that_may_not_be_written(nobody: World) -> None:
    nobody.write("f", "old\n")
    nobody.step("echo new > f")
    for path in ("", "f"):
        os.chown(nobody.at(path), 0, 0)
    refused = nobody.go("undo", ok=1)
    assert refused.error["message"]
    nobody.ckpt("status")
    nobody.ckpt("diff")


@needs_root
def test_s105_root_brings_back_another_users_files(world: World) -> None:
    world.write("f", "old\n", 0o640)
    world.write("d/g", "old\n")
    for path in ("", "f", "d", "d/g"):
        os.chown(world.at(path), 1234, 4321)
    before = world.files()
    world.step("echo new > f; rm d/g")
    world.go("undo", to=before)
    st = os.stat(world.at("f"))
    assert (st.st_uid, st.st_gid) == (1234, 4321)


def test_s106_the_stores_disk_is_full(world: World) -> None:
    with tmpfs(world.base / "small", "8m") as small:
        world.env["CKPT_HOME"] = str(small / "state")
        world.state = small / "state"
        world.write("f", "start\n")
        world.save()
        last = b""
        failed = None
        for _ in range(30):
            content = os.urandom(1 << 20)
            world.write("big", content)
            start = time.process_time(), time.monotonic()
            done = world.ckpt("save", "--json", ok=(0, 1))
            if done.status:
                failed = done
                break
            last = content
            assert time.monotonic() - start[1] < 30
        assert failed is not None, "30 MB fitted on 8 MB"
        assert failed.error["code"] == "no-space"
        assert "gc" in " ".join(failed.error["next"])
        world.sound()
        run = world.ckpt("run", "--", "sh", "-c", "touch started", ok=125)
        assert "Traceback" not in run.err
        assert not world.has("started")
        status = world.ckpt("status", ok=(0, 1))
        assert status.text
        present = world.files()
        refused = world.ckpt("restore", "--json", "1", ok=(0, 1))
        if refused.status:
            same(present, world.files())
        world.ckpt("log")
        assert world.ckpt("cat", "1", "f").stdout == b"start\n"
        newest = world.ckpt("log", "--json", "--checkpoints").lines[0]["checkpoint"]
        assert world.ckpt("cat", str(newest), "big").stdout == last
    world.damaged = True  # it went with its file system


def test_s106_a_run_whose_end_finds_no_space(world: World) -> None:
    with tmpfs(world.base / "small", "8m") as small:
        world.env["CKPT_HOME"] = str(small / "state")
        world.state = small / "state"
        world.write("f", "start\n")
        world.save()
        run = world.ckpt("run", "--", "sh", "-c", "head -c 9000000 /dev/urandom > big; exit 7", ok=7)
        assert run.err.strip()
        assert "space" in run.err
        world.sound()
        world.rm("big")
        world.write("f", "later\n")
        world.go("restore", "1")
        assert paths_of(world.ckpt("status", "--json").json["changed"]) == set()
    world.damaged = True


def test_what_was_made_unreadable_is_not_called_undone(nobody: World) -> None:
    nobody.write("h", "1")
    nobody.write("w/h", "1")
    nobody.write("other", "1")
    nobody.ckpt("save")
    nobody.ckpt("run", "--", "sh", "-c", "echo 2 > h; echo 2 > w/h; echo n > w/n; echo 2 > other; chmod 000 h w")
    refused = nobody.ckpt("undo", ok=3)
    assert "could not be read after t1" in refused.err
    assert nobody.read("other") == b"2\n"
    said = nobody.ckpt("undo", "--skip")
    assert nobody.read("other") == b"1"
    assert "left: h" in said.out
    nobody.sh("chmod 644 h; chmod 755 w")
    nobody.ckpt("restore", "1")
    assert (nobody.read("h"), nobody.read("w/h")) == (b"1", b"1")
    assert not nobody.has("w/n")


def test_a_mode_that_hides_a_file_is_undone_when_nothing_else_changed(nobody: World) -> None:
    nobody.write("h", "1", mode=0o644)
    nobody.ckpt("save")
    nobody.ckpt("run", "--", "chmod", "000", "h")
    nobody.ckpt("undo")
    assert os.stat(nobody.at("h")).st_mode & 0o777 == 0o644


@needs_root
def test_what_is_not_ours_to_remove_is_not_called_removed(nobody: World) -> None:
    nobody.write("rd/i", "i")
    os.chown(nobody.at("rd"), 0, 0)
    os.chown(nobody.at("rd/i"), 0, 0)
    nobody.ckpt("save")
    nobody.ckpt("run", "--", "mv", "rd", "rd2")
    before = nobody.files()
    refused = nobody.ckpt("undo", ok=1)
    assert "rd2/i" in refused.err
    assert nobody.files() == before
