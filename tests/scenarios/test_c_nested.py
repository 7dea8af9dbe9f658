"""Scenarios 28-37: nested repositories, submodules, worktrees, and which directory is the workspace."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import pytest
from harness import gitrepo
from harness.machine import SLOW, need
from harness.manifest import same, untouched
from harness.world import World


def test_s028_a_submodule_is_never_disturbed_by_a_killed_capture(world: World) -> None:
    gitrepo.init(world)
    gitrepo.submodule(world)
    for i in range(300):
        world.write(f"sub/more/{i}", f"{i}\n")
    status = world.sh("git -C sub status --porcelain")
    before = world.git()
    rounds = 50 if SLOW else 6
    for i in range(rounds):
        world.write("sub/inner.txt", f"changed {i}\n")
        expected = world.sh("GIT_OPTIONAL_LOCKS=0 git -C sub status --porcelain")
        with world.popen("save") as process:
            until = time.monotonic() + 0.02 + 0.3 * i / rounds
            while time.monotonic() < until:
                assert world.sh("GIT_OPTIONAL_LOCKS=0 git -C sub status --porcelain") == expected
            process.send_signal(signal.SIGKILL)
    after = world.git()
    same(before, after)
    untouched(before, after, set())
    assert "inner.txt" not in status
    files = world.files()
    world.step("echo agent > sub/inner.txt; rm sub/more/1")
    world.go("undo", to=files)


@pytest.mark.skipif(sys.platform != "linux", reason="strace is a Linux program")
def test_s028_no_write_below_any_git(world: World) -> None:
    strace = need("strace")
    gitrepo.init(world)
    gitrepo.submodule(world)
    world.write("f", "1")
    world.save()
    world.write("f", "2")
    world.write("sub/inner.txt", "2")
    calls = "open,openat,creat,rename,renameat,renameat2,unlink,unlinkat,link,linkat,mkdir,mkdirat,symlink,symlinkat"
    for verb in (["save"], ["restore", "1"], ["undo"], ["status"]):
        words, env = world.words(verb, None)
        log = world.base / "trace"
        subprocess.run(
            [strace, "-f", "-y", "-qq", "-e", f"trace={calls},chmod,fchmodat", "-o", str(log), *words],
            cwd=world.root,
            env=env,
            check=True,
            capture_output=True,
        )
        for line in log.read_text(errors="replace").splitlines():
            call = line.split("(", 1)[0].split()[-1]
            reads = call in ("open", "openat") and not re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", line)
            in_git = f"{world.root}/.git" in line or re.search(r'"(\./)?(\.git|sub/\.git)[/"]', line)
            assert reads or not in_git, line


def test_s030_two_repositories_below_a_plain_folder(world: World) -> None:
    for name in ("fe", "be"):
        world.write(f"{name}/{name[0]}", f"{name}\n")
        gitrepo.init(world, name)
    world.write("README", "top\n")
    before = world.files()
    world.step("echo x > fe/f; echo x > be/b; echo x > README; echo new > fe/new")
    world.go("undo", to=before)


def test_s031_one_nested_repository(world: World) -> None:
    world.write("repo1/old", "old\n")
    gitrepo.init(world, "repo1")
    before = world.files()
    world.step("echo new > repo1/new; echo edited > repo1/old")
    world.go("undo", to=before)


def test_s033_a_folder_that_becomes_a_repository(world: World) -> None:
    gitrepo.init(world)
    world.write("sub/a", "captured\n")
    world.save()
    world.step("git init -q sub && git -C sub add -A && git -C sub commit -q -m inner; echo more > sub/b")
    with_b = world.files()
    assert world.read("sub/a") == b"captured\n"
    world.go("undo", to=with_b.without(b"sub/b"))
    assert world.read("sub/a") == b"captured\n"
    world.go("redo", to=with_b)
    assert world.read("sub/a") == b"captured\n"
    assert world.sh("git -C sub log --format=%s").strip() == "inner"


def test_s034_a_worktree_has_its_own_history(world: World) -> None:
    world.write("f", "main\n")
    gitrepo.init(world)
    world.sh("git worktree add -q ../wt")
    worktree = world.base / "wt"
    main = world.files()
    world.step("echo edited > f")
    edited = world.files()
    world.ckpt("run", "--", "sh", "-c", "echo wt > f", cwd=worktree)
    assert (worktree / "f").read_text() == "wt\n"
    world.ckpt("undo", cwd=worktree)
    assert (worktree / "f").read_text() == "main\n"
    same(edited, world.files())
    assert len(world.stores()) == 2
    world.go("undo", to=main)
    assert (worktree / "f").read_text() == "main\n"


def test_s036_a_session_in_a_part_of_a_monorepo(world: World) -> None:
    gitrepo.init(world, commit=False)
    world.write("frontend/page", "1\n")
    world.write("backend/server", "1\n")
    gitrepo.commit_all(world)
    backend, frontend = world.root / "backend", world.root / "frontend"
    world.ckpt("run", "--", "sh", "-c", "echo agent > server", cwd=backend)
    world.write("backend/server", "newest\n")
    gitrepo.commit_all(world)
    world.ckpt("run", "--", "sh", "-c", "echo agent > page", cwd=frontend)
    world.ckpt("undo", cwd=frontend)
    assert world.read("frontend/page") == b"1\n"
    assert world.read("backend/server") == b"newest\n"
    world.ckpt("redo", cwd=frontend)
    assert world.read("frontend/page") == b"agent\n"
    assert world.read("backend/server") == b"newest\n"


def test_s037_a_broken_neighbour_repository(world: World) -> None:
    for name in ("r1", "r2"):
        world.write(f"{name}/a", f"{name}\n")
        gitrepo.init(world, name)
    (world.root / "r2/.git/HEAD").write_bytes(b"\x00\xff garbage")
    before = world.files()
    world.step("echo x > r1/a; echo x > r2/a")
    world.go("undo", to=before)


def test_a_repository_that_is_gone_is_named(world: World) -> None:
    gitrepo.init(world)
    world.write("nest/n", "n")
    gitrepo.init(world, "nest")
    world.ckpt("save")
    world.watch_git = False
    said = world.ckpt("run", "--", "rm", "-rf", "nest")
    assert "nest/.git is gone" in said.err
    assert "is gone" not in world.ckpt("undo").err
    assert world.read("nest/n") == b"n"
