"""`ckpt resume`, `uncertain`, `settle`, `events`, `show t1.1`: a loop that dies, and a person who goes on with it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from harness.world import World

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))
from driving import Loop, call

from checkpointer import machine

COUNTERS = {
    "events_replayed", "replay_duration_ms", "snapshot_load_ms", "snapshot_write_ms", "snapshot_seq_gap",
    "full_replay_equivalence_failures",
}  # fmt: skip


def looping(world: World, *script: list[dict[str, object]]) -> Loop:
    """A loop whose script the commands of this world know, too."""
    loop = Loop(world, *script)
    world.env.update({name: loop.env[name] for name in ("LEDGER", "SCRIPT", "PYTHONPATH")})
    return loop


def test_what_nothing_can_look_up_is_for_a_person(world: World) -> None:
    world.write("a", "one\n")
    loop = looping(world, [call("look", path="a")], [call("pay", order=881, cents=4200)])
    loop.die("pay-after", EXTRA="1")
    said = world.ckpt("resume", ok=3)
    assert "died at " in said.out
    assert "with 1 call open" in said.out
    assert "1 finished call will not run again" in said.out
    assert "EXTRA" in said.out
    assert "u1 pay(cents=4200, order=881) started " in said.out
    assert "no answer, nothing to look it up with" in said.out
    assert "not started." in said.out
    assert "ckpt settle u1 --happened [RESULT.json]" in said.out
    assert world.ckpt("status", "--json").json["uncertain"][0]["handle"] == "u1"
    assert "u1" in world.ckpt("uncertain").out
    assert "twice" in world.ckpt("uncertain", "u1").out

    assert world.ckpt("settle", "u1", ok=2, env={}).err
    assert world.ckpt("settle", "u9", "--give-up", ok=2).err
    assert world.ckpt("settle", "u1", "--give-up", ok=3, env={"CKPT_RUN": "r1"}).err
    assert world.ckpt("resume", ok=3, env={"CKPT_RUN": "r1"}).err
    world.write("result.json", '{"paid": 4200}')
    world.ckpt("settle", "u1", "--happened", str(world.root / "result.json"), "--why", "asked")
    world.rm("result.json")
    done = world.ckpt("resume")
    assert '{"paid": 4200}' in done.out
    assert len(loop.ledger("pay")) == 1
    assert loop.state().outcome == "done"
    assert world.ckpt("resume", ok=1).err.startswith("no run was cut off")

    shown = world.ckpt("show", "t1.2").out
    assert "t1.2 pay r1" in shown
    assert '"order": 881' in shown
    assert "no files changed" in shown
    assert world.ckpt("show", "t1.2", "--json").json["call"]["result"] == {"paid": 4200}
    found = world.ckpt("events", "--json").lines
    assert [e["seq"] for e in found] == list(range(1, len(found) + 1))
    assert {e["type"] for e in world.ckpt("events", "r1", "--type", "model_turn", "--json").lines} == {"model_turn"}
    assert len(world.ckpt("events", "--follow", "--json").lines) == len(found)
    assert world.ckpt("events", "--type", "nothing", ok=2).err
    assert world.ckpt("events", "r9", ok=2).err
    assert world.ckpt("status", "--json").json.keys() >= COUNTERS


def test_files_that_somebody_changed_are_named_with_both_ways(world: World) -> None:
    world.write("a", "one\n")
    loop = looping(world, [call("look", path="a")])
    loop.die("model:2")
    world.write("a", "mine\n")
    refused = world.ckpt("resume", "--json", ok=3)
    assert refused.error["code"] == "drift"
    assert refused.error["next"][:2] == ["ckpt resume --keep", "ckpt resume --restore"]
    assert world.read("a") == b"mine\n"
    world.ckpt("resume", "--restore", "--no-exec")
    assert world.read("a") == b"one\n"
    world.ckpt("undo")
    assert world.read("a") == b"mine\n"
    said = world.ckpt("resume", "--keep", "--no-exec")
    assert "meanwhile  undo of restore 1 (checkpoint 4)\n" in said.out
    world.ckpt("resume")
    assert world.read("a") == b"mine\n"
    assert loop.state().outcome == "done"


def test_a_call_on_files_is_settled_by_them_and_its_command_ends_as_it_ends(world: World) -> None:
    world.write("a", "one\n")
    loop = looping(world, [call("write", path="a", text="two\n")])
    loop.die("write-after")
    said = world.ckpt("resume", "--no-exec")
    assert "u1 write: only it can have changed these files; it runs again" in said.out
    assert world.read("a") == b"one\n"
    killed = world.ckpt("resume", ok=128 + signal.SIGKILL, env={"DIE": "write-after"})
    assert "replayed" in killed.err
    world.ckpt("resume")
    assert world.read("a") == b"two\n"
    assert loop.state().outcome == "done"


def test_a_workspace_that_is_gone_comes_back(world: World) -> None:
    world.write("a", "one\n")
    loop = looping(world, [call("look", path="a")])
    loop.die("model:2")
    shutil.rmtree(world.root)
    world.watch_git = False
    world.ckpt("-C", str(world.root), "resume", cwd=world.base)
    assert world.read("a") == b"one\n"
    assert loop.state().outcome == "done"


def test_a_run_whose_owner_lives_is_not_taken(world: World) -> None:
    world.write("a", "one\n")
    loop = looping(world, [call("look", path="a")])
    loop.die("model:2")
    os.mkfifo(world.base / "gate")
    child = loop.popen(SCRIPT=json.dumps([[], [call("look", path="../gate")]]))
    try:
        deadline = time.monotonic() + 30
        while loop.state().epoch < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert world.ckpt("resume", "loop", ok=4).err
        assert world.ckpt("resume", "loop", "--take-over", ok=4).err
    finally:
        child.kill()
        child.communicate()


PROGRAM = """
import os
from checkpointer import open_run
with open_run(".") as run:
    if not run.state.messages:
        run.user_message("hello", slot="task")
        os.kill(os.getpid(), 9)
    run.finish("done")
    print(run.id)
"""


def test_a_run_without_a_name_is_taken_up_by_its_program(world: World) -> None:
    world.write("loop.py", PROGRAM)
    world.env["PYTHONPATH"] = str(Path(__file__).parents[2])
    world.sh(f"{sys.executable} loop.py", ok=False)
    assert world.ckpt("resume").out.split()[-1] == "r1"
    assert [line["run"] for line in world.ckpt("runs", "--json").lines] == ["r1"]


def test_a_command_that_was_only_watched_goes_on_as_the_same_run(world: World) -> None:
    world.write("a", "one\n")
    script = "echo half >> a; if [ ! -e ../again ]; then echo $$ > ../pid; touch ../again; sleep 60; fi; echo rest >> a"
    owner = world.popen("run", "--", "sh", "-c", script)
    deadline = time.monotonic() + 30
    while not (world.base / "pid").exists() or not (world.base / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    owner.kill()
    owner.wait()
    child = int((world.base / "pid").read_text())
    assert "still works" in world.ckpt("resume", ok=4).err
    os.killpg(os.getpgid(child), signal.SIGKILL)
    while machine.started(child):
        time.sleep(0.05)
    owner.communicate()
    said = world.ckpt("resume")
    assert "r1 sh -c" in said.err
    assert world.read("a") == b"one\nhalf\nhalf\nrest\n"
    assert [line["run"] for line in world.ckpt("runs", "--json").lines] == ["r1"]
    world.ckpt("undo")
    assert world.read("a") == b"one\nhalf\n"


def test_of_several_one_must_be_named(world: World) -> None:
    world.write("loop.py", PROGRAM)
    world.env["PYTHONPATH"] = str(Path(__file__).parents[2])
    for _ in range(2):
        world.sh(f"{sys.executable} loop.py", ok=False)
    several = world.ckpt("resume", ok=2)
    assert "r1" in several.out
    assert "r2" in several.out
    asked = world.ckpt("resume", "--json", ok=2).error
    assert (asked["code"], [run["run"] for run in asked["runs"]]) == ("usage", ["r1", "r2"])
    assert asked["next"] == ["ckpt resume r2", "ckpt resume r1"]
    assert len(world.ckpt("resume", "--list", "--json").lines) == 2
    world.ckpt("resume", "r2")
    assert len(world.ckpt("resume", "--list", "--json").lines) == 1


@pytest.mark.parametrize("args", [("uncertain",), ("runs",), ("resume", "--list")])
def test_where_there_is_nothing(world: World, args: tuple[str, ...]) -> None:
    world.write("a", "one\n")
    world.ckpt("save")
    assert world.ckpt(*args).out


STALE = """
import os
from datetime import timedelta
from checkpointer import open_run, tool

@tool(effect="read", fresh_for=timedelta(seconds=0))
def weather() -> str:
    return "rain"

with open_run(".", tools=[weather]) as run:
    if not run.state.messages:
        run.user_message("hello", slot="task")
        run.call("weather", {}, slot="w")
        os.kill(os.getpid(), 9)
    run.finish("done")
"""


def test_what_is_stale_is_named(world: World) -> None:
    world.write("loop.py", STALE)
    world.env["PYTHONPATH"] = str(Path(__file__).parents[2])
    world.sh(f"{sys.executable} loop.py", ok=False)
    assert "weather is " in world.ckpt("resume").err
