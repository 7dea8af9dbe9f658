"""Who calls, and from where: an agent, a terminal, a user without a home, a store that cannot be written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness.machine import IS_ROOT, STRANGER, needs_root
from harness.world import World
from test_output import CKPT, on_terminal
from transcript import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    (made.root / "a").write_text("1\n")
    return made


def test_an_agent_undoes_its_own_turns_only(shell: Shell) -> None:
    shell.ckpt("save")
    shell.work("t1", "r1", "echo 1 > one")
    shell.work("t2", "r2", "echo 2 > two")
    assert shell.ckpt("undo", CKPT_RUN="r1").status == 0
    assert not (shell.root / "one").exists()
    assert (shell.root / "two").exists()
    assert "nothing to undo" in shell.ckpt("undo", CKPT_RUN="r1").err
    assert shell.ckpt("undo", "t2", CKPT_RUN="r1").status == 3
    assert shell.ckpt("undo", "--run", "r2", CKPT_RUN="r1").status == 3
    assert shell.ckpt("undo", "--force", CKPT_RUN="r1").status == 3
    rows = [json.loads(line) for line in shell.ckpt("log", "--checkpoints", "--json").out.splitlines()]
    assert [r["by"] for r in rows if r["kind"] == "undo"] == ["agent"]
    assert shell.ckpt("redo", CKPT_RUN="r1").status == 0


@pytest.mark.parametrize("words", [("purge", "a"), ("forget", "."), ("gc",), ("config", "gc.keep_days", "3")])
def test_what_is_a_persons(shell: Shell, words: tuple[str, ...]) -> None:
    shell.ckpt("save")
    done = shell.ckpt(*words, "--json", *(["--yes"] if words[0] != "config" else []), CKPT_RUN="r1")
    assert done.status == 3
    assert json.loads(done.out)["error"]["code"] == "needs-person"
    assert shell.ckpt("log").status == 0


def test_a_question_is_asked_on_a_terminal_only(shell: Shell) -> None:
    shell.ckpt("save")
    assert shell.ckpt("forget", ".", stdin=b"y\n").status == 3
    status, shown = on_terminal(
        shell, "sh", "-c", f"printf 'n\\n' | :; {sys.executable} -m checkpointer forget . < /dev/null"
    )
    assert status == 3
    assert "--yes" in shown


def test_an_answer_counts(shell: Shell) -> None:
    import pty

    shell.ckpt("save")
    for answer, status in ((b"n\n", 3), (b"\n", 3), (b"y\n", 0)):
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*CKPT, "forget", "."], stdin=slave, stdout=slave, stderr=slave, cwd=shell.root, env=shell.env
        )
        os.close(slave)
        os.write(master, answer)
        assert process.wait(30) == status
        os.close(master)


def test_hints_are_for_a_terminal(shell: Shell) -> None:
    shell.ckpt("save")
    shell.work("t1", "r1", "echo 2 > a")
    assert "next:" not in shell.ckpt("undo").err
    shell.ckpt("redo")
    _, shown = on_terminal(shell, *CKPT, "undo")
    assert "next: ckpt redo (this again)" in shown
    shell.ckpt("redo")
    _, shown = on_terminal(shell, *CKPT, "undo", "-q")
    assert "next:" not in shown


def test_the_pager_is_for_a_terminal(shell: Shell) -> None:
    shell.ckpt("save")
    pager = shell.base / "pager"
    pager.write_text("#!/bin/sh\necho BEGIN; cat; echo END\n")
    pager.chmod(0o755)
    for words in (("log",), ("show", "1"), ("diff", "1", "now")):
        _, shown = on_terminal(shell, *CKPT, *words, CKPT_PAGER=str(pager), PAGER="false")
        assert shown.startswith("BEGIN"), words
        assert shown.rstrip().endswith("END")
        assert "BEGIN" not in shell.ckpt(*words, CKPT_PAGER=str(pager)).out
    _, shown = on_terminal(shell, *CKPT, "log", PAGER="cat")
    assert "save" in shown
    status, shown = on_terminal(shell, *CKPT, "log", CKPT_PAGER="true")  # leaves at once
    assert status == 0
    assert "Traceback" not in shown
    _, shown = on_terminal(shell, *CKPT, "log", CKPT_PAGER="/no/such/pager")
    assert "save" in shown


def test_colours_on_a_terminal(shell: Shell) -> None:
    shell.ckpt("save")
    assert "\x1b[" in on_terminal(shell, *CKPT, "log", PAGER="cat")[1]
    assert "\x1b[" not in on_terminal(shell, *CKPT, "log", PAGER="cat", NO_COLOR="1")[1]
    assert "\x1b[" not in shell.ckpt("log").out
    assert "\x1b[" in shell.ckpt("log", "--color", "always").out


def test_a_heavy_tree_is_announced(shell: Shell) -> None:
    (shell.root / "deps").mkdir()
    for i in range(60):
        (shell.root / "deps" / f"{i}").touch()
    shell.ckpt("config", "capture.heavy", "50")
    done = shell.ckpt("save")
    assert done.status == 0
    assert "more than 50 files" in done.err
    assert "deps (" in done.err
    assert "files to read" not in shell.ckpt("save").err


def test_a_light_tree_is_not(shell: Shell) -> None:
    assert shell.ckpt("save").err == ""


def test_a_prompt_line(shell: Shell) -> None:
    assert shell.ckpt("status", "--short").out == ""
    shell.ckpt("save")
    assert shell.ckpt("status", "--short").out.startswith("ckpt 1 ")
    assert shell.ckpt("status", "--short", "-C", ".").out.startswith("ckpt 1 ")
    assert shell.ckpt("status", "--short", CKPT_OFF="1").out == "ckpt: off\n"


def test_completion_knows_the_agents(shell: Shell) -> None:
    for verb in ("install", "uninstall", "doctor"):
        done = shell.ckpt("completion", "words", verb, "c")
        assert [line.split("\t")[0] for line in done.out.splitlines()] == [
            "claude",
            "codex",
            "copilot",
            "cline",
            "cursor",
        ]


def test_completion_knows_handles_and_their_words(shell: Shell) -> None:
    shell.ckpt("save", "-m", "start")
    shell.work("t1", "r1", "echo 2 > a")

    def words(*typed: str) -> list[str]:
        done = shell.ckpt("completion", "words", *typed)
        assert (done.status, done.err) == (0, "")
        return [line.split("\t")[0] for line in done.out.splitlines()]

    assert {"undo", "uncertain" if "uncertain" in words("un") else "undo"} <= set(words("un"))
    assert words("undo", "") == ["t1"]
    assert words("restore", "") == ["t1", "1", "start"]
    assert words("restore", "s") == ["start"]
    assert "--skip" in words("undo", "--s")
    assert words("undo", "--", "") == []
    assert words("nosuch", "") == []
    assert words("config", "gc.b") == ["gc.budget"]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_scripts_are_sound(shell: Shell, name: str) -> None:
    text = shell.ckpt("completion", name).out
    assert "ckpt completion words" in text
    if shutil.which(name):
        subprocess.run([name, "-n"], input=text, text=True, check=True)


@needs_root
def test_a_read_only_store_can_be_looked_at(nobody: World) -> None:
    nobody.write("a", "1\n")
    nobody.save()
    nobody.write("a", "2\n")
    for where, directories, files in os.walk(nobody.state):
        for name in (*directories, *files):
            os.chown(os.path.join(where, name), 0, 0)
            os.chmod(os.path.join(where, name), 0o755 if name in directories else 0o644)
    for words in (
        ("status",),
        ("log",),
        ("show", "1"),
        ("diff",),
        ("cat", "1", "a"),
        ("restore", "1", "-n"),
        ("undo", "-n"),
        ("workspaces",),
    ):
        nobody.ckpt(*words)
    assert not nobody.ckpt("status", "--json").json["protected"]
    for words in (("save",), ("undo",), ("restore", "1"), ("pin", "1"), ("gc",)):
        refused = nobody.ckpt(*words, "--json", ok=1)
        assert refused.error["code"] == "read-only-store"
    assert nobody.read("a") == b"2\n"
    nobody.ckpt("restore", "1", "--to", str(nobody.base / "run" / "out"))


@needs_root
def test_a_user_whom_nothing_knows(worlds, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    world = worlds(uid=STRANGER)
    world.write("a", "1\n")
    bare = dict.fromkeys(("HOME", "CKPT_HOME", "CKPT_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"))
    for environ in (bare, {**bare, "HOME": ""}, {**bare, "HOME": "/"}, {**bare, "HOME": "/nonexistent"}):
        done = world.ckpt("save", env=environ, ok=(0, 1))
        assert "failed unexpectedly" not in done.text
        if environ.get("HOME") != "/nonexistent":
            assert done.status == 0, done.text
            world.ckpt("status", env=environ)
    assert IS_ROOT
