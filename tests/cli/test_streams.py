"""Streams that are closed or full: no traceback, no file of ours in a stream's place, an exit status that is true."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness.machine import needs_root
from harness.world import World
from transcript import Shell

CKPT = f'"{sys.executable}" -P -m checkpointer'


def sh(shell: Shell, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", script], cwd=shell.root, env=shell.env, capture_output=True, text=True)


@pytest.fixture
def saved(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (shell.root / "a").write_text("1\n")
    assert shell.ckpt("save").status == 0
    return shell


@pytest.mark.parametrize("words", ["log", "--json", "save --json", "--help", "undo -n", "show nope --json"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-", ">/dev/full"])
def test_no_traceback(saved: Shell, words: str, closed: str) -> None:
    done = sh(saved, f"{CKPT} {words} {closed}")
    assert "Traceback" not in done.stdout + done.stderr
    assert "Exception ignored" not in done.stderr
    if closed == ">/dev/full":
        assert done.returncode != 0
        assert done.stderr != ""


def test_a_save_with_every_stream_closed(saved: Shell) -> None:
    """A pack that is opened must not get the number of a stream, and the words for people must not get into it."""
    for n in range(3):
        (saved.root / "a").write_text(f"{n} more\n")
        assert sh(saved, f"{CKPT} save >&- 2>&- <&-").returncode == 0
    assert saved.ckpt("verify").status == 0
    assert len(saved.ckpt("log", "--checkpoints").out.splitlines()) == 4


def test_a_part_that_is_missing(saved: Shell) -> None:
    code = "import sys; sys.modules['click'] = None; from checkpointer.__main__ import main; sys.exit(main(['log']))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=saved.root, env=saved.env, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "ckpt is not installed as a whole: click is missing"


@needs_root
def test_stores_that_cannot_be_read(nobody: World) -> None:
    nobody.write("a", "1\n")
    nobody.save()
    stores = nobody.state / "workspaces"
    stores.chmod(0)
    try:
        for words in (("status",), ("save",), ("workspaces",)):
            assert "cannot be read" in nobody.ckpt(*words, ok=1).err, words
        assert nobody.ckpt("status", "--short").out == ""
    finally:
        stores.chmod(0o700)
