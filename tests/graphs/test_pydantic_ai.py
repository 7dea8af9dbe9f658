"""Agents of Pydantic AI on a run: killed anywhere they go on, and nothing that is over happens again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness.world import World

pytest.importorskip("pydantic_ai", reason="the package pydantic-ai-slim is not installed")

AGENT = Path(__file__).with_name("agent.py")


def run(world: World, dies: str = "", *words: str, ends: int = 0, **more: str) -> str:
    env = {**world.env, "DIES": dies, "NOTES": os.fspath(world.base / "notes"), **more}
    done = subprocess.run([sys.executable, str(AGENT), *words], cwd=world.root, env=env, capture_output=True, text=True)
    assert done.returncode == (-9 if dies else ends), done.stderr
    return done.stderr if ends else done.stdout.strip()


def notes(world: World) -> list[str]:
    return (world.base / "notes").read_text().split("\n")[:-1]


def test_calls_are_steps_of_a_run_that_can_be_undone(world: World) -> None:
    assert run(world) == "all is done 4"
    assert world.read("a") == b"one"
    shown = world.ckpt("show", "t1").out
    assert '"do it"' in shown
    assert "write" in shown
    ends = [e["type"] for e in world.ckpt("events", "agent", "--json").lines]
    assert ends.count("model_turn") == 4
    assert ends.count("tool_call_completed") == 2
    world.ckpt("undo")
    assert not world.has("a")
    assert run(world) == "all is done 0"  # every answer is in the log
    assert notes(world)[0] == "write"
    assert len(notes(world)) == 2
    assert "the model was asked something else before answer 1 of run agent" in run(world, "", "otherwise", ends=1)


@pytest.mark.parametrize("dies", ["before write", "after pay", "model 3"])
def test_killed_anywhere_it_goes_on(world: World, dies: str) -> None:
    run(world, dies)
    assert run(world).startswith("all is done")
    assert world.read("a") == b"one"
    keys = {line for line in notes(world) if line.startswith("pay")}
    assert len(keys) == 1
    assert notes(world).count("write") == 1
    world.ckpt("verify")


def test_what_nobody_knows_is_for_a_person(world: World) -> None:
    run(world, "after send", SENDS="1")
    assert run(world, SENDS="1").startswith("needs a person")
    world.ckpt("settle", "u1", "--happened")
    assert run(world, SENDS="1").startswith("all is done")
    assert notes(world).count("send") == 1


def test_calls_that_an_agent_skips_do_not_stand_in_the_way(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from pydantic_ai import Agent, UsageLimitExceeded, UsageLimits
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from checkpointer import open_run, tool
    from checkpointer.errors import Usage
    from checkpointer.pydantic_ai import Recorded, tools_of

    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    made = []

    @tool(effect="read")
    def look(at: str) -> str:
        made.append(at)
        return f"saw {at}"

    async def model(messages: list[object], info: object) -> ModelResponse:
        return ModelResponse([ToolCallPart("look", {"at": "x"})] if len(messages) < 3 else [TextPart("done")])

    async def go() -> None:
        async with open_run(world.root, run_id="r", tools=[look]) as log:
            agent = Agent(Recorded(FunctionModel(model), log), toolsets=[tools_of(log)])
            with pytest.raises(UsageLimitExceeded):
                await agent.run("one", usage_limits=UsageLimits(tool_calls_limit=0))
            assert made == []
            assert (await agent.run("two")).output == "done"
            assert made == ["x"]
            with pytest.raises(Usage, match="run_stream"):
                async with agent.run_stream("three"):
                    pass
            other = Agent(FunctionModel(model), toolsets=[tools_of(log, "elsewhere")])
            with pytest.raises(Usage, match="not recorded in this run"):
                await other.run("go")

    asyncio.run(go())


def test_the_example(world: World) -> None:
    example = AGENT.parents[2] / "examples/pydantic_ai_agent.py"
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(example)], cwd=world.root, env=world.env, capture_output=True, text=True
        )
        assert done.stdout.endswith("The letter is on its way.\n"), done.stderr
        said.append(done.stdout.count("posted"))
    assert said == [1, 0]
    assert world.read("letter.txt") == b"Dear all, hello.\n"
    world.ckpt("undo")
    assert not world.has("letter.txt")
