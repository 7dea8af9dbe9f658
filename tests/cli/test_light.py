"""What a shell prompt, a completion and a `--help` cost: nothing heavy is imported for them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("pygit2", "pydantic", "watchdog", "psutil", "tomlkit", "isal", "platformdirs")
SCRIPT = """
import json, os, sys
from checkpointer.__main__ import main
null = os.open(os.devnull, os.O_WRONLY)
real = os.dup(1)
os.dup2(null, 1)
status = main(sys.argv[1:])
sys.stdout.flush()
os.write(real, json.dumps([status, sorted(sys.modules)]).encode())
"""


def modules(*words: str, cwd: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        cwd=cwd,
        capture_output=True,
        env={"HOME": str(cwd), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    status, names = json.loads(done.stdout)
    assert status == 0, done.stderr
    return {n.partition(".")[0] for n in names}


@pytest.mark.parametrize(
    "words",
    [
        ("--version",),
        ("--help",),
        ("undo", "--help"),
        ("status", "--short"),
        ("completion", "bash"),
        ("completion", "words", "un"),
        ("completion", "words", "undo", ""),
        ("completion", "words", "install", "c"),
    ],
)
def test_nothing_heavy(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert not modules(*words, cwd=tmp_path).intersection(HEAVY)


@pytest.mark.parametrize("words", [("--version",), ("status", "--short")])
def test_not_even_click(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert "click" not in modules(*words, cwd=tmp_path)


def test_a_hook_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """Up to where it knows that the report is nobody's: no parser, no models, and nothing that only makes classes."""
    loaded = modules("hook", "claude", "PreToolUse", cwd=tmp_path)
    assert not loaded.intersection((*HEAVY, "click", "dataclasses", "inspect"))
