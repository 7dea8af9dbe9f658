"""Scenarios 93-103: git configuration, hooks and environment of the user."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import gitrepo
from harness.machine import STRANGER, needs_root
from harness.manifest import Manifest, same, untouched
from harness.world import World, paths_of


def test_s093_git_variables_of_the_surroundings(world: World) -> None:
    world.write("f", "1\n")
    gitrepo.init(world)
    other = world.base / "other"
    world.sh(f"git init -q {other} && cd {other} && echo x > x && git add x && git commit -q -m x")
    variables = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git/objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(world.root / ".git/objects"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.autocrlf",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_CONFIG_GLOBAL": str(world.base / "none"),
        "GIT_NAMESPACE": "n",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_SHALLOW_FILE": str(world.base / "none"),
        "GIT_REPLACE_REF_BASE": "refs/odd",
        "GIT_AUTHOR_DATE": "nonsense",
        "GIT_TRACE": str(world.base / "trace"),
    }
    mine, theirs = world.files(), Manifest.of(other)
    world.ckpt("run", "--", "sh", "-c", 'echo 2 > f; echo "$GIT_DIR" > ../seen', env=variables)
    assert (world.base / "seen").read_text().strip() == variables["GIT_DIR"]
    world.go("undo", to=mine, env=variables)
    for verb in ("status", "log", "diff", "verify", "gc", "redo"):
        world.ckpt(verb, env=variables)
    same(theirs, Manifest.of(other))
    untouched(theirs, Manifest.of(other), set())


def test_s094_a_hook_that_runs_ckpt_inside_a_commit(world: World) -> None:
    world.write("f", "1\n")
    world.write("g", "1\n")
    gitrepo.init(world)
    world.save()
    hook = world.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nset -e\n$CKPT save\n$CKPT run -q -- sh -c 'echo made > made-by-hook'\n")
    hook.chmod(0o755)
    world.write("f", "2\n")
    world.write("g", "2\n")
    world.sh("git add f && git commit -q -m one")
    assert world.sh("git show --name-only --format=").split() == ["f"]
    assert world.sh("git status --porcelain").splitlines() == [" M g", "?? made-by-hook"]
    assert world.read("made-by-hook") == b"made\n"


def test_s096_a_hook_that_always_fails(world: World) -> None:
    world.write("f", "1\n")
    gitrepo.init(world)
    hooks = world.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "commit-msg", "post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).write_text("#!/bin/sh\ntouch ../hook-ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    world.gitconfig(f"[core]\n\thooksPath = {hooks}\n")
    before = world.files()
    world.step("echo 2 > f")
    world.go("undo", to=before)
    assert not (world.base / "hook-ran").exists()


def test_s097_no_monitor_is_started(world: World) -> None:
    world.gitconfig("[core]\n\tfsmonitor = true\n\tuntrackedCache = true\n[feature]\n\tmanyFiles = true\n")
    state = world.base / ("long" * 10) / ("er" * 20) / ("path" * 10)
    state.mkdir(parents=True)
    world.state = state
    world.env["CKPT_HOME"] = str(state)
    world.write("f", "0")
    gitrepo.init(world, commit=False)
    for i in range(4):
        before = world.files()
        world.step(f"echo {i} > f", timeout=20)
        world.go("undo", to=before, timeout=20)
        world.ckpt("redo", timeout=20)
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue
        assert not (b"fsmonitor" in words and os.fsencode(world.base) in words)


@needs_root
@pytest.mark.parametrize("home", ["missing", "empty", "unset", "closed"])
def test_s099_no_home_and_no_passwd_entry(worlds: Callable[..., World], home: str) -> None:
    world = worlds(uid=STRANGER)
    world.write("f", "1\n")
    before = world.files()
    env: dict[str, str | None] = {k: None for k in world.env if k.startswith("XDG_") or k == "CKPT_CONFIG"}
    env["HOME"] = {"missing": "/nonexistent/home", "empty": "", "unset": None, "closed": "/root"}[home]
    env["USER"] = env["LOGNAME"] = None
    world.step("echo 2 > f", env=env)
    world.go("undo", to=before, env=env)
    for verb in ("status", "log", "config", "workspaces"):
        world.ckpt(verb, env=env)


@needs_root
def test_s099_no_home_at_all_still_protects_privately(worlds: Callable[..., World]) -> None:
    world = worlds(uid=STRANGER)
    world.write("f", "1\n")
    before = world.files()
    env: dict[str, str | None] = {k: None for k in world.env if k.startswith(("XDG_", "CKPT_"))}
    env["HOME"] = None
    place = world.base / "tmp"
    world.step("echo 2 > f", env=env)
    world.go("undo", to=before, env=env)
    (made,) = place.iterdir()
    assert made.stat().st_mode & 0o777 == 0o700
    world.state = next(made.glob("**/workspaces")).parent
    world.sound()
    shutil.rmtree(made)
    made.mkdir(mode=0o777)  # somebody was there first
    made.chmod(0o777)
    refused = world.ckpt("save", "--json", env=env, ok=1)
    assert "CKPT_HOME" in " ".join(refused.error["next"])
    world.ckpt("run", "--", "true", env=env, ok=125)
    world.ckpt("--version", env=env)


def test_s100_what_the_user_ignores_everywhere(world: World) -> None:
    (world.home / "ignores").write_text("*.log\n")
    world.gitconfig("[core]\n\texcludesFile = ~/ignores\n")
    world.write("tracked.log", "1")
    gitrepo.init(world, commit=False)
    world.sh("git add -f tracked.log && git commit -q -m one")
    world.write("app.log", "1")
    world.write("covered.txt", "1")
    world.step("echo 2 > app.log; echo 2 > tracked.log; echo 2 > covered.txt")
    done = world.go("undo")
    assert paths_of(done.json["written"]) == {b"tracked.log", b"covered.txt"}
    assert world.read("app.log") == b"2\n"
    assert world.read("tracked.log") == b"1"


def test_s102_a_half_staged_file(world: World) -> None:
    world.write("f", "".join(f"line {i}\n" for i in range(40)))
    gitrepo.init(world)
    world.sh("sed -i 's/line 3$/THREE/' f && git add f && sed -i 's/line 30/THIRTY/' f && echo n > n && git add -N n")
    staged = world.sh("git diff --cached")
    before = world.files()
    world.step("echo agent > f")
    world.go("undo", to=before)
    assert world.sh("git diff --cached") == staged


def test_s103_log_refs_reflog_and_stash(world: World) -> None:
    world.write("f", "1\n")
    gitrepo.init(world)
    world.write("f", "stashed\n")
    world.sh("git stash -q && git tag v1 && git branch other")
    state = gitrepo.state(world)
    before = world.files()
    world.step("echo 2 > f; echo new > g")
    after = world.files()
    world.go("undo", to=before)
    assert gitrepo.state(world) == state
    world.go("redo", to=after)
    world.go("undo", to=before)
    assert gitrepo.state(world) == state
