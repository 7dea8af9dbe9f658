"""Labels, and what is said where there is nothing to label: every name given finds its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from transcript import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_every_label_of_one_checkpoint_finds_it(shell: Shell) -> None:
    (shell.root / "f").write_text("1")
    for name in ("a", "b", "c"):
        said = shell.ckpt("save", "-m", name)
    assert 'is called "c" now' in said.out
    assert 'still found as "b" too' in said.out
    (shell.root / "f").write_text("2")
    shell.ckpt("save", "-m", "later")
    for name in ("a", "b", "c"):
        assert shell.ckpt("cat", name, "f").out == "1", name
    assert shell.ckpt("pin", "2", "-m", "b").status == 0  # a name in use goes to the newest it was given to
    assert shell.ckpt("cat", "b", "f").out == "2"
    assert shell.ckpt("pin", "1").status == 0
    assert shell.ckpt("cat", "a", "f").out == "1", "pinning without a name takes no name away"
    assert shell.ckpt("save", "-m", "later").status == 0
    assert shell.ckpt("cat", "later", "f").out == "2"
    assert shell.ckpt("cat", "c2", "f").status == 2


def test_a_checkpoint_is_kept_by_any_of_its_names(shell: Shell) -> None:
    for n in range(4):
        (shell.root / "f").write_text(str(n))
        shell.ckpt("save", *(["-m", "first"] if n == 0 else []))
        if n == 0:
            shell.ckpt("save", "-m", "second")
    assert shell.ckpt("gc", "--keep-days", "0", "--keep-number", "1", "--yes").status == 0
    assert shell.ckpt("cat", "first", "f").out == shell.ckpt("cat", "second", "f").out == "0"


def test_where_everything_is_ignored_that_is_said_with_the_line_that_does_it(shell: Shell) -> None:
    git = Path(shell.env["HOME"]) / ".config" / "git"
    git.mkdir(parents=True)
    (git / "ignore").write_text("# all\n*\n")
    (shell.root / "f").write_text("1")
    (shell.root / "d").mkdir()
    said = shell.ckpt("save")
    assert "NOTHING IS PROTECTED" in said.err
    assert "line 2 (*) of ~/.config/git/ignore" in said.err
    assert "NOT PROTECTED: everything here is ignored (2 names)" in shell.ckpt("status").out
    assert "NOTHING IS PROTECTED" in shell.ckpt("run", "--", "true").err
    (shell.root / ".ckptignore").write_text("!*\n")
    assert "NOTHING" not in shell.ckpt("save").err
    assert shell.ckpt("cat", "now", "f").out == "1"
    assert "NOT PROTECTED" not in shell.ckpt("status").out


def test_an_empty_directory_is_just_empty(shell: Shell) -> None:
    assert shell.ckpt("save").err == ""
    assert "NOT PROTECTED" not in shell.ckpt("status").out
