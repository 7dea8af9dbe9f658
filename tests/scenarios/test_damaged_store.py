"""Every part of a store, damaged in every way: older checkpoints stay usable, new ones can be made."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from harness.machine import SLOW
from harness.manifest import same
from harness.world import World

PARTS = ["newest-pack", "newest-idx", "oldest-pack", "oldest-idx", "ref", "scan", "workspace.toml", "HEAD", "config"]
DAMAGES = ["empty", "nul", "missing", "garbage", "half"]
CASES = [
    (part, how)
    for part in PARTS
    for how in DAMAGES
    if SLOW
    or (how != "half" and part != "oldest-idx")
    or (part, how) in (("newest-pack", "half"), ("oldest-idx", "nul"))
    if SLOW or part not in ("HEAD", "config") or how == "garbage"
]


def made(world: World) -> None:
    """Three checkpoints: everything in the first, `f` changed in the second, `f` and `new` in the third."""
    world.write("f", "1\n")
    world.write("d/g", "never changed\n")
    world.write("d/h", "1\n", 0o755)
    os.symlink("f", world.at("l"))
    os.mkdir(world.at("empty"))
    world.save()
    world.write("f", "2\n")
    world.save()
    world.write("f", "3\n")
    world.write("new", "3\n")
    world.save()


def targets(world: World, part: str) -> list[Path]:
    shadow = world.store / "shadow.git"
    packs = sorted((shadow / "objects/pack").glob("*.pack"), key=lambda p: p.stat().st_mtime_ns)
    table = {
        "newest-pack": packs[-1],
        "newest-idx": packs[-1].with_suffix(".idx"),
        "oldest-pack": packs[0],
        "oldest-idx": packs[0].with_suffix(".idx"),
        "ref": shadow / "refs/heads/timeline",
        "workspace.toml": world.store / "workspace.toml",
        "HEAD": shadow / "HEAD",
        "config": shadow / "config",
    }
    if part == "scan":
        return [p for p in (world.store / "scan").rglob("*") if p.is_file()]
    return [table[part]]


def damage(path: Path, how: str) -> None:
    path.chmod(0o600)
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {
                "empty": b"",
                "nul": b"\0" * len(data),
                "garbage": random.Random(len(data)).randbytes(len(data)),
                "half": data[: len(data) // 2],
            }[how]
        )


@pytest.mark.parametrize(("part", "how"), CASES)
def test_a_damaged_part(world: World, part: str, how: str) -> None:
    made(world)
    world.damaged = True
    found = targets(world, part)
    assert found, "nothing to damage"
    for path in found:
        damage(path, how)
    before = world.files()
    for verb in (["status"], ["log", "--checkpoints"], ["diff"], ["show"]):
        said = world.ckpt(*verb, ok=(0, 1, 5))
        assert said.text.strip() or verb == ["diff"], said
    same(before, world.files())
    left: tuple[str, ...] = ("1", "2", "3")
    if part.endswith(("-pack", "-idx")):
        assert world.ckpt("verify", ok=5).text
    if part.endswith("-pack"):  # an idx file can be made again
        gone, left = ("3", ("1", "2")) if "newest" in part else ("1", ())
        refused = world.ckpt("restore", "--json", gone, ok=(1, 2, 5))
        assert refused.error["message"]
        same(before, world.files())
    for number in left:
        assert world.ckpt("cat", number, "f").stdout == f"{number}\n".encode()
    # A new one can be made, of everything that stands here now ...
    world.write("f", "4\n")
    world.write("newer", "4\n")
    four = world.files()
    done = world.ckpt("save", "--json").json
    assert done["created"]
    assert done["checkpoint"] > (2 if "newest" in part else 3) or how == "missing"
    # ... and it holds all of it.
    world.sh("rm -rf d new newer l empty; echo 5 > f")
    five = world.files()
    world.go("restore", str(done["checkpoint"]), to=four)
    world.go("undo", to=five)
    for number in left:
        world.go("restore", number)
        assert world.read("f") == f"{number}\n".encode()
        assert world.read("d/g") == b"never changed\n"


def test_a_bit_that_fell_over_in_a_pack_is_found(world: World) -> None:
    made(world)
    world.damaged = True
    before = world.files()
    (pack,) = targets(world, "newest-pack")
    data = bytearray(pack.read_bytes())
    found = 0
    for place in range(12, len(data) - 20, max(1, len(data) // 12)):
        pack.chmod(0o600)
        flipped = bytearray(data)
        flipped[place] ^= 0x10
        pack.write_bytes(flipped)
        found += world.ckpt("verify", ok=(0, 5)).status == 5
        done = world.ckpt("cat", "3", "new", ok=(0, 1, 2, 5))
        assert done.status or done.stdout == b"3\n"
        pack.write_bytes(data)
    assert found >= 10
    same(before, world.files())


def test_a_store_of_a_newer_format(world: World) -> None:
    made(world)
    world.damaged = True
    facts = world.store / "workspace.toml"
    lines = ["format = 999" if line.startswith("format") else line for line in facts.read_text().splitlines()]
    assert "format = 999" in lines
    facts.write_text("\n".join(lines) + "\n")
    before = world.files()
    kept = {p: p.read_bytes() for p in world.store.rglob("*") if p.is_file() and p.name != "lock"}
    world.write("f", "4\n")
    for verb in ("save", "undo", "gc"):
        refused = world.ckpt(verb, "--json", ok=5)
        assert refused.error["code"] == "newer-format"
        assert refused.error["message"]
    world.ckpt("run", "--", "true", ok=125)
    assert before.differing(world.files()) == {b"f"}
    assert kept == {p: p.read_bytes() for p in world.store.rglob("*") if p.is_file() and p.name != "lock"}


def test_a_foreign_git_configuration_of_the_store_is_not_asked(world: World) -> None:
    made(world)
    world.damaged = True  # git itself refuses such a repository
    config = world.store / "shadow.git/config"
    config.write_text("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n\tfoo = bar\n")
    world.write("f", "4\n")
    four = world.save()
    world.go("restore", "1")
    assert world.read("f") == b"1\n"
    world.go("restore", str(four))
    assert world.read("f") == b"4\n"


def test_nothing_is_where_the_store_should_be(world: World) -> None:
    for verb in ("log", "show", "diff", "undo", "redo", "verify", "gc"):
        refused = world.ckpt(verb, ok=(0, 1))
        assert refused.text.strip()
    assert world.ckpt().status == 0
    assert not world.stores()


def test_a_file_stands_where_the_store_should_be(world: World) -> None:
    world.state.rmdir()
    world.state.write_text("in the way")
    world.write("f", "1\n")
    for verb in (["save"], ["status"], ["undo"]):
        refused = world.ckpt(*verb, ok=(0, 1) if verb == ["status"] else 1)
        assert refused.text.strip()
    world.ckpt("run", "--", "true", ok=125)
    world.state.unlink()
    world.state.mkdir()


HANDLES = [
    "0",
    "4",
    "99999999999999999999",
    "-1",
    "t0",
    "t1",
    "t1.1",
    "t99.9",
    "r1",
    "u1",
    "t",
    "t1..t2",
    "..",
    "@",
    "@x",
    "@25:99",
]
ODD = [
    "",
    " ",
    "\u2028",
    "HEAD",
    "timeline",
    "refs/heads/timeline",
    "deadbeef",
    "1 2",
    "'1'",
    "1;ls",
    "--upload-pack=x",
]


@pytest.mark.parametrize("verb", ["restore", "show", "undo"])
def test_unknown_handles(world: World, verb: str) -> None:
    made(world)
    before = world.files()
    for handle in [*HANDLES, *ODD]:
        refused = world.ckpt(verb, "--json", handle, ok=(1, 2))
        assert refused.status == 2 or verb == "undo" or handle.startswith("-")
        if not handle.startswith("-"):
            assert refused.error["message"]
            assert refused.error["exit"] == refused.status
    same(before, world.files())


def test_the_wrong_kind_of_handle_names_the_right_ones(world: World) -> None:
    made(world)
    refused = world.ckpt("undo", "3", ok=2)
    assert "undo t3" in refused.text
    assert "restore 3" in refused.text


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "nowhere", "d/../../x", ""])
def test_a_path_that_is_not_there(world: World, path: str) -> None:
    made(world)
    (world.base / "outside").write_text("theirs")
    before = world.files()
    refused = world.ckpt("restore", "--json", "1", "--", path, ok=(1, 2))
    assert refused.error["message"]
    world.ckpt("cat", "1", path, ok=(1, 2))
    same(before, world.files())
    assert (world.base / "outside").read_text() == "theirs"
