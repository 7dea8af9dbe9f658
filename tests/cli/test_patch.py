"""Differences read as git prints them, and apply as git applies them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from harness.machine import need
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpointer.cli import patch
from checkpointer.workspace.entry import Entry

Files = Mapping[bytes, tuple[str, bytes, int]]
"""path -> (kind, content, mode)"""


def entries(files: Files, contents: dict[bytes, bytes]) -> dict[bytes, Entry]:
    found = {}
    for path, (kind, data, mode) in files.items():
        oid = hashlib.sha1(b"blob %d\0" % len(data) + data).digest()
        contents[oid] = data
        found[path] = Entry(kind, oid if kind in ("file", "link") else b"", mode)  # type: ignore[arg-type]
    return found


def changes_between(old: Files, new: Files) -> tuple[patch.Changes, patch.Read]:
    contents: dict[bytes, bytes] = {}
    a, b = entries(old, contents), entries(new, contents)
    found = {p: (a.get(p), b.get(p)) for p in a.keys() | b.keys() if a.get(p) != b.get(p)}
    return found, lambda e: contents[e.oid]


def whole(old: Files, new: Files) -> bytes:
    changes, read = changes_between(old, new)
    return b"".join(patch.patch(d, read) for d in patch.deltas(changes))


def write(root: Path, files: Files) -> None:
    for path, (kind, data, mode) in files.items():
        full = os.path.join(os.fsencode(root), path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if kind == "link":
            os.symlink(data, full)
        else:
            with open(full, "wb") as f:
                f.write(data)
            os.chmod(full, mode)


def git(root: Path, *args: str, data: bytes | None = None) -> bytes:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        [need("git"), "-c", "core.quotePath=false", *args], cwd=root, env=environ, input=data, capture_output=True
    )
    assert done.returncode == 0, (args, done.stderr, data)
    return done.stdout


def gits(tmp_path: Path, old: Files, new: Files) -> bytes:
    """What git itself prints between these."""
    root = tmp_path / "r"
    root.mkdir()
    git(root, "init", "-q")
    trees = []
    for files in (old, new):
        for name in os.listdir(root):
            if name != ".git":
                subprocess.run(["rm", "-rf", str(root / name)], check=True)
        write(root, files)
        git(root, "add", "-A", "-f")
        trees.append(git(root, "write-tree").decode().strip())
    return git(root, "diff-tree", "-p", "-r", "--no-renames", "--full-index", trees[0], trees[1])


def shortened(text: bytes) -> bytes:
    """Full ids cut to seven digits."""
    out = []
    for line in text.split(b"\n"):
        if line.startswith(b"index "):
            ids, _, mode = line[6:].partition(b" ")
            line = b"index " + b"..".join(i[:7] for i in ids.split(b"..")) + (b" " + mode if mode else b"")
        out.append(line)
    return b"\n".join(out)


ODD = (b" lead", b"a b", b"tab\there", b"new\nline", "能".encode(), b'q"q', b"back\\s", b"-n")
CASES: dict[str, tuple[Files, Files]] = {
    "edit": ({b"a": ("file", b"1\n2\n3\n", 0o644)}, {b"a": ("file", b"1\ntwo\n3\n", 0o644)}),
    "new": ({}, {b"d/a": ("file", b"1\n2", 0o644), b"empty": ("file", b"", 0o644), b"x": ("file", b"#!\n", 0o755)}),
    "deleted": ({b"d/a": ("file", b"1\n2\n", 0o644), b"e": ("file", b"", 0o755)}, {}),
    "mode": ({b"s": ("file", b"x\n", 0o644)}, {b"s": ("file", b"x\n", 0o755)}),
    "mode and content": ({b"s": ("file", b"x\n", 0o755)}, {b"s": ("file", b"y\n", 0o644)}),
    "binary": ({b"b": ("file", b"a\0b", 0o644)}, {b"b": ("file", b"a\0c", 0o644), b"n": ("file", b"\0", 0o644)}),
    "link": ({b"l": ("link", b"a", 0)}, {b"l": ("link", b"b/c", 0), b"m": ("link", b"x", 0)}),
    "kind": ({b"k": ("file", b"text\n", 0o644)}, {b"k": ("link", b"text", 0)}),
    "names": ({}, dict.fromkeys(ODD, ("file", b"x\n", 0o644))),
    "no newline": ({b"a": ("file", b"1\n2", 0o644)}, {b"a": ("file", b"1\n2\n", 0o644)}),
    "emptied": ({b"a": ("file", b"1\n", 0o644)}, {b"a": ("file", b"", 0o644)}),
    "carriage returns": ({b"a": ("file", b"1\r\n2\r\n", 0o644)}, {b"a": ("file", b"1\n2\r\n", 0o644)}),
    "function": (
        {b"f.py": ("file", b"def one():\n" + b"    x\n" * 9, 0o644)},
        {b"f.py": ("file", b"def one():\n" + b"    x\n" * 8 + b"    y\n", 0o644)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_reads_as_git_prints(tmp_path: Path, case: str) -> None:
    old, new = CASES[case]
    assert whole(old, new) == shortened(gits(tmp_path, old, new))


names = st.sampled_from([b"a", b"b", b"d/a", b"d e/f", b"caf\xe9"])
contents = st.lists(st.sampled_from([b"one\n", b"two\n", b"three\n", b"four", b"\n"]), max_size=6).map(b"".join)
trees = st.dictionaries(names, st.tuples(st.just("file"), contents, st.sampled_from([0o644, 0o755])), max_size=4)


@settings(max_examples=25)
@given(trees, trees)
def test_git_applies_it(tmp_path_factory: pytest.TempPathFactory, old: Files, new: Files) -> None:
    root = tmp_path_factory.mktemp("r")
    git(root, "init", "-q")
    write(root, old)
    text = whole(old, new)
    if text:
        git(root, "apply", "-", data=text)
    wanted = tmp_path_factory.mktemp("w")
    write(wanted, new)
    found = {
        p.relative_to(root): (p.read_bytes(), p.stat().st_mode & 0o100)
        for p in root.rglob("*")
        if p.is_file() and ".git" not in p.parts
    }
    assert found == {
        p.relative_to(wanted): (p.read_bytes(), p.stat().st_mode & 0o100) for p in wanted.rglob("*") if p.is_file()
    }


@pytest.mark.parametrize("case", CASES)
def test_lines_are_counted_as_git_counts(tmp_path: Path, case: str) -> None:
    old, new = CASES[case]
    changes, read = changes_between(old, new)
    text = gits(tmp_path, old, new)
    hunks = [line for part in text.split(b"\n@@ ")[1:] for line in part.split(b"\ndiff --git")[0].split(b"\n")[1:]]
    found = [patch.stat(d, read) for d in patch.deltas(changes)]
    assert sum(s.added for s in found) == sum(h.startswith(b"+") for h in hunks)
    assert sum(s.removed for s in found) == sum(h.startswith(b"-") for h in hunks)


def test_private_modes_are_told() -> None:
    text = whole({b"a": ("file", b"", 0o644)}, {b"a": ("file", b"", 0o600)})
    assert b"old mode 100644\nnew mode 100600\n" in text


def test_what_git_has_no_words_for() -> None:
    changes, _ = changes_between(
        {b"d": ("dir", b"", 0o755), b"p": ("fifo", b"", 0o644), b"r": ("file", b"x", 0o644)},
        {b"d": ("dir", b"", 0o700), b"e": ("dir", b"", 0o755), b"r": ("fifo", b"", 0o600)},
    )
    assert list(patch.others(changes)) == [
        "# mode 755 -> 700 of directory d",
        "# new directory e",
        "# removed fifo p",
        "# new fifo r",
    ]


def test_an_uncovered_path_is_not_shown_as_deleted() -> None:
    changes, _ = changes_between({b"big": ("file", b"x", 0o644)}, {b"big": ("uncovered", b"", 0)})
    assert list(patch.deltas(changes)) == []
    assert list(patch.others(changes)) == ["# new uncovered path big"]


def test_the_table_fits_and_sums_up() -> None:
    old = {b"long/" * 5 + b"a": ("file", b"", 0o644), b"b": ("file", b"\0", 0o644)}
    new = {b"long/" * 5 + b"a": ("file", b"x\n" * 500, 0o644), b"b": ("file", b"\1\0", 0o644)}
    changes, read = changes_between(old, new)
    lines = list(patch.stat_table([(d, patch.stat(d, read)) for d in patch.deltas(changes)], 60))
    assert all(len(line) <= 60 for line in lines)
    assert lines[0].endswith("Bin")
    assert lines[-1] == " 2 files changed, 500 insertions(+)"
