"""`ckpt mcp`, spoken with by the official client: what a model may do, and what it is told."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from harness.world import World

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp import ClientSession, StdioServerParameters, stdio_client

CKPT = [sys.executable, "-P", "-m", "checkpointer"]
Talk = Callable[[ClientSession], Awaitable[None]]


def talk(world: World, what: Talk, *above: str, **more: str) -> None:
    """Have a client do something with a server that was started in the workspace, by the words of `above` or by us."""

    async def go() -> None:
        command = [*above, *CKPT, "mcp"]
        env = {**world.env, **more}
        given = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=world.root)
        async with stdio_client(given) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            await what(client)

    asyncio.run(go())


def words(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


def run_of_two_turns(world: World) -> None:
    world.write("a", "1\n")
    for n in (2, 3):
        world.ckpt("run", "--", "sh", "-c", f"echo {n} > a; echo {n} > new{n}")


def test_tools_say_what_they_are(world: World) -> None:
    async def look(client: ClientSession) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"status", "log", "show", "diff", "save", "undo", "redo"}
        hints = {name: tool.annotations for name, tool in tools.items()}
        assert {n for n, h in hints.items() if h and h.read_only_hint} == {"status", "log", "show", "diff"}
        assert {n for n, h in hints.items() if h and h.destructive_hint} == {"undo", "redo"}
        assert "force" not in json.dumps([t.input_schema for t in tools.values()]).lower()
        assert all(tool.description and "ckpt" not in tool.description[:4] for tool in tools.values())

    talk(world, look)


def test_a_session_takes_back_its_own_and_nothing_else(world: World) -> None:
    run_of_two_turns(world)

    async def undo(client: ClientSession) -> None:
        would = await client.call_tool("undo", {"dry_run": True})
        assert words(would).startswith("would undo t2")
        assert world.read("a") == b"3\n"
        done = await client.call_tool("undo", {})
        assert not done.is_error
        assert words(done).startswith("undid t2")
        assert sorted(done.structured_content["read_again"]) == ["a", "new3"]
        assert done.structured_content["said"] == words(done)
        assert (world.read("a"), world.has("new3")) == (b"2\n", False)
        none = await client.call_tool("undo", {})
        assert none.is_error
        assert "nothing to undo" in words(none)
        assert "every file is as it was" in words(none)
        strange = await client.call_tool("undo", {"turns": "t1"})
        assert strange.is_error
        again = await client.call_tool("redo", {})
        assert words(again).startswith("redid")
        assert world.read("a") == b"3\n"

    talk(world, undo, CKPT_RUN="r2")
    assert world.read("new2") == b"2\n"
    assert [
        c["by"] for c in world.ckpt("log", "--checkpoints", "--json").lines[:4] if c["kind"] in ("undo", "redo")
    ] == [
        "agent",
        "agent",
    ]


def test_without_a_session_nothing_is_taken_back(world: World) -> None:
    run_of_two_turns(world)

    async def undo(client: ClientSession) -> None:
        for verb in ("undo", "redo"):
            refused = await client.call_tool(verb, {})
            assert refused.is_error
            assert "nothing was written" in words(refused)
            assert "ckpt undo in a terminal" in words(refused)
        assert refused.structured_content["error"]["code"] == "no-session"

    talk(world, undo)
    assert world.read("a") == b"3\n"


def test_the_session_is_known_by_the_processes_above(world: World) -> None:
    script = world.base / "agent.py"
    script.write_text(
        "import os, subprocess, sys\n"
        "open('oops', 'w').write('x')\n"
        "env = {k: v for k, v in os.environ.items() if k not in ('CKPT_RUN', 'CKPT_EPOCH')}\n"
        "sys.exit(subprocess.run(sys.argv[1:], env=env).returncode)\n"
    )

    async def undo(client: ClientSession) -> None:
        done = await client.call_tool("undo", {})
        assert words(done).startswith("undid t1"), words(done)

    talk(world, undo, *CKPT, "run", "--", sys.executable, str(script))
    assert not world.has("oops")


def test_a_conflict_is_a_tools_error_with_the_way_on(world: World) -> None:
    world.write("a", "1\n")
    world.ckpt("run", "--", "sh", "-c", "echo 2 > a; echo 2 > b")
    world.write("a", "mine\n")

    async def undo(client: ClientSession) -> None:
        failed = await client.call_tool("undo", {})
        assert failed.is_error
        assert "leave_conflicts=true" in words(failed)
        assert "a person may say: ckpt undo --force" in words(failed)
        assert failed.structured_content["error"]["code"] == "conflict"
        done = await client.call_tool("undo", {"leave_conflicts": True})
        assert "skipped: a" in words(done)
        assert done.structured_content["read_again"] == ["b"]

    talk(world, undo, CKPT_RUN="r1")
    assert (world.read("a"), world.has("b")) == (b"mine\n", False)


def test_looking_and_saving(world: World) -> None:
    run_of_two_turns(world)

    async def look(client: ClientSession) -> None:
        status = await client.call_tool("status", {})
        assert "protected" in words(status)
        assert status.structured_content["protected"] is True
        log = await client.call_tool("log", {"limit": 1})
        assert [line["turn"] for line in log.structured_content["lines"]] == ["t2"]
        assert "new3" in words(await client.call_tool("show", {"what": "t2"}))
        diff = words(await client.call_tool("diff", {"first": "1", "second": "now", "paths": ["a"]}))
        assert "-1\n+3" in diff
        assert "new2" not in diff
        saved = await client.call_tool("save", {"label": "good"})
        assert words(saved) == "nothing changed since checkpoint 3"
        bad = await client.call_tool("show", {"what": "t99"})
        assert bad.is_error
        assert "t99" in words(bad)

    talk(world, look)
    assert world.ckpt("show", "good").status == 0


def test_no_words_become_options(world: World) -> None:
    run_of_two_turns(world)

    async def undo(client: ClientSession) -> None:
        for given in ("--force", "-n", "t1 --force", "3", "--"):
            for verb, name in (("undo", "turns"), ("show", "what"), ("save", "label")):
                if verb != "save" or given.startswith("-"):
                    done = await client.call_tool(verb, {name: given, "paths": ["--force"]})
                    assert done.is_error or verb == "show", (verb, given, words(done))

    talk(world, undo, CKPT_RUN="r2")
    assert world.read("a") == b"3\n"


def test_without_the_extra_one_line_says_how_to_get_it(world: World) -> None:
    hidden = world.base / "hidden"
    (hidden / "mcp").mkdir(parents=True)
    (hidden / "mcp/__init__.py").write_text("raise ImportError('no')")
    done = world.ckpt("mcp", env={"PYTHONPATH": str(hidden)}, ok=1)
    assert done.out == ""
    assert done.err.splitlines() == [
        "ckpt mcp needs the package mcp, which is not installed here",
        "kept: nothing was started",
        "next: pip install 'agent-checkpointer[mcp]'",
    ]
