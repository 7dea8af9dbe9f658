"""Scenarios 135-139: a workspace that must not be one."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from harness import gitrepo
from harness.machine import needs_root
from harness.world import World


def home_is(world: World, directory: Path) -> dict[str, str]:
    return {"HOME": str(directory)}


def test_s135_never_climbs_to_a_home_that_is_a_repository(world: World) -> None:
    world.sh(f"git init -q {world.home}")
    sub = world.home / "plain/sub"
    sub.mkdir(parents=True)
    (world.home / "other").write_text("not ours")
    (sub / "f").write_text("1\n")
    world.ckpt("run", "--", "sh", "-c", "echo 2 > f", cwd=sub)
    done = world.ckpt("status", "--json", cwd=sub).json
    assert done["workspace"] == str(sub)
    world.ckpt("undo", cwd=sub)
    assert (sub / "f").read_text() == "1\n"
    stored = world.shadow("log", "--name-only", "--format=").split()
    assert not any("other" in p for p in stored)


@pytest.mark.parametrize("verb", ["save", "run"])
def test_s136_home_in_every_spelling(world: World, verb: str) -> None:
    real = world.base / "real"
    real.mkdir()
    (real / "sub").mkdir()
    link = world.base / "link"
    link.symlink_to("real")
    words = ["save"] if verb == "save" else ["run", "--", "sh", "-c", "touch started"]
    for home in (link, real):
        env = home_is(world, home)
        for spelling in (real, link, f"{real}/", f"{real}/.", f"{real}/sub/..", f"{link}/sub/../", f"//{real}"):
            for how in ("-C", "cwd") if verb == "save" else ("cwd",):
                args = ["-C", str(spelling), *words] if how == "-C" else words
                cwd = world.root if how == "-C" else Path(spelling)
                refused = world.ckpt(*args, cwd=cwd, env=env, ok=2 if verb == "save" else 125)
                assert refused.err.strip()
    assert not (real / "started").exists()
    assert not world.stores()
    env = home_is(world, real)
    (real / "f").write_text("1")
    world.ckpt("save", "--force-root", cwd=real, env=env)
    assert world.stores()


@needs_root
def test_s136_a_bind_mount_of_home(world: World) -> None:
    seen = world.base / "seen"
    seen.mkdir()
    done = subprocess.run(["mount", "--bind", str(world.home), str(seen)], capture_output=True)
    if done.returncode:
        pytest.skip("bind mounts are not allowed here")
    try:
        world.ckpt("save", cwd=seen, ok=2)
        assert not world.stores()
    finally:
        subprocess.run(["umount", "-l", str(seen)], check=True)


@pytest.mark.parametrize(
    "place", ["/", "/tmp", "/usr", "/etc", "/var", "/home", "/proc", "/dev", "/tmp/.", "/usr/../tmp/"]
)
def test_s136_system_directories(world: World, place: str) -> None:
    refused = world.ckpt("-C", place, "save", "--json", ok=2)
    assert refused.error["code"] == "refused-root"
    assert not world.stores()


def test_s138_a_run_at_home_is_refused_at_once(world: World) -> None:
    for i in range(2_000):
        folder = world.home / f"d{i % 20}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{i}").touch()
    start = time.monotonic()
    refused = world.ckpt("run", "--", "sh", "-c", "touch started", cwd=world.home, ok=125)
    assert time.monotonic() - start < 30
    assert "--unprotected" in refused.err or "--force-root" in refused.err
    assert not (world.home / "started").exists()
    world.ckpt("run", "--unprotected", "--", "sh", "-c", "touch started", cwd=world.home)
    assert (world.home / "started").exists()
    assert not world.stores()


def test_s139_a_store_full_of_loose_objects(world: World) -> None:
    world.write("a", "1")
    world.save()
    objects = world.store / "shadow.git/objects"
    for i in range(256):
        (objects / f"{i:02x}").mkdir(exist_ok=True)
        for j in range(20):
            (objects / f"{i:02x}" / f"{j:038x}").touch()
    best = {}
    for word in ("--version", "--help", "log"):
        times = []
        for _ in range(3):
            start = time.monotonic()
            world.ckpt(word)
            times.append(time.monotonic() - start)
        best[word] = min(times)
    assert best["--version"] < 1
    assert best["--help"] < 1
    assert best["log"] < 5
    world.damaged = True  # those objects are empty


def test_the_nearest_store_upward_is_meant(world: World) -> None:
    world.write("a/b/c", "1\n")
    world.save()
    inner = world.root / "a/b"
    world.ckpt("run", "--", "sh", "-c", "echo 2 > c", cwd=inner)
    assert len(world.stores()) == 1
    status = world.ckpt("status", "--json", cwd=inner).json
    assert status["workspace"] == str(world.root)
    world.ckpt("undo", "--", "c", cwd=inner)
    assert world.read("a/b/c") == b"1\n"


def test_the_search_ends_at_a_repository(world: World) -> None:
    world.write("f", "1\n")
    world.save()
    world.write("repo/f", "1\n")
    gitrepo.init(world, "repo")
    inner = world.root / "repo"
    world.ckpt("run", "--", "sh", "-c", "echo 2 > f", cwd=inner)
    assert len(world.stores()) == 2
    assert world.ckpt("status", "--json", cwd=inner).json["workspace"] == str(inner)


def test_a_workspace_that_was_moved(world: World) -> None:
    for i in range(6):
        world.write(f"f{i}", "1\n")
    before = world.files()
    world.step("echo 2 > f1")
    moved = world.base / "moved"
    os.rename(world.root, moved)
    world.root = moved
    said = world.ckpt("status")
    assert said.text
    world.go("undo", to=before)
    assert len(world.stores()) == 1


def test_a_workspace_that_was_copied_is_another(world: World) -> None:
    world.write("f", "1\n")
    world.step("echo 2 > f")
    world.sh("cp -a . ../copy")
    copy = world.base / "copy"
    world.ckpt("save", cwd=copy)
    assert len(world.stores()) == 2
    world.ckpt("undo", cwd=copy, ok=(0, 1))
    assert world.read("f") == b"2\n"


def test_a_workspace_that_is_gone_is_made_again(world: World) -> None:
    world.write("f", "1\n")
    world.write("d/g", "1\n", 0o755)
    os.mkdir(world.at("empty"))
    os.symlink("f", world.at("l"))
    number = world.save()
    before = world.files()
    world.rm("")
    gone = world.ckpt("-C", str(world.root), "status", cwd=world.base)
    assert gone.text
    world.ckpt("-C", str(world.root), "restore", str(number), cwd=world.base)
    again = world.files()
    assert again.told() == before.told()


def test_a_workspace_made_anew_at_the_old_path_asks(world: World) -> None:
    world.write("f", "1\n")
    world.step("echo 2 > f; echo 3 > g")
    world.rm("")
    world.root.mkdir()
    world.write("unrelated", "new project")
    refused = world.ckpt("undo", "--json", ok=3)
    assert "--yes" in " ".join(refused.error["next"]) + refused.error["message"]
    assert world.read("unrelated") == b"new project"
    assert set(world.files()) == {b"", b"unrelated"}
    world.ckpt("undo", "--yes", ok=(0, 3))
    assert world.read("unrelated") == b"new project"
