"""What stands where an undo or restore must write: ignored files, sockets, mounts. None is lost, each is named."""

from __future__ import annotations

import os
import socket

import pytest
from harness import gitrepo
from harness.machine import needs_root, tmpfs
from harness.manifest import same
from harness.world import World


def hidden(world: World) -> None:
    """The agent deletes `out.log` and changes `a`; the user then makes another `out.log` and ignores it."""
    world.write("a", "1\n")
    world.write("out.log", "1\n")
    gitrepo.init(world)
    world.step("echo 2 > a; rm out.log")
    world.write(".gitignore", "*.log\n")
    world.write("out.log", "the user's\n")


def test_an_ignored_file_in_the_way_is_a_conflict_that_skip_leaves(world: World) -> None:
    hidden(world)
    refused = world.go("undo", ok=3)
    assert [c["path"] for c in refused.error["conflicts"]] == ["out.log"]
    dry = world.ckpt("undo", "--skip", "-n")
    assert "would leave: out.log" in dry.out
    done = world.go("undo", "--skip")
    assert done.json["written"] == ["a"]
    assert done.json["skipped"] == ["out.log"]
    assert world.read("out.log") == b"the user's\n"


def test_by_force_it_is_kept_in_a_checkpoint(world: World) -> None:
    hidden(world)
    before = world.files()
    done = world.go("undo", "--force")
    assert (world.read("a"), world.read("out.log")) == (b"1\n", b"1\n")
    assert world.ckpt("cat", str(done.json["before"]), "out.log").stdout == b"the user's\n"
    world.go("redo", to=before)


def test_a_restore_keeps_it_too(world: World) -> None:
    hidden(world)
    before = world.files()
    world.go("restore", "1")
    assert world.read("out.log") == b"1\n"
    world.go("undo", to=before)


def test_force_is_no_way_where_a_socket_stands(world: World) -> None:
    world.write("a", "1\n")
    world.write("b", "1\n")
    world.step("echo 2 > a; rm b")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(world.at("b"))
    refused = world.go("undo", ok=3)
    assert not any("--force" in way for way in refused.error["next"])
    assert "--force" not in world.ckpt("undo", ok=3).err
    world.go("undo", "--skip")
    assert world.read("a") == b"1\n"


@pytest.mark.parametrize("verb", [["restore", "1"], ["undo"]], ids=lambda v: v[0])
def test_a_mount_over_what_must_change_is_named(world: World, verb: list[str]) -> None:
    world.write("d/f", "1\n")
    world.write("a", "1\n")
    world.step("echo 2 > d/f; echo 2 > a")
    with tmpfs(world.root / "d", "1m"):
        before = world.files()
        for dry in (["-n"], []):
            refused = world.ckpt(*verb, *dry, ok=3)
            assert "another file system is mounted on d" in refused.err
            assert "unmount d, then again" in world.ckpt(*verb, "--json", ok=3).error["next"]
        same(before, world.files())
        if verb == ["undo"]:
            world.ckpt("undo", "--skip")
            assert world.read("a") == b"1\n"
    assert world.read("d/f") == b"2\n"
    world.ckpt("restore", "1")
    assert world.read("d/f") == b"1\n"


@needs_root
def test_a_file_that_cannot_be_read_is_promised_to_nobody(nobody: World) -> None:
    """Another user's, closed to us: no checkpoint can hold it, so not even force may take it, and nothing says so."""
    nobody.write("f", "1\n")
    nobody.write("g", "1\n")
    nobody.ckpt("save")
    nobody.ckpt("run", "--", "sh", "-c", "echo 2 > f; echo 2 > g")
    nobody.write("g", "3\n")
    os.chown(nobody.at("f"), 0, 0)
    os.chmod(nobody.at("f"), 0o600)
    why = "f belongs to another user and cannot be read, so it cannot be kept"
    for words in (("undo", "-n"), ("undo",)):
        refused = nobody.ckpt(*words, ok=3).err
        assert why in refused
        assert "ckpt undo --skip    take back the other 0" in refused
        assert "ckpt undo --force   take back 1" in refused
    dry = nobody.ckpt("undo", "-n", "--force").out
    assert "would write: g\n" in dry
    done = nobody.ckpt("undo", "--force").out
    assert "written: g\n" in done
    assert f"left: f (conflict, {why})" in done
    assert (nobody.read("g"), nobody.read("f")) == (b"1\n", b"2\n")
    assert "make f readable, then the same again" in nobody.ckpt("restore", "1", ok=1).err


def test_a_file_that_we_closed_is_read_all_the_same(nobody: World) -> None:
    nobody.write("f", "1\n")
    nobody.ckpt("save")
    nobody.ckpt("run", "--", "sh", "-c", "echo 2 > f")
    os.chmod(nobody.at("f"), 0)
    assert "not touched" not in nobody.ckpt("undo", "-n").out
    assert "written: f\n" in nobody.ckpt("undo").out
    os.chmod(nobody.at("f"), 0o600)
    assert nobody.read("f") == b"1\n"
