"""Scenarios 75-82: growth of the store and gc."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from harness import gitrepo
from harness.machine import fill, tmpfs
from harness.world import World

MB = 1 << 20


def size(directory: Path) -> int:
    return sum(p.lstat().st_size for p in directory.rglob("*") if p.is_file())


def strays(world: World) -> list[Path]:
    """Files of the store that no finished operation leaves behind."""
    found = [p for p in world.store.rglob("*") if "tmp" in p.name.lower() or p.suffix in (".keep", ".lock")]
    return [p for p in found if p.is_file()]


def test_s075_gc_killed_again_and_again(world: World) -> None:
    for i in range(12):
        world.write("big", random.Random(i).randbytes(MB))
        world.write(f"f{i}", str(i))
        world.save()
    whole = world.files()
    temporary = world.store / "shadow.git/objects/pack/tmp_pack_stale"
    temporary.write_bytes(b"left by a kill long ago")
    os.utime(temporary, (time.time() - 86400 * 30,) * 2)
    for pause in (0, 0.02, 0.05, 0.1, 0.2):
        world.killed("gc", "--yes", after=pause)
        world.sound()
    world.ckpt("status")
    world.ckpt("gc", "--yes")
    world.ckpt("gc", "--yes")
    assert not strays(world)
    for number in (1, 6, 12):
        assert world.ckpt("cat", str(number), f"f{number - 1}").stdout == str(number - 1).encode()
    world.go("restore", "5")
    world.go("undo", to=whole)


def test_s076_the_store_needs_nothing_of_the_users_repository(world: World) -> None:
    world.write("f", "start\n")
    world.write("lib/code", "x\n" * 500)
    gitrepo.init(world)
    states = [world.files()]
    for i in range(10):
        world.step(f"echo {i} > f; echo {i} > new{i}")
        states.append(world.files())
    gitrepo.commit_all(world, "all ten")
    world.sh(
        "git checkout -q --orphan fresh && git commit -q -m rewritten && git branch -q -D main && git branch -m main;"
        "git reflog expire --expire=now --all && git gc -q --prune=now"
    )
    for state in reversed(states[:-1]):
        world.go("undo", to=state)
    world.go("undo", ok=1)
    world.ckpt("gc", "--yes")
    world.sound()
    world.go("restore", "1", ok=1)
    world.ckpt("verify")


def test_s078_a_users_own_gc_of_the_store_eats_nothing(world: World) -> None:
    world.gitconfig("[gc]\n\tauto = 1\n\tpruneExpire = now\n[pack]\n\tthreads = 1\n")
    for i in range(5):
        world.write("f", f"{i}\n" * 50)
        world.save()
    first = world.ckpt("cat", "1", "f").stdout
    world.sh(f"git -C {world.store}/shadow.git unpack-objects -q < /dev/null || true")
    old = time.time() - 20 * 86400
    for path in (world.store / "shadow.git/objects").rglob("*"):
        os.utime(path, (old, old))
    world.sh(f"git -C {world.store}/shadow.git gc -q --aggressive --prune=now")
    world.write("f", "one more\n")
    number = world.save()
    world.sh(f"git -C {world.store}/shadow.git gc -q --prune=now")
    assert world.ckpt("cat", str(number), "f").stdout == b"one more\n"
    world.go("restore", "1")
    assert world.read("f") == first
    world.ckpt("verify")


def test_s079_forgetting_one_workspace_frees_it_alone(world: World, worlds: Callable[..., World]) -> None:
    world.write("f", os.urandom(5 * MB))
    world.save()
    other = worlds(state=world.state)
    other.write("f", os.urandom(5 * MB))
    other.save()
    kept = other.files()
    before = size(world.state)
    refused = world.ckpt("forget", str(world.root), ok=3)
    assert "--yes" in refused.text
    assert size(world.state) >= before
    world.ckpt("forget", "--yes", str(world.root))
    assert before - size(world.state) > 4 * MB
    assert world.read("f")
    other.write("f", "x")
    other.go("restore", "1", to=kept)


def test_s081_a_store_inside_the_workspace_is_never_captured(worlds: Callable[..., World], world: World) -> None:
    world.env["CKPT_HOME"] = str(world.root / "inner/state")
    world.state = world.root / "inner/state"
    world.write("a", "0")
    world.write("inner/mine", "captured")
    sizes = []
    for i in range(12):
        world.write("a", str(i))
        world.save()
        sizes.append(size(world.state))
    stored = world.shadow("ls-tree", "-r", "--name-only", "timeline:files").split()
    assert stored == ["a", "inner/mine"]
    growth = [b - a for a, b in itertools.pairwise(sizes)]
    assert max(growth) < 16_000
    world.ckpt("restore", "1")
    assert world.read("a") == b"0"
    assert world.read("inner/mine") == b"captured"
    world.ckpt("undo")
    assert world.read("a") == b"11"


def test_s081_saves_do_not_grow_when_nothing_changed(world: World) -> None:
    world.write("a", "1")
    number = world.save()
    before = size(world.store / "shadow.git")
    for _ in range(5):
        again = world.ckpt("save", "--json").json
        assert (again["checkpoint"], again["created"]) == (number, False)
    assert size(world.store / "shadow.git") == before


def test_s082_gc_without_space_leaves_a_valid_store(world: World) -> None:
    with tmpfs(world.base / "small", "16m") as small:
        world.env["CKPT_HOME"] = str(small / "state")
        world.state = small / "state"
        for i in range(10):
            world.write("big", random.Random(i).randbytes(MB))
            world.save()
        fill(small / "filler", leave=300_000)
        failed = world.ckpt("gc", "--json", "--yes", ok=(0, 1))
        if failed.status:
            assert failed.error["code"] == "no-space"
        world.sound()
        (small / "filler").unlink()
        world.ckpt("gc", "--yes")
        assert not strays(world)
        world.sound()
        assert world.ckpt("cat", "1", "big").stdout == random.Random(0).randbytes(MB)


def test_growth_of_a_checkpoint_of_one_file(world: World) -> None:
    world.watch_git = False
    for i in range(2_000):
        world.write(f"d{i % 40}/f{i}", f"{i}\n" * 5)
    world.save()
    before = size(world.store / "shadow.git")
    for i in range(5):
        world.write("d3/f3", f"again {i}\n")
        world.save()
    assert (size(world.store / "shadow.git") - before) / 5 <= 15_000
