"""What is said after something was cut off: a restore, a run, a whole directory."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from harness.machine import wait_until
from harness.world import World
from run.driving import Loop, call, living_in

from checkpointer import disk


def cut_restore(world: World, number: int, at: bytes) -> None:
    """A restore that dies right before it renames a file into its place."""
    pid = os.fork()
    if pid == 0:
        from checkpointer import home

        def probe(verb: str, path: object) -> None:
            if verb == "rename" and path == at:
                os._exit(9)

        try:
            with living_in(world):
                disk.probe = probe
                workspace = home.find(os.getcwdb())
                assert workspace is not None
                workspace.restore(number)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def test_what_a_killed_restore_left_is_no_change_of_anybodys(world: World) -> None:
    for name in ("a", "d/b"):
        world.write(name, "1\n")
    world.save()
    for name in ("a", "d/b"):
        world.write(name, "2\n")
    world.save()
    cut_restore(world, 1, b"b")
    assert world.leftovers(), "it was cut too early"
    status = world.ckpt("status", "--json", cut_short=True).json
    assert status["pending"]
    assert {p for p in status["changed"] if "ckpt" in p} == set()
    assert "ckpt save" in world.ckpt("status", cut_short=True).out
    for words in (["diff", "--name-only"], ["diff", "2", "--json"], ["show"]):
        assert ".tmp" not in world.ckpt(*words, cut_short=True, ok=(0, 1)).out
    assert world.ckpt("save", ok=(0, 3)).text
    assert not world.leftovers()


def test_a_driven_run_that_died_is_named_with_what_goes_on_with_it(world: World) -> None:
    world.write("f", "1")
    loop = Loop(world, [call("look", path="f")])
    loop.die("look")
    said = world.ckpt("status")
    assert "ckpt resume goes on with it" in said.out
    assert world.ckpt("status", "--json").json["resumable"] == ["r1"]
    assert world.ckpt("resume", "--list", "--json").lines[0]["run"] == "r1"
    loop.start()
    assert world.ckpt("status", "--json").json["resumable"] == []
    assert "resume" not in world.ckpt("status").out


def test_a_run_that_ended_is_nothing_to_resume(world: World) -> None:
    world.write("f", "1")
    world.step("echo 2 > f")
    assert world.ckpt("status", "--json").json["resumable"] == []


@pytest.mark.parametrize("saved", [False, True])
def test_what_a_killed_agent_did_last_is_named_before_its_turn_is_undone(world: World, saved: bool) -> None:
    for name in ("f", "g"):
        world.write(name, "1\n")
    script = "echo 2 > f; until [ -e ../go ]; do sleep 0.05; done; echo 3 > g; touch ../done; exec sleep 60"
    with world.popen("run", "--", "sh", "-c", script) as process:
        wait_until(lambda: len(_steps(world)) == 1, 60, "the first burst to be kept")
        (world.base / "go").touch()
        wait_until((world.base / "done").exists, 60, "the last burst")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        process.wait()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
    if not saved:
        assert "g" in world.ckpt("status").out
        assert "not by an agent" not in world.ckpt("status").out
        refused = world.go("undo", ok=3)
        assert "may be yours" in refused.error["message"]
        return
    world.save()  # a person's look at it makes it nobody's, and undo says that it is not taken back
    dry = world.ckpt("undo", "-n")
    assert "would write: f" in dry.out
    assert "was cut off in t1" in dry.out
    done = world.go("undo")
    assert any("was cut off in t1" in note for note in done.json["notes"])
    assert (world.read("f"), world.read("g")) == (b"1\n", b"3\n")


def _steps(world: World) -> list[str]:
    found = world.ckpt("log", "--checkpoints", "--json", ok=(0, 1)).lines
    return [c["checkpoint"] for c in found if c.get("kind") == "step"]


@pytest.mark.parametrize("words", [[], ["status"], ["log"], ["undo"], ["save"], ["runs"], ["config"]], ids=" ".join)
def test_a_directory_that_is_not_there_is_refused(world: World, words: list[str]) -> None:
    nowhere = str(world.base / "nowhere")
    refused = world.ckpt("-C", nowhere, *words, "--json", ok=2)
    assert "no directory" in refused.error["message"]
    assert refused.error["kept"] == "nothing was written"
    assert not world.stores()


def test_nothing_is_started_where_there_is_no_directory(world: World) -> None:
    refused = world.ckpt("-C", str(world.base / "nowhere"), "run", "--", "touch", "started", ok=125)
    assert "nothing was started" in refused.err
    assert "--unprotected" not in refused.err
    assert not world.has("started")


@pytest.mark.parametrize("verb", [["undo"], ["restore", "1"]], ids=lambda v: v[0])
def test_a_directory_that_is_gone_is_made_again_from_outside(world: World, verb: list[str]) -> None:
    world.write("f", "1\n")
    world.step("rm f")
    world.sh("rm -rf w", cwd=world.base)
    for words in ([], ["status"], ["log"]):
        assert world.ckpt("-C", str(world.root), *words, cwd=world.base).out
    world.ckpt("-C", str(world.root), *verb, cwd=world.base)
    assert world.read("f") == b"1\n"
