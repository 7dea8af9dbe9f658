"""A workspace that is a project with its own git, driven by the real git with a configuration of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from harness.captures import Place

from checkpointer.workspace.odb.objects import oid_of

_OLD_NS = 30_000_000
"""Times of files advance in steps of up to 10 ms."""


class Project(Place):
    """`root` is a repository. `home` is where its git, and what of ours looks for its settings, finds them."""

    def __init__(self, directory: Path, *words: str, home: Path | None = None, like: Project | None = None) -> None:
        super().__init__(directory)
        self.directory = directory
        self._others: list[Project] = []
        self.home = home or directory / "home"
        if home is None:
            self.home.mkdir()
        if like is not None:
            shutil.copytree(like.path, self.path, symlinks=True, dirs_exist_ok=True)
            self.settle()
            self.git("update-index", "-q", "--refresh")
        elif home is None:
            self.git("init", "-q", "-b", "main", *words)

    def again(self, path: Path | None = None) -> Project:
        """The same workspace, or another one there, with a new store."""
        directory = self.directory / f"again{len(self._others)}"
        directory.mkdir()
        other = Project(directory, home=self.home)
        other.path = path or self.path
        other.root = os.fsencode(other.path)
        self._others.append(other)
        return other

    def close(self) -> None:
        for other in (*self._others, super()):
            other.close()

    def git(self, *words: str, at: str | Path = "", given: bytes = b"", ok: bool = True) -> bytes:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        who = (
            "-c",
            "user.name=n",
            "-c",
            "user.email=e",
            "-c",
            "protocol.file.allow=always",
            "-c",
            "gc.auto=0",
            "-c",
            "core.fsync=none",
        )
        done = subprocess.run(
            ["git", *who, *words], cwd=self.path / at, env=environment, input=given, capture_output=True
        )
        assert not ok or done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def commit(self, *words: str) -> None:
        """Add and commit everything, when nothing that stands there is too young for git's index to be relied on."""
        self.settle()
        self.git(*words, "add", "-A")
        self.git(*words, "commit", "-q", "--allow-empty", "-m", "x")

    def pack(self, *words: str) -> Path:
        """Everything that was committed into one pack without deltas."""
        self.git("repack", "-adfq", "--window=0", *words)
        (found,) = self.packs()
        return found

    def settle(self, age_ns: int = _OLD_NS) -> None:
        """Wait until no file is younger than that."""
        newest = 0
        for directory, names, files in os.walk(self.root):
            names[:] = [n for n in names if n != b".git"]
            newest = max([newest, *(os.lstat(os.path.join(directory, f)).st_ctime_ns for f in files)])
        while time.time_ns() < newest + age_ns:
            time.sleep(age_ns / 1e9)

    def packs(self) -> list[Path]:
        return sorted((self.path / ".git/objects/pack").glob("*.pack"))

    def entry(self, path: str) -> tuple[Path, int, int]:
        """The pack that holds the blob of a file as it stands, and where its entry begins and ends."""
        oid = oid_of("blob", (self.path / path).read_bytes()).hex()
        for pack in self.packs():
            listed = subprocess.run(
                ["git", "verify-pack", "-v", str(pack.with_suffix(".idx"))], capture_output=True, text=True, check=True
            ).stdout
            for words in map(str.split, listed.splitlines()):
                if words[0] == oid:
                    return pack, int(words[4]), int(words[4]) + int(words[3])
        raise AssertionError(f"{path} is in no pack")

    def size(self, *paths: str) -> int:
        return sum((self.path / path).stat().st_size for path in paths)
