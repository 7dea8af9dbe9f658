"""What a run was told and what became of it: files that changed, observations past their time, looked at again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from driving import call, living_in
from harness.world import World

from checkpointer import machine, observe, open_run, tool
from checkpointer.log import JsonlLog, catch_up
from checkpointer.recovery import processes
from checkpointer.run import keeper
from checkpointer.tools import Tool

asked: list[tuple[Any, Any]] = []


@tool(effect="read")
def read(path: str) -> str:
    observe(path)
    with open(path) as f:
        return f.read()


@tool(effect="workspace")
def write(path: str, text: str) -> str:
    with open(path, "w") as f:
        f.write(text)
    return text


@tool(effect="read", fresh_for=timedelta(0))
def price(of: str) -> int:
    return 42


def checked(holds: object) -> Tool:
    def recheck(arguments: Any, result: Any) -> object:
        asked.append((arguments, result))
        if isinstance(holds, Exception):
            raise holds
        return holds

    return tool(effect="read", name="price", fresh_for=timedelta(0), recheck=recheck)(lambda of: 42)


@pytest.fixture
def place(world: World) -> Iterator[World]:
    asked.clear()
    with living_in(world):
        yield world


def make(*calls: dict[str, Any], price: Tool = price) -> None:
    with open_run(".", run_id="x", tools=[read, write, price]) as run:
        for one in run.model_turn("go", list(calls)).tool_calls:
            run.call(one)


def stale(price: Tool = price, files: Any = "keep") -> list[str]:
    with open_run(".", run_id="x", tools=[read, write, price], files=files) as run:
        assert [one.words for one in run.stale] == run.notices[-len(run.stale) :] or not run.stale
        return [one.words for one in run.stale]


def test_a_file_that_was_read_and_changed_is_named(place: World) -> None:
    for name in ("same", "changed", "gone", "written", "touched"):
        place.write(name, name)
    place.write("sub/\xff".encode("latin-1"), "x")
    make(
        *(call("read", path=name) for name in ("same", "changed", "gone", "written", "touched", b"sub/\xff")),
        call("write", path="written", text="by the run"),
        call("write", path="touched", text="by the run"),
    )
    assert stale() == []
    place.write("changed", "by somebody")
    place.write("touched", "by somebody")
    place.rm("gone")
    found = stale()
    assert [line.partition(" read it")[0] for line in found] == [
        "changed has changed: read", "gone is gone: read", "touched has changed: read"
    ]  # fmt: skip
    assert "changed has changed: read read it" in place.ckpt("resume", "x", "--no-exec", "--keep").out
    make(call("read", path="changed"))
    assert not any(line.startswith("changed") for line in stale())


def test_what_is_past_its_time_is_named_unless_it_still_holds(place: World) -> None:
    make(call("price", of="a"), call("price", of="b"), call("price", of="a"))
    assert len(stale()) == 2  # the newest of each
    assert all("was good for 0 s" in line for line in stale())
    assert stale(checked(True)) == []
    assert asked == [({"of": "a"}, 42), ({"of": "b"}, 42)] or asked == [({"of": "b"}, 42), ({"of": "a"}, 42)]
    assert all(line.endswith("it holds no more") for line in stale(checked(False)))
    assert all("could not be checked again: OSError: no line" in line for line in stale(checked(OSError("no line"))))


def test_a_snapshot_knows_what_was_seen(place: World) -> None:
    place.write("a", "1")
    make(call("read", path="a"), call("price", of="a"))
    log = JsonlLog(str(place.store / "runs" / "x"))
    known = catch_up(log)
    kept = keeper.of(log)
    kept.save(known.state, known.position.sum, known.position.offset)
    found = kept.load(lambda *_: True)
    assert found is not None
    assert found[0] == known.state
    assert len(known.state.readings) == len(known.state.watched) == 1


def test_outside_a_run_a_tool_may_observe_what_it_likes(tmp_path: Path) -> None:
    observe(tmp_path / "nothing")


def test_of_a_group_only_what_began_after_the_call_is_its_work() -> None:
    script = """if True:
        import os, subprocess, sys
        os.setpgid(0, 0)
        before = subprocess.Popen(["sleep", "60"])
        print(before.pid, flush=True)
        sys.stdin.readline()
        print(subprocess.Popen(["sleep", "60"]).pid, flush=True)
        sys.stdin.readline()
    """
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        before = int(child.stdout.readline())
        began = datetime.fromtimestamp(psutil.Process(before).create_time(), UTC)
        since = began + processes.SLACK + timedelta(seconds=0.5)
        time.sleep(0.7)  # what is told apart are times
        child.stdin.write("\n")
        child.stdin.flush()
        after = int(child.stdout.readline())
        named = processes.Process(pid=child.pid, group=child.pid, started=machine.started(child.pid) or "")
        child.kill()
        child.wait()
        assert processes.living("no key", named, machine.holder(), since) == (after,)
        assert processes.living("no key", named, machine.holder()) == tuple(sorted((before, after)))
        os.kill(after, signal.SIGKILL)
        until = time.monotonic() + 30
        while processes.living("no key", named, machine.holder(), since) and time.monotonic() < until:
            time.sleep(0.02)
        assert processes.living("no key", named, machine.holder(), since) == ()
    finally:
        os.killpg(child.pid, signal.SIGKILL)
