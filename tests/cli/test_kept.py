"""What a gc leaves: what undo of the newest turns needs, whatever the budget; older kept checkpoints stay listed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from transcript import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def turn(shell: Shell, n: int) -> None:
    (shell.base / "content").write_bytes(os.urandom(100_000))
    assert shell.work(f"t{n}", "r1", f"cp {shell.base}/content big; echo {n} > f{n}").status == 0


def test_a_budget_leaves_what_undo_of_the_newest_turns_needs(shell: Shell) -> None:
    for n in range(1, 7):
        turn(shell, n)
    said = shell.ckpt("gc", "--budget", "1000", "--yes")
    assert said.status == 0
    assert "above its budget" in said.err
    for n in (6, 5, 4):
        assert f"undid t{n}" in shell.ckpt("undo").out
    for n in (4, 5, 6):
        assert f"redid t{n}" in shell.ckpt("redo").out
    assert shell.ckpt("undo", "t3").status == 1
    assert shell.ckpt("verify").status == 0


def test_a_budget_that_is_kept_says_nothing(shell: Shell) -> None:
    turn(shell, 1)
    assert shell.ckpt("gc").err == ""


def test_what_is_kept_for_good_is_listed_below_the_rest(shell: Shell) -> None:
    for n in range(1, 6):
        (shell.root / "f").write_text(str(n))
        shell.ckpt("save", *(["-m", "good"] if n == 1 else []))
    shell.ckpt("pin", "2")
    shell.ckpt("gc", "--keep-days", "0", "--keep-number", "1", "--yes")
    lines = shell.ckpt("log").out.splitlines()
    assert [line.split()[0] for line in lines] == ["5", "2", "1"]
    assert all("older than what undo reaches" in line for line in lines[1:])
    assert "good" in lines[2]
    assert len(shell.ckpt("log", "--checkpoints").out.splitlines()) == 3
    assert shell.ckpt("log", "--json").out.count('"kind": "kept"') == 2
    assert len(shell.ckpt("log", "-n", "1").out.splitlines()) == 1
    assert shell.ckpt("restore", "good").status == 0
