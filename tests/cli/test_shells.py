"""Completion in real shells; what `run --json` says beside a child that has stdout to itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness.machine import need
from transcript import Shell

BASH = """
source ./bash
comp() { COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMPREPLY=(); _ckpt
  printf '%s\\n' "${COMPREPLY[@]}"; }
cd ../home/w; comp ckpt und; comp ckpt undo ''; comp ckpt restore f; comp ckpt undo --sk
"""
FISH = """
source ./fish; cd ../home/w
for words in 'ckpt und' 'ckpt undo ' 'ckpt restore f' 'ckpt undo --sk'; complete -C $words; end
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    (made.root / "a").write_text("1")
    return made


@pytest.mark.parametrize(("name", "script"), [("bash", BASH), ("fish", FISH)])
def test_a_real_shell_completes_commands_handles_labels_and_options(shell: Shell, name: str, script: str) -> None:
    program = need(name)
    shell.ckpt("save", "-m", "first")
    shell.ckpt("run", "--", "sh", "-c", "echo 2 > a")
    place = shell.base / "bin"
    place.mkdir()
    (place / "ckpt").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m checkpointer "$@"\n')
    (place / "ckpt").chmod(0o755)
    (place / name).write_text(shell.ckpt("completion", name).out)
    env = {**shell.env, "PATH": f"{place}:{shell.env['PATH']}"}
    words = [program, *(["--norc"] if name == "bash" else ["--no-config"]), "-c", script]
    done = subprocess.run(words, cwd=place, env=env, capture_output=True, text=True, timeout=120)
    found = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert found == ["undo", "t1", "first", "--skip"], done.stdout + done.stderr


def test_run_tells_programs_on_stderr(shell: Shell) -> None:
    done = shell.ckpt("run", "--json", "--", "sh", "-c", "echo out; echo 2 > a; echo err >&2; exit 3")
    assert done.status == 3
    assert done.out == "out\n"
    err, document = done.err.splitlines()
    assert err == "err"
    told = json.loads(document)
    assert (told["run"], told["turns"], told["changed"], told["exit"]) == ("r1", ["t1"], ["a"], 3)
    assert told["protected"]
    assert json.loads(shell.ckpt("run", "--json", "--", "true").err)["changed"] == []


def test_where_nothing_is_started_the_failure_is_on_stdout(shell: Shell) -> None:
    refused = shell.ckpt("run", "--json", "--", "touch", "started", cwd=Path("/"))
    assert refused.status == 125
    assert json.loads(refused.out)["error"]["code"] == "refused-root"
