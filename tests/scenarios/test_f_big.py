"""Scenarios 66-73: big repositories and big files.

Counts are those of the reports with CKPT_SLOW=1, smaller without.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from harness import gitrepo
from harness.machine import SLOW, group_memory
from harness.manifest import Manifest
from harness.world import World, paths_of

MB = 1 << 20


def many(world: World, count: int, size: int = 0, under: str = "many") -> None:
    for i in range(count):
        if i % 500 == 0:
            os.makedirs(world.at(f"{under}/{i // 500}"), exist_ok=True)
        fd = os.open(world.at(f"{under}/{i // 500}/{i}"), os.O_WRONLY | os.O_CREAT, 0o644)
        if size:
            os.write(fd, f"{i} ".encode() * (size // 6 + 1))
        os.close(fd)


def test_s066_many_untracked_files(world: World) -> None:
    world.watch_git = False
    gitrepo.init(world)
    many(world, 170_000 if SLOW else 8_000, 60)
    world.write("f", "1")
    start = time.monotonic()
    world.save(timeout=300)
    assert time.monotonic() - start < (120 if SLOW else 40)
    world.step("echo 2 > f", timeout=300)
    done = world.ckpt("undo", "--json", timeout=300)
    assert paths_of(done.json["written"]) == {b"f"}
    assert world.read("f") == b"1"


def test_s067_killed_in_a_walk_of_empty_files(world: World) -> None:
    world.watch_git = False
    many(world, 1_000_000 if SLOW else 10_000)
    world.killed("save", after=0.1)
    number = world.save(timeout=900)
    assert world.save(timeout=900) == number


def test_s069_ignored_dependencies_cost_nothing(world: World) -> None:
    world.watch_git = False
    gitrepo.init(world)
    world.write(".gitignore", "node_modules/\n")
    many(world, 60_000 if SLOW else 3_000, 20, "node_modules")
    many(world, 140, 100, "src")
    first = world.ckpt("save", "--json").json
    assert not any(b"node_modules" in p for p in paths_of(first["changed"]))
    stored = world.shadow("ls-tree", "-r", "--name-only", "timeline:files").split()
    assert len(stored) == 141
    world.step("echo x > src/0/1; echo x > node_modules/0/1")
    done = world.ckpt("undo", "--json").json
    assert paths_of(done["written"]) == {b"src/0/1"}


def test_s070_a_large_unchanged_file_is_not_read_again(world: World) -> None:
    world.watch_git = False
    with open(world.at("large"), "wb") as f:
        f.truncate(900 * MB if SLOW else 400 * MB)
    many(world, 2_000, 20)
    start = time.monotonic()
    world.save(timeout=300)
    first = time.monotonic() - start
    world.write("f", "1")
    time.sleep(0.2)
    world.save()
    world.write("f", "2")
    start = time.monotonic()
    world.save()
    second = time.monotonic() - start
    assert second < max(1.0, 0.6 * first)


def test_s072_a_file_that_is_too_large_is_told(world: World) -> None:
    world.watch_git = False
    world.write("a", "1")
    with open(world.at("big.bin"), "wb") as f:
        f.truncate(1025 * MB)
    saved = world.ckpt("save", "--json").json
    assert [(u["path"], u["reason"]) for u in saved["uncovered"]] == [("big.bin", "too-large")]
    status = world.ckpt("status")
    assert "big.bin" in status.text
    told = world.ckpt("status", "--json").json
    assert [(u["path"], u["reason"]) for u in told["uncovered"]] == [("big.bin", "too-large")]
    os.unlink(world.at("big.bin"))


def test_s072_a_file_too_large_stays_when_the_rest_goes_back(world: World) -> None:
    world.watch_git = False
    world.write("a", "1")
    start = world.save()
    with open(world.at("big.bin"), "wb") as f:
        f.truncate(1025 * MB)
    world.write("a", "2")
    world.ckpt("restore", str(start))
    assert world.read("a") == b"1"
    assert world.has("big.bin")


def test_s073_a_step_that_makes_many_files(world: World) -> None:
    world.watch_git = False
    world.write("a", "1")
    before = world.files()
    count = 40_000 if SLOW else 1_500
    done = world.step(
        f"mkdir -p deps; i=0; while [ $i -lt {count} ]; do echo $i > deps/$i; i=$((i+1)); done", timeout=300
    )
    assert "deps" in done.err
    world.go("undo", to=before, timeout=300)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory of a group is read from /proc")
@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "random"])
def test_a_large_file_within_bounded_memory(world: World, sparse: bool) -> None:
    world.watch_git = False
    size = 300 * MB
    with open(world.at("large"), "wb") as f:
        if sparse:
            f.write(b"head")
            f.truncate(size - 4)
            f.seek(0, os.SEEK_END)
            f.write(b"tail")
        else:
            block = os.urandom(MB)
            for i in range(size // MB):
                f.write(block[i:] + block[:i])
    before = Manifest.of(world.root)
    assert _peak(world, "save") < 200 * MB
    world.write("large", "small now")
    assert _peak(world, "restore", "1") < 200 * MB
    assert Manifest.of(world.root).told() == before.told()
    if sparse:
        assert os.stat(world.at("large")).st_size == size
    assert _peak(world, "diff", "1", "2") < 200 * MB


def _peak(world: World, *args: str) -> int:
    """The most memory that the command and its children held at a time, in bytes."""
    peak = 0
    done = threading.Event()
    out = (world.base / "out.txt").open("wb")
    process = world.popen(*args, afresh=True, stdout=out, stderr=out)

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, group_memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert process.wait(timeout=120) in (0, 1, 2), (world.base / "out.txt").read_bytes()[-2000:]
    finally:
        done.set()
        watcher.join()
        out.close()
    return peak
