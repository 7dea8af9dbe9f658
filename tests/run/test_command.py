"""`ckpt run -- CMD`: the child untouched, its changes its turn, its run in a log, whatever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness.world import World


def events(world: World, run: str = "r1") -> list[dict[str, object]]:
    lines = (world.store / "runs" / run / "events.jsonl").read_bytes().split(b"\n")
    return [json.loads(line)["e"] for line in lines if line]


def types(world: World, run: str = "r1") -> list[object]:
    return [event["type"] for event in events(world, run)]


def started(world: World, script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "checkpointer", "run", "--", "sh", "-c", script],
        cwd=world.root,
        env=world.env,
        stdin=subprocess.DEVNULL,
    )


def until(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)


def test_its_log_tells_the_run_and_names_its_checkpoints(world: World) -> None:
    world.write("a", "1\n")
    world.ckpt("run", "--", "sh", "-c", "echo 2 > a")
    assert types(world) == ["run_started", "user_message", "workspace_changed", "run_finished"]
    numbers = [event["commit"]["number"] for event in events(world) if event.get("commit")]  # type: ignore[index]
    assert numbers == [1, 1, 2]
    tip = world.shadow("rev-parse", "timeline").strip()
    assert events(world)[2]["commit"]["id"] == tip  # type: ignore[index]


def test_environment_values_stay_out_of_the_log(world: World) -> None:
    world.ckpt("run", "--", "true", env={"MY_TOKEN": "s3cr3t-value"})
    log = (world.store / "runs" / "r1" / "events.jsonl").read_bytes()
    assert b"MY_TOKEN" in log
    assert b"s3cr3t-value" not in log


def test_standard_streams_and_status_are_the_childs(world: World) -> None:
    done = world.ckpt("run", "-q", "--", "sh", "-c", "cat; echo err >&2; exit 42", input=b"given\n", ok=42)
    assert done.stdout == b"given\n"
    assert done.stderr == b"err\n"
    done = world.ckpt("run", "--", "sh", "-c", "kill -KILL $$", ok=137)
    assert types(world, "r2")[-1] == "run_released"


def test_options_of_the_child_are_the_childs(world: World) -> None:
    assert world.ckpt("run", "--", "echo", "-n", "--json", "-C", "x").stdout == b"--json -C x"
    assert world.ckpt("run", "printf", "%s", "--help").stdout == b"--help"
    assert world.ckpt("run", "--", "printf", "%s|", "--", "a").stdout == b"--|a|"


def test_missing_and_refused_commands_end_as_in_a_shell(world: World) -> None:
    world.write("plain", "x")
    assert "not found" in world.ckpt("run", "--", "no-such-command-here", ok=127).err
    assert "ermission" in world.ckpt("run", "--", "./plain", ok=126).err
    assert types(world)[-1] == "run_released"


def test_a_place_that_cannot_be_protected_starts_nothing(world: World) -> None:
    done = world.ckpt("-C", "/", "run", "--", "touch", str(world.root / "ran"), ok=125)
    assert "nothing was started" in done.err
    assert not world.has("ran")
    done = world.ckpt("-C", "/", "run", "--unprotected", "--", "touch", str(world.root / "ran"))
    assert "NOT PROTECTED" in done.err
    assert world.has("ran")


def test_edits_before_and_after_it_are_nobodys(world: World) -> None:
    world.write("a", "1\n2\n3\n4\n5\n6\n7\n")
    world.ckpt("save")
    world.write("a", "mine\n2\n3\n4\n5\n6\n7\n")
    world.ckpt("run", "--", "sh", "-c", "sed -i s/4/agent/ a; echo new > b")
    world.write("a", "mine\n2\n3\nagent\n5\n6\nmine too\n")
    world.ckpt("undo")
    assert world.read("a") == b"mine\n2\n3\n4\n5\n6\nmine too\n"
    assert not world.has("b")


def test_bursts_are_steps_of_its_turn(world: World) -> None:
    world.write("a", "1")
    log = "$CKPT_HOME/workspaces/*/runs/r1/events.jsonl"
    seen = f'while test $(grep -c \'"type":"workspace_changed"\' {log}) -lt {{}}; do sleep 0.1; done'
    world.ckpt("run", "--", "sh", "-c", f"echo 2 > a; {seen.format(1)}; echo 3 > b; {seen.format(2)}; echo 4 > c")
    assert [event["step"] for event in events(world) if event["type"] == "workspace_changed"] == [1, 2, 3]
    world.ckpt("undo", "--step")
    assert world.has("b")
    assert not world.has("c")
    world.ckpt("undo")
    assert world.read("a") == b"1"
    assert not world.has("b")


def test_inside_its_own_run_a_second_one_only_passes_on(world: World) -> None:
    world.write("a", "1")
    world.ckpt("run", "--", "sh", "-c", f"{world.env['CKPT']} run -- sh -c 'echo 2 > a; exit 5'", ok=5)
    assert not (world.store / "runs" / "r2").exists()
    world.ckpt("undo")
    assert world.read("a") == b"1"


def test_an_undo_of_the_person_while_it_works(world: World, tmp_path: Path) -> None:
    world.write("a", "1")
    go, done = tmp_path / "go", tmp_path / "done"
    process = started(world, f"echo 2 > a; touch {done}; while ! test -e {go}; do sleep 0.05; done; echo 3 > b")
    until(done)
    said = world.ckpt("undo")
    assert "has not ended" in said.text
    assert world.read("a") == b"1"
    go.touch()
    assert process.wait(timeout=60) == 0
    assert world.read("b") == b"3\n"
    assert world.read("a") == b"1"
    causes = [event["cause"] for event in events(world) if event["type"] == "workspace_changed"]
    assert "undo" in causes
    assert "step" in causes


def test_killed_while_the_child_works_nothing_after_it_is_taken_for_the_agents(world: World, tmp_path: Path) -> None:
    world.write("f", "1\n")
    done = tmp_path / "done"
    process = started(world, f"echo 2 > f; touch {done}; sleep 300 & echo $! > {tmp_path}/pid; wait")
    until(done)
    until(tmp_path / "pid")
    process.send_signal(signal.SIGKILL)
    process.wait()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    world.write("f", "the user's\n")
    refused = world.ckpt("undo", ok=3)
    assert "may be yours" in refused.err
    assert world.read("f") == b"the user's\n"
    assert "died" in world.ckpt("runs").out
    after = world.ckpt("run", "--", "true")
    assert "r1 died" in after.err
    assert types(world)[-2:] == ["workspace_changed", "run_released"]
    assert world.ckpt("cat", str(world.ckpt("status", "--json").json["checkpoint"]), "f").stdout == b"the user's\n"


def test_two_at_once_share_what_they_did_together(world: World, tmp_path: Path) -> None:
    world.write("a", "1")
    first, go = tmp_path / "first", tmp_path / "go"
    process = started(world, f"touch {first}; while ! test -e {go}; do sleep 0.05; done; echo A > a")
    until(first)
    world.ckpt("run", "--", "sh", "-c", "echo B > b")
    go.touch()
    assert process.wait(timeout=60) == 0
    refused = world.ckpt("undo", "t2", ok=3)
    assert "same time" in refused.err
    world.ckpt("undo", "t2", "--force")
    assert not world.has("b")


def test_a_full_store_is_said_at_once_and_the_child_goes_on(world: World, worlds: object) -> None:
    world.write("a", "1")
    world.ckpt("save")
    objects = world.store / "shadow.git" / "objects" / "pack"
    script = f"mv {objects} {objects}.away; echo 2 > a; sleep 2.5; mv {objects}.away {objects}; exit 7"
    done = world.ckpt("run", "--", "sh", "-c", script, ok=7)
    assert done.err.count("NOT PROTECTED from here on") == 1
    world.ckpt("undo")
    assert world.read("a") == b"1"
