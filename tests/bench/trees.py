"""Trees of made-up source files, and what git needs to capture the same ones."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

FILES_PER_DIRECTORY = 40
_WORDS = [f"{a}{b}" for a in ("get", "set", "make", "find", "load") for b in ("Item", "Name", "Path", "User", "Row")]


def text(rng: random.Random, size: int) -> bytes:
    """Text that deflates about as source does."""
    lines = []
    total = 0
    while total < size:
        line = f"    {rng.choice(_WORDS)}({rng.choice(_WORDS)}, {rng.randrange(10**6)})  # {rng.choice(_WORDS)}\n"
        lines.append(line)
        total += len(line)
    return "".join(lines).encode()


def make(root: Path, count: int, seed: int = 1) -> list[Path]:
    """`count` files below `root`, 40 in a directory, three levels deep, about 4 KB each with a long tail."""
    rng = random.Random(seed)
    pool = [text(rng, 1000 * (1 + i % 8)) for i in range(64)]
    paths = []
    for start in range(0, count, FILES_PER_DIRECTORY):
        number = start // FILES_PER_DIRECTORY
        directory = root / f"a{number % 20}" / f"b{number // 20 % 25}" / f"c{number // 500}"
        directory.mkdir(parents=True, exist_ok=True)
        for i in range(start, min(start + FILES_PER_DIRECTORY, count)):
            path = directory / f"file_{i}.py"
            path.write_bytes(f"# {i} {rng.random()}\n".encode() + pool[i % len(pool)])
            paths.append(path)
    return paths


def change(paths: list[Path], stamp: str) -> None:
    """Edit each of these files."""
    for path in paths:
        with path.open("ab") as f:
            f.write(f"# {stamp}\n".encode())


def own_git(root: Path) -> None:
    """The tree as a project with a git of its own: committed, packed, and old enough for its index to be relied on."""
    env = {"PATH": os.environ["PATH"], "HOME": str(root.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=bench", "-c", "user.email=bench", "-c", "gc.auto=0")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "x"), ("gc", "-q")):
        subprocess.run(["git", *who, *words], cwd=root, env=env, check=True)


class Baseline:
    """What other tools do for a checkpoint: `git add -A`, `write-tree`, `commit-tree`, `update-ref`."""

    def __init__(self, root: Path, repository: Path) -> None:
        self.root = root
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(repository.parent),
            "GIT_DIR": str(repository),
            "GIT_WORK_TREE": str(root),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **{f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        self.repository = repository
        plain = {key: value for key, value in self.env.items() if key not in ("GIT_DIR", "GIT_WORK_TREE")}
        subprocess.run(["git", "init", "-q", "--bare", str(repository)], env=plain, check=True)

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], env=self.env, cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def add(self) -> str:
        """`git add -A` and `write-tree`; the tree."""
        self.git("add", "-A")
        return self.git("write-tree")

    def checkpoint(self) -> str:
        commit = self.git("commit-tree", "-m", "x", self.add())
        self.git("update-ref", "refs/heads/main", commit)
        return commit

    def reset(self, commit: str) -> None:
        self.git("read-tree", "-u", "--reset", commit)
