"""Repositories as people and programs leave them, by chance: what is lent never changes what a checkpoint holds."""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash.cutting import without_syncs
from harness.captures import same, standing
from harness.shadow import sound
from workspace.project import Project

from checkpointer.workspace.lending import loan, projectpacks
from checkpointer.workspace.reading.borrowing import Borrower

ROUNDS = 300 if os.environ.get("CKPT_EXPLORE") else 25
_DIRECTORIES = ("", "a", "a/b", "a/b/c", "d", "d/e", "d\xe9", "d/.hidden")
_SUFFIXES = (".py", ".txt", ".rot", ".ID", ".crlf", "", ".enc")
_ATTRIBUTES = (
    "* text=auto",
    "*.crlf text eol=crlf",
    "*.ID ident",
    "*.rot filter=rot",
    "*.enc working-tree-encoding=SHIFT-JIS",
    "*.py -text -diff",
    "f1* filter=rot",
    "a/** filter=rot",
    "[attr]odd filter=rot\n*.rot odd",
    '"f\\061.txt" ident',
    "*.rot -filter",
)


class Chance:
    """One repository, made and then disturbed by a seeded generator."""

    def __init__(self, project: Project, seed: int) -> None:
        self.rng = random.Random(seed)
        self.project = project
        self.done: list[str] = []

    # Before git sees it

    def content(self, suffix: str) -> bytes:
        rng = self.rng
        if suffix == ".ID":
            return b"$Id$ %d\n$Id: %040x $\n" % (rng.randrange(9), rng.randrange(16**40))
        if suffix == ".enc":
            return "Привет %d\n".encode("shift-jis") % rng.randrange(100)
        text = b"".join(rng.choice((b"one line\n", b"a line\r\n", b"x" * 200 + b"\n")) for _ in range(rng.randrange(6)))
        return text + b"%d" % rng.randrange(50) if rng.random() < 0.8 else text

    def grow(self) -> None:
        project, rng = self.project, self.rng
        project.git("config", "filter.rot.clean", "tr a-z b-za")
        project.git("config", "filter.rot.smudge", "tr b-za a-z")
        project.git("config", "core.autocrlf", rng.choice(("false", "true", "input")))
        for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
            where = rng.choice((*(f"{d}/.gitattributes".lstrip("/") for d in _DIRECTORIES), ".git/info/attributes"))
            lines = [a for a in rng.sample(_ATTRIBUTES, rng.randrange(1, 3)) if "[attr]" not in a or "/" not in where]
            project.write(where, "\n".join(lines).encode() + b"\n")
        for i in range(rng.randrange(20, 60)):
            suffix = rng.choice(_SUFFIXES)
            path = os.path.join(rng.choice(_DIRECTORIES), f"f{i}{suffix}")
            project.write(path, self.content(suffix), rng.choice((0o644, 0o644, 0o755, 0o600)))
        if rng.random() < 0.3:
            os.symlink("f1.py", project.path / "link")
        if rng.random() < 0.3:
            project.write(".gitignore", b"f2*\nd/e\n")
            self.done.append("ignored")

    def commit(self) -> None:
        project = self.project
        project.settle()
        project.git("-c", "core.safecrlf=false", "add", "-A", "-f")
        project.git("commit", "-qm", "x", "--allow-empty")
        project.git("-c", "core.safecrlf=false", "checkout", "-q", "-f", "HEAD")

    def keep(self) -> None:
        """Loose, packed in one way or another, or both."""
        how = self.rng.choice(("loose", "gc", "repack", "repack", "repack", "old index", "small packs", "midx"))
        git = self.project.git
        self.done.append(how)
        if how == "gc":
            git("gc", "-q")
        elif how == "repack":
            git("repack", "-adfq", "--window=0")
        elif how == "old index":
            git("-c", "pack.indexVersion=1", "repack", "-adq")
        elif how == "small packs":
            git("repack", "-dq")
        elif how == "midx":
            git("repack", "-adq", "--write-midx", "--write-bitmap-index")

    # Afterwards

    def files(self) -> list[Path]:
        found = []
        for directory, names, files in os.walk(self.project.path):
            names[:] = [n for n in names if n != ".git"]
            found += [Path(directory, f) for f in files if not f.startswith(".git")]
        return sorted(p for p in found if not p.is_symlink())

    def one(self) -> Path | None:
        files = self.files()
        return self.rng.choice(files) if files else None

    def edited(self) -> None:
        if path := self.one():
            path.write_bytes(self.content(path.suffix))

    def edited_secretly(self) -> None:
        if path := self.one():
            st = path.stat()
            path.write_bytes(path.read_bytes()[::-1])
            os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))

    def replaced_by_a_twin(self) -> None:
        if path := self.one():
            twin = path.with_name("twin")
            twin.write_bytes(path.read_bytes()[::-1])
            shutil.copystat(path, twin)
            twin.replace(path)

    def swapped(self) -> None:
        one, other = self.one(), self.one()
        if one and other and one != other:
            shelf = one.with_name("shelf")
            one.rename(shelf)
            other.rename(one)
            shelf.rename(other)

    def removed(self) -> None:
        if path := self.one():
            path.unlink()

    def made_a_link(self) -> None:
        if path := self.one():
            path.unlink()
            path.symlink_to("nowhere")

    def mode(self) -> None:
        if path := self.one():
            path.chmod(stat.S_IMODE(path.stat().st_mode) ^ 0o111)

    def untracked(self) -> None:
        self.project.write(f"d/new{self.rng.randrange(99)}.py", b"new\n")

    def flagged(self) -> None:
        if path := self.one():
            flag = self.rng.choice(("--assume-unchanged", "--skip-worktree"))
            self.project.git("update-index", flag, str(path), ok=False)
            path.write_bytes(path.read_bytes()[::-1])

    def intended(self) -> None:
        self.project.write("intended.py", b"soon")
        self.project.git("add", "-f", "-N", "intended.py")

    def staged_and_edited(self) -> None:
        if path := self.one():
            path.write_bytes(b"staged")
            self.project.git("add", "-f", str(path))
            path.write_bytes(b"edited")

    def forgotten(self) -> None:
        if path := self.one():
            self.project.git("rm", "-q", "--cached", "-f", str(path), ok=False)

    def index_of_another_kind(self) -> None:
        how = self.rng.choice(("--split-index", "--index-version=4", "--untracked-cache", "--refresh"))
        self.project.git("update-index", "-q", *how.split("="), ok=False)

    def without_attributes(self) -> None:
        for found in self.project.path.rglob(".gitattributes"):
            found.unlink()

    def other_configuration(self) -> None:
        self.project.git("config", "core.autocrlf", self.rng.choice(("false", "true", "input")))

    def refreshed(self) -> None:
        self.project.git("status", "-s")

    def branched_and_back(self) -> None:
        self.project.git("stash", "-q", ok=False)
        self.project.git("checkout", "-q", "-b", "side", ok=False)
        self.edited()
        self.project.git("commit", "-qam", "side", "--allow-empty", ok=False)
        self.project.git("checkout", "-q", "main", ok=False)
        self.project.git("stash", "pop", "-q", ok=False)

    def damaged(self) -> None:
        packs = self.project.packs()
        if packs:
            pack = self.rng.choice(packs)
            path = self.rng.choice((pack, pack, pack.with_suffix(".idx")))
            path.chmod(0o600)
            data = bytearray(path.read_bytes())
            data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
            path.write_bytes(data[: self.rng.choice((len(data), len(data), self.rng.randrange(len(data))))])

    def disturb(self) -> None:
        kinds: list[Callable[[], None]] = [
            self.edited, self.edited_secretly, self.replaced_by_a_twin, self.swapped, self.removed, self.made_a_link,
            self.mode, self.untracked, self.flagged, self.intended, self.staged_and_edited, self.forgotten,
            self.index_of_another_kind, self.without_attributes, self.other_configuration, self.refreshed,
            self.branched_and_back,
        ]  # fmt: skip
        for act in self.rng.choices(kinds, k=self.rng.randrange(6)):
            act()
            self.done.append(act.__name__)
        if self.rng.random() < 0.25:
            self.damaged()
            self.done.append("damaged")


class _Never(dict[tuple[str, str], bool]):
    """No kind of file is converted."""

    def get(self, *args: Any) -> Any:
        return False


_made = Borrower.__init__


def _trusting(self: Borrower, *args: Any) -> None:
    _made(self, *args)
    self._converted = _Never()


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_as_if_every_file_were_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    without_syncs(monkeypatch)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(loan, "SLACK_NS", 1_000_000)
    monkeypatch.setattr(projectpacks, "_HELD", (0, 1000, 1 << 20)[seed % 3])
    project = Project(tmp_path)
    monkeypatch.setenv("HOME", str(project.home))
    chance = Chance(project, seed)
    chance.grow()
    chance.commit()
    chance.keep()
    chance.disturb()
    if seed % 2 and "without_attributes" not in chance.done:  # then nothing need be read to see what was converted
        monkeypatch.setattr(Borrower, "__init__", _trusting)
    plain = project.look(borrow=False)
    present = project.save()
    assert present.root == plain.root, chance.done
    sound(project.store)
    shutil.rmtree(project.path / ".git")
    tree = project.store.tree(project.store.tip())
    if "ignored" not in chance.done:
        same(tree, standing(project.root))
    else:
        for path, entry in tree.walk():
            if entry.kind == "file":
                assert tree.read(path) == (project.path / os.fsdecode(path)).read_bytes()
    project.close()
