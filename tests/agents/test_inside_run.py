"""`ckpt run` around an agent with hooks, and `ckpt resume` in the agent's own way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from agents.hooking import Player, Told, until
from harness.world import World

from checkpointer.run.command import CommandRun
from checkpointer.run.typed import InputHistory
from checkpointer.workspace.workspace import Workspace

# Plays Claude Code: two turns, or what it is told to do on its command line; the hooks are real.
AGENT = r"""
import json, os, subprocess, sys, time
session = sys.argv[2] if sys.argv[1:2] == ["--resume"] else "s1"
def hook(event, **stdin):
    stdin = {"session_id": session, "cwd": os.getcwd(), "hook_event_name": event, **stdin}
    done = subprocess.run(["ckpt", "hook", "claude", event], input=json.dumps(stdin), capture_output=True, text=True)
    with open(os.environ["SAID"], "a") as f:
        f.write(json.dumps([event, sys.argv[1:], done.stdout.strip()]) + "\n")
def call(n, name, text):
    more = {"tool_name": "Bash", "tool_input": {"command": f"write {name}"}, "tool_use_id": f"c{n}"}
    hook("PreToolUse", **more)
    with open(name, "a") as f:
        f.write(text)
    return more
if sys.argv[1:2] == ["--resume"]:
    hook("SessionStart", source="resume")
    hook("UserPromptSubmit", prompt="go on")
    hook("Stop", last_assistant_message="went on")
    sys.exit(0)
hook("SessionStart", source="startup")
for n, name in enumerate(["one", "two"]):
    hook("UserPromptSubmit", prompt=f"write {name}")
    hook("PostToolUse", **call(n, name, name))
    if n and os.environ.get("HANG"):
        call(9, "half", "half")
        print("hanging", flush=True)
        time.sleep(600)
    hook("Stop", last_assistant_message=f"{name} is written")
    if not n and os.environ.get("BETWEEN"):
        open("between", "w").close()
hook("SessionEnd", reason="exit")
"""


@pytest.fixture
def player(world: World, tmp_path: Path) -> Player:
    programs = tmp_path / "bin"
    programs.mkdir()
    claude = programs / "claude"
    claude.write_text(f"#!{sys.executable}\n{AGENT}")
    ckpt = programs / "ckpt"
    ckpt.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m checkpointer "$@"\n')
    for program in (claude, ckpt):
        program.chmod(0o755)
    world.env["PATH"] = f"{programs}:{world.env['PATH']}"
    world.env["SAID"] = str(tmp_path / "said")
    return Player(world)


def said(player: Player) -> list[list[object]]:
    return [json.loads(line) for line in Path(player.world.env["SAID"]).read_text().splitlines()]


def test_turns_come_from_the_hooks(player: Player) -> None:
    result = player.world.ckpt("run", "--", "claude", env={"BETWEEN": "1"})
    assert "t2 to t3 changed 2 files: one two   (undo: ckpt undo t2..t3)" in result.err
    assert "between changed outside the turns: not the agent's" in result.err
    rows = [r for r in player.world.ckpt("log", "--json").lines if r["kind"] == "turn"]
    assert [(r["turn"], r["prompt"], r["run"]) for r in rows] == [("t3", "write two", "r1"), ("t2", "write one", "r1")]
    assert [r["run"] for r in player.world.ckpt("runs", "--json").lines] == ["r1"]
    text = player.world.ckpt("log", "--run", "r1").out
    assert "write one" in text
    assert 'answer: "two is written"' in text
    player.world.ckpt("undo")
    assert not (player.world.root / "two").exists()
    assert (player.world.root / "one").exists()
    player.world.ckpt("verify")


def test_a_session_inside_a_run_belongs_to_the_directory_it_began_in(world: World) -> None:
    """In another one it has a store and a run of its own; one that began here stays with the run wherever it goes."""
    player = Player(world)
    there = world.base / "there"
    there.mkdir()
    (there / "g").write_text("precious\n")
    world.ckpt("save")
    store = world.store
    running = CommandRun(Workspace(os.fsencode(world.root), store), ["sh"])
    running.begin()
    inside = {"CKPT_RUN": "r1", "CKPT_LOG": "r1", "CKPT_EPOCH": "1", "CKPT_WORKSPACE": str(world.root)}
    env = {**inside, "CKPT_EPOCH": str(running.pen.epoch)}

    def tell(session: str, cwd: Path, event: str, **more: object) -> str:
        said = {"session_id": session, "cwd": str(cwd), "hook_event_name": event, **more}
        return player.hook(Told("claude", event, said, env=env), cwd=cwd)

    def turn(session: str, cwd: Path, path: Path) -> None:
        call = {"tool_name": "Bash", "tool_input": {"command": "c"}, "tool_use_id": f"{path}"}
        tell(session, cwd, "UserPromptSubmit", prompt=f"by {session}")
        tell(session, cwd, "PreToolUse", **call)
        path.write_text("changed\n")
        tell(session, cwd, "PostToolUse", **call)
        tell(session, cwd, "Stop")

    def prompts(cwd: Path) -> set[tuple[str, str]]:
        rows = world.ckpt("log", "--json", cwd=cwd).lines
        return {(row["run"], row["prompt"]) for row in rows if row["kind"] == "turn" and row["prompt"] != "sh"}

    tell("here", world.root, "SessionStart", source="startup")
    turn("here", there, world.root / "one")
    tell("away", there, "SessionStart", source="startup")
    turn("away", there, there / "g")
    turn("away", world.root, there / "h")
    assert prompts(world.root) == {("r1", "by here")}
    assert prompts(there) == {("r1", "by away")}
    assert "t2" in tell("away", there, "UserPromptSubmit", prompt="ckpt undo")
    assert not (there / "h").exists()
    assert world.ckpt("undo", cwd=there, env=env).text.count("t1")  # the agent's own call, too
    assert (there / "g").read_text() == "precious\n"
    assert (world.root / "one").exists()
    tell("away", there, "SessionEnd", reason="exit")
    assert [row["status"] for row in world.ckpt("runs", "--json").lines] == ["running"]
    assert [row["status"] for row in world.ckpt("runs", "--json", cwd=there).lines] == ["ended"]


def killed(player: Player, *words: str) -> None:
    """Begin the agent and kill it, and all that is above it, inside its second turn's second call."""
    world = player.world
    command, env = world.words([], None)
    argv = [*command, "run", "--", *words] if words[0] != "-" else list(words[1:])
    child = subprocess.Popen(argv, cwd=world.root, env={**env, "HANG": "1"}, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == b"hanging\n"
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    with until("the run is seen as dead") as done:
        while not done("died" in world.ckpt("runs").out):
            pass


@pytest.mark.parametrize("around", [True, False])
def test_it_is_killed_and_goes_on_in_its_own_session(player: Player, around: bool) -> None:
    """With `ckpt run` around it, and without."""
    claude = ["claude"] if around else ["-", "claude"]
    killed(player, *claude)
    result = player.world.ckpt("resume", "r1")
    assert "--resume s1" in result.err
    _, words, out = next(one for one in said(player) if one[0] == "UserPromptSubmit" and one[1])
    assert words == ["--resume", "s1"]
    told = json.loads(str(out))["hookSpecificOutput"]["additionalContext"]
    assert "cut off" in told
    assert "Bash: UNKNOWN" in told
    assert "half" in told
    (item,) = player.world.ckpt("uncertain", "--json").json["uncertain"]
    assert item["tool"] == "Bash"
    assert player.world.read("half") == b"half"  # nothing was run again, and the files were kept
    prompts = [r["prompt"] for r in player.world.ckpt("log", "--run", "r1", "--json").lines if r["kind"] == "turn"]
    assert "write one" in prompts
    assert "go on" in player.world.ckpt("log", "--run", "r1").out
    assert [r["status"] for r in player.world.ckpt("runs", "--json").lines] == ["ended"]
    player.world.ckpt("verify")


AIDER = r"""
import subprocess, sys, time
def checkpoints():
    return subprocess.run(["ckpt", "log", "--checkpoints", "--json"], capture_output=True).stdout.count(b"\n")
for name in ("one", "two"):
    before = checkpoints()
    with open(".aider.input.history", "a") as f:
        f.write(f"\n# 2026-12-01 15:04:05.123456\n+write {name}\n+please\n")
    with open(name, "w") as f:
        f.write(name)
    deadline = time.monotonic() + 60
    while checkpoints() == before and time.monotonic() < deadline:
        time.sleep(0.05)
"""


def test_aiders_prompts_are_read_from_its_history(player: Player, tmp_path: Path) -> None:
    aider = tmp_path / "bin" / "aider"
    aider.write_text(f"#!{sys.executable}\n{AIDER}")
    aider.chmod(0o755)
    player.world.write(".gitignore", ".aider*\n")
    player.world.write(".aider.input.history", "# 2026-11-30 10:00:00.000000\n+an old prompt\n")
    player.world.ckpt("run", "--", "aider", "--no-auto-commits")
    rows = [r for r in player.world.ckpt("log", "--json").lines if r["kind"] == "turn"]
    assert [r["prompt"] for r in rows] == ["write two\nplease", "write one\nplease"]
    player.world.ckpt("undo")
    assert not (player.world.root / "two").exists()
    assert (player.world.root / "one").exists()


def test_what_is_in_a_history(tmp_path: Path) -> None:
    path = tmp_path / "h"
    history = InputHistory(os.fsencode(path))
    assert history.prompts() == []
    path.write_text("\n# t\n+one\n+more\n\n# t\n+\n")
    assert history.prompts() == ["one\nmore"]
    with path.open("a") as f:
        f.write("# t\n+two")
    assert history.prompts() == []  # its last line is not written yet
    with path.open("a") as f:
        f.write("\n")
    assert history.prompts() == ["two"]
    path.write_text("")
    assert history.prompts() == []
    assert InputHistory.of(["node", "claude"], b"/w") is None
    found = InputHistory.of(["aider", "--input-history-file", "x"], b"/w")
    assert found is not None
    assert found.path == b"/w/x"
