"""Real git repositories in the states people have them in."""

from __future__ import annotations

from pathlib import Path

from harness.world import World


def init(world: World, where: str = ".", *, commit: bool = True) -> None:
    """A repository at `where` below the workspace; everything that stands there is committed."""
    world.sh(f"git init -q {where}")
    if commit:
        commit_all(world, "first", where)


def commit_all(world: World, message: str = "more", where: str = ".") -> None:
    world.sh(f"git -C {where} add -A && git -C {where} commit -q --allow-empty -m '{message}'")


def submodule(world: World, name: str = "sub") -> Path:
    """The workspace (a repository) gets a real submodule with the file `inner.txt`; its origin lies outside."""
    origin = world.base / f"origin-{name}"
    world.sh(f"git init -q {origin} && cd {origin} && echo inner > inner.txt && git add -A && git commit -q -m inner")
    world.sh(f"git -c protocol.file.allow=always submodule --quiet add {origin} {name} && git commit -q -m submodule")
    return origin


def state(world: World) -> str:
    """What a user would look at to see whether git was disturbed."""
    return world.sh(
        "git log --all --format='%H %D' || true; git for-each-ref; git reflog --all || true; git stash list;"
        "git diff --cached --raw; git status --porcelain=v2 --branch"
    )


def rebase_in_progress(world: World) -> None:
    """Stops a rebase at a conflict in `f`."""
    world.write("f", "base\n")
    commit_all(world, "base")
    world.sh("git checkout -q -b topic")
    world.write("f", "topic\n")
    commit_all(world, "topic")
    world.sh("git checkout -q main")
    world.write("f", "main\n")
    commit_all(world, "main")
    world.sh("git checkout -q topic && ! git rebase main >/dev/null 2>&1")
    assert (world.root / ".git/rebase-merge").is_dir()


def merge_in_progress(world: World) -> None:
    """Stops a merge at a conflict in `f`."""
    world.write("f", "base\n")
    commit_all(world, "base")
    world.sh("git checkout -q -b topic")
    world.write("f", "topic\n")
    commit_all(world, "topic")
    world.sh("git checkout -q main")
    world.write("f", "main\n")
    commit_all(world, "main")
    world.sh("! git merge topic >/dev/null 2>&1")
    assert (world.root / ".git/MERGE_HEAD").exists()
