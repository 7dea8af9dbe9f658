"""What stands where an undo or restore must write: ignored files, sockets, mounts. None is lost, each is named."""

from __future__ import annotations

import socket

import pytest
from harness import gitrepo
from harness.machine import tmpfs
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
