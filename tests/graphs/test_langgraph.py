"""The saver for LangGraph: the published conformance suite, kills, the files beside the states, deletion for good."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from harness.world import World

pytest.importorskip("langgraph.graph", reason="the package langgraph is not installed")
conformance = pytest.importorskip("langgraph.checkpoint.conformance", reason="its conformance suite is not installed")

from langgraph.checkpoint.base import empty_checkpoint  # noqa: E402

from checkpointer.langgraph import Saver  # noqa: E402
from checkpointer.threads.thread import run_of  # noqa: E402

GRAPH = Path(__file__).with_name("graph.py")


@pytest.fixture
def here(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(world.root)
    return world


def run(world: World, thread: str, dies: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(GRAPH), thread],
        cwd=world.root,
        env={**world.env, "DIES": dies},
        capture_output=True,
        text=True,
    )


def config(thread: str, id: str | None = None) -> dict[str, dict[str, str]]:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **({"checkpoint_id": id} if id else {})}}


def put(saver: Saver, thread: str, id: str, value: object, parent: str | None = None, **meta: object) -> None:
    checkpoint = {**empty_checkpoint(), "id": id, "channel_values": {"c": value}, "channel_versions": {"c": id}}
    saver.put(config(thread, parent), checkpoint, {"source": "loop", "step": 0, **meta}, {"c": id})  # type: ignore[arg-type]


def value(saver: Saver, thread: str, id: str | None = None) -> object:
    found = saver.get_tuple(config(thread, id))  # type: ignore[arg-type]
    return None if found is None else found.checkpoint["channel_values"]["c"]


def test_the_published_conformance_suite(here: World) -> None:
    @conformance.checkpointer_test(name="ckpt")
    async def ours() -> AsyncIterator[Saver]:
        with Saver(".", files=False) as saver:
            yield saver

    report = asyncio.run(conformance.validate(ours))
    assert {name: result.failures for name, result in report.results.items() if not result.passed} == {}
    assert sum(result.tests_passed for result in report.results.values()) > 60


def test_a_killed_graph_goes_on_where_it_was(world: World) -> None:
    assert run(world, "t", dies="two").returncode == -9
    assert world.read("ran") == b"one\ntwo\n"
    done = run(world, "t")
    assert done.stdout.strip() == "['begun', 'one', 'two', 'three']", done.stderr
    assert world.read("ran") == b"one\ntwo\ntwo\nthree\n"  # one did not run again
    assert run(world, "other").returncode == 0
    world.ckpt("verify")


def test_what_a_graph_changed_is_undone(world: World) -> None:
    world.write("ran", "mine\n")
    assert run(world, "t").returncode == 0
    world.write("later", "mine")
    log = world.ckpt("log", "--json").lines
    assert [line["turn"] for line in log if line["kind"] == "turn"] == ["t1"]
    world.ckpt("undo")
    assert (world.read("ran"), world.read("later")) == (b"mine\n", b"mine")


def test_each_state_names_its_files(here: World) -> None:
    with Saver(".") as saver:
        here.write("a", "1")
        put(saver, "t", "1", 1, source="input")
        here.write("a", "2")
        put(saver, "t", "2", 2, "1")
        numbers = [saver.files_at(config("t", id)) for id in ("1", "2", None)]  # type: ignore[arg-type]
    assert numbers == [1, 2, 2]
    here.ckpt("restore", "1")
    assert here.read("a") == b"1"


def test_branches_keep_their_own_values(here: World) -> None:
    with Saver(".", files=False) as saver:
        put(saver, "t", "1", "root")
        put(saver, "t", "2", "left", "1")
        put(saver, "t", "3", "right", "1")
        again = Saver(".", files=False)  # while the first one lives
        put(again, "t", "4", "more", "2")
        assert [value(saver, "t", id) for id in ("1", "2", "3", "4", None)] == ["root", "left", "right", "more", "more"]
        assert saver.get_next_version("00000000000000000001.a", None) > "00000000000000000001.f"


def test_another_process_may_save_to_a_thread_that_lives(here: World) -> None:
    code = (
        "from test_langgraph import put; from checkpointer.langgraph import Saver\n"
        "s = Saver('.', files=False)\nput(s, 't', '2', 'theirs', '1')"
    )
    with Saver(".", files=False) as saver:
        put(saver, "t", "1", "ours")
        paths = os.pathsep.join((str(GRAPH.parent), str(GRAPH.parent.parent)))
        subprocess.run([sys.executable, "-c", code], env={**here.env, "PYTHONPATH": paths}, check=True)
        assert value(saver, "t") == "theirs"
        put(saver, "t", "3", "ours again", "2")
        assert value(saver, "t") == "ours again"


def test_what_is_deleted_is_gone_for_good(here: World) -> None:
    with Saver(".", files=False) as saver:
        put(saver, "t", "1", "SECRET-one", run_id="r1")
        saver.put_writes(config("t", "1"), [("c", "SECRET-write")], "task")  # type: ignore[arg-type]
        put(saver, "t", "2", "public", "1", run_id="r2")
        saver.delete_for_runs(["r1"])
        assert (value(saver, "t", "1"), value(saver, "t")) == (None, "public")
        put(saver, "t", "3", "on", "2")
        assert value(saver, "t") == "on"
    whole = b"".join(p.read_bytes() for p in (here.store / "runs" / run_of("t")).rglob("*") if p.is_file())
    for word in (b"SECRET-one", b"SECRET-write"):
        shifts = [base64.b64encode(b"\0" * n + word)[4:-4] for n in range(3)]
        assert word not in whole
        assert not any(s in whole for s in shifts)
    with Saver(".", files=False) as saver:
        saver.delete_thread("t")
        saver.delete_thread("never was")
        assert list(saver.list(None)) == []
        put(saver, "t", "9", "anew")
        assert value(saver, "t") == "anew"
    here.ckpt("verify")


def test_pruning_keeps_what_the_newest_state_needs(here: World) -> None:
    with Saver(".", files=False) as saver:
        put(saver, "t", "1", "kept from long ago")
        checkpoint = {**empty_checkpoint(), "id": "2", "channel_versions": {"c": "1"}}
        saver.put(config("t", "1"), checkpoint, {"source": "loop", "step": 1}, {})  # type: ignore[arg-type]
        saver.prune(["t"])
        assert [c.config["configurable"]["checkpoint_id"] for c in saver.list(config("t"))] == ["2"]  # type: ignore[arg-type]
        assert value(saver, "t") == "kept from long ago"
    with Saver(".", files=False) as saver:
        assert value(saver, "t") == "kept from long ago"


def test_values_of_any_size(here: World) -> None:
    with Saver(".", files=False) as saver:
        put(saver, "t", "1", "x" * 3_000_000)
        put(saver, "t", "2", {"b": b"\0\xff", "n": [1.5, None]}, "1")
    with Saver(".", files=False) as saver:
        assert value(saver, "t", "1") == "x" * 3_000_000
        assert value(saver, "t") == {"b": b"\0\xff", "n": [1.5, None]}


def test_its_log_can_be_read(here: World) -> None:
    with Saver(".", files=False) as saver:
        put(saver, "t", "1", b"\xff")
    assert "memory_written" in here.ckpt("events").out
    states = [e for e in here.ckpt("events", "--json").lines if e["type"] == "memory_written"]
    assert [e["content"]["id"] for e in states] == ["1"]


def test_the_example(world: World) -> None:
    example = GRAPH.parents[2] / "examples/langgraph_agent.py"
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(example)], cwd=world.root, env=world.env, capture_output=True, text=True
        )
        assert done.stdout.endswith("Both are written.\n"), done.stderr
    assert world.read("hello.txt") == b"hello, and goodbye\n"
    world.ckpt("undo")
    assert not world.has("plan.md")
    assert not world.has("hello.txt")
