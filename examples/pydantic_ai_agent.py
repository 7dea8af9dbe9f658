"""An agent of Pydantic AI, with a scripted model, that may be killed at any moment and goes on where it was.

    python pydantic_ai_agent.py [DIRECTORY]        needs the extra pydantic-ai

The model's answers and the tools' results are in the log of a run. Started again, the program is answered from there:
no model is asked twice, no letter is sent twice. `ckpt undo` in DIRECTORY takes back what it did to the files.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from checkpointer import NeedsPerson, open_run, tool
from checkpointer.pydantic_ai import Recorded, tools_of


@tool(effect="workspace")
def write(name: str, text: str) -> str:
    """Write a file of the workspace."""
    with open(name, "w") as f:
        f.write(text)
    return f"wrote {len(text)} characters"


@tool(effect="external", keys_kept=timedelta(hours=24), touches_files=False)
def post(name: str, *, key: str) -> str:
    """Post a letter. A real one would send the key along, by which its receiver knows a letter that comes twice."""
    print(f"posted {name} under {key[:8]}")
    return "posted"


SCRIPT = [
    ModelResponse([ToolCallPart("write", {"name": "letter.txt", "text": "Dear all, hello.\n"})]),
    ModelResponse([ToolCallPart("post", {"name": "letter.txt"})]),
    ModelResponse([TextPart("The letter is on its way.")]),
]


async def scripted(messages: list[Any], info: Any) -> ModelResponse:
    """Stands for a model: its answers, in order."""
    return SCRIPT[sum(message.kind == "response" for message in messages)]


async def main() -> None:
    if sys.argv[1:]:
        os.makedirs(sys.argv[1], exist_ok=True)
        os.chdir(sys.argv[1])
    try:
        async with open_run(".", run_id="letter", tools=[write, post]) as run:
            agent = Agent(Recorded(FunctionModel(scripted), run), toolsets=[tools_of(run)])
            print((await agent.run("write to everybody")).output)
    except NeedsPerson as e:
        sys.exit(f"{e.message}\nnext: {' or '.join(e.next)}")


if __name__ == "__main__":
    asyncio.run(main())
