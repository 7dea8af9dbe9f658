"""An agent of Pydantic AI with a scripted model and three tools; `DIES` says where it is killed."""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from checkpointer import NeedsPerson, open_run, tool
from checkpointer.pydantic_ai import Recorded, tools_of


def dies(where: str) -> None:
    if os.environ.get("DIES") == where:
        os.kill(os.getpid(), signal.SIGKILL)


def note(what: str) -> None:
    with open(os.environ["NOTES"], "a") as f:
        f.write(what + "\n")


@tool(effect="workspace")
def write(path: str, text: str) -> str:
    """Write a file."""
    dies("before write")
    with open(path, "a") as f:
        f.write(text)
    note("write")
    return f"wrote {len(text)}"


@tool(effect="external", keys_kept=timedelta(hours=1))
async def pay(cents: int, *, key: str) -> dict[str, Any]:
    """Pay."""
    note(f"pay {key}")
    dies("after pay")
    if cents < 0:
        raise ValueError("no")
    return {"paid": cents}


@tool(effect="external", policy="person")
def send(to: str) -> str:
    """Send a letter."""
    note("send")
    dies("after send")
    return "sent"


SCRIPT = [
    ModelResponse([ToolCallPart("write", {"path": "a", "text": "one"}), ToolCallPart("pay", '{"cents": 5}')]),
    ModelResponse([ToolCallPart("write", {"path": "a"}), ToolCallPart("nothing", {})]),
    ModelResponse([ToolCallPart("send", {"to": "me"})] if os.environ.get("SENDS") else [ToolCallPart("write", "{no")]),
    ModelResponse([TextPart("all is done")]),
]


async def main() -> None:
    asked = 0

    async def model(messages: list[Any], info: Any) -> ModelResponse:
        nonlocal asked
        asked += 1
        answered = sum(message.kind == "response" for message in messages)
        assert {t.name for t in info.function_tools} == {"write", "pay", "send"}
        assert all("key" not in t.parameters_json_schema["properties"] for t in info.function_tools)
        dies(f"model {answered}")
        return SCRIPT[answered]

    try:
        async with open_run(".", run_id="agent", tools=[write, pay, send]) as run:
            agent = Agent(Recorded(FunctionModel(model), run), toolsets=[tools_of(run)], retries=5)
            done = await agent.run(" ".join(["do it", *sys.argv[1:]]))
            print(done.output, asked)
    except NeedsPerson as e:
        print("needs a person:", e.message)


asyncio.run(main())
