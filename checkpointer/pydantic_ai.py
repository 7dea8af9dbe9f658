"""An agent of Pydantic AI on a run: the model's answers come from the log where it has them, each tool call goes
through it.

    async with open_run(".", run_id="greet", tools=[write_file]) as run:
        agent = Agent(Recorded(model, run), toolsets=[tools_of(run)])
        await agent.run("greet everybody")

Stands on the extra `pydantic-ai`. Killed anywhere and started again, the same program gets the same answers without
asking the model, calls that are over are answered from the log, and what was cut off is settled as its tool declares.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai import Tool as Offered
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import UserPromptPart as Prompt
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool, WrapperToolset
from pydantic_core import to_jsonable_python

from checkpointer.errors import Usage
from checkpointer.events import MAIN
from checkpointer.run.asynchronous import AsyncRun
from checkpointer.run.desk import ToolCall, Turn
from checkpointer.tools import Tool


class Recorded(WrapperModel):
    """A model whose answers are in the log of a run, each before anything acts on it.

    What the log has is not asked again. If what the model is to be asked then is not what it was asked before, the
    program is another one than that of the log: `Usage`. Agents that share a run need a `context` each. Answers are
    recorded whole, so that an agent's `run_stream` is refused. Raises what `AsyncRun.model_turn` does.
    """

    def __init__(self, wrapped: Model | str, run: AsyncRun, context: str = MAIN) -> None:
        super().__init__(wrapped)
        self._log = run
        self._context = context
        self._known: list[Turn] | None = None
        self._next = 0

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        nth, self._next = self._next, self._next + 1
        asked = _digest(messages)
        if self._known is None:
            self._known = self._log.turns(self._context)
        if nth < len(self._known):
            return self._again(self._known[nth], asked, nth)
        for turn in self._log.turns(self._context, last=1):
            await self._pass_over(turn)
        await self._hear(messages, nth)
        response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        await self._record(response, model_request_parameters, asked)
        return response

    def _again(self, turn: Turn, asked: str, nth: int) -> ModelResponse:
        said = turn.content if isinstance(turn.content, dict) else {}
        if "response" not in said:
            raise Usage(
                f"answer {nth + 1} of run {self._log.id} was recorded by another program, or taken out of its log",
                kept="the log",
                next=("another run_id",),
            )
        if said.get("asked") != asked:
            raise Usage(
                f"the model was asked something else before answer {nth + 1} of run {self._log.id} was recorded",
                kept="the log; nothing was asked and nothing was called",
                next=("run the program that began this run", "another run_id for this one"),
            )
        (response,) = ModelMessagesTypeAdapter.validate_python([said["response"]])
        assert isinstance(response, ModelResponse)
        return response

    async def _pass_over(self, turn: Turn) -> None:
        """Calls of the turn before that the agent did not make, because it had its answer, wait no longer."""
        for call in turn.tool_calls:
            await self._log.refuse(call, "the agent did not make this call")

    async def _hear(self, messages: Sequence[ModelMessage], nth: int) -> None:
        """What a person said since the last answer."""
        parts = messages[-1].parts if messages else ()
        for n, part in enumerate(part for part in parts if isinstance(part, Prompt)):
            said = part.content if isinstance(part.content, str) else to_jsonable_python(part.content)
            await self._log.user_message(said, slot=f"{self._context} {nth}.{n}", context=self._context)

    async def _record(self, response: ModelResponse, parameters: ModelRequestParameters, asked: str) -> None:
        ours = self._log.tools
        calls = []
        for part in response.parts:
            if isinstance(part, ToolCallPart) and part.tool_name in ours:
                arguments = _arguments(part)
                if arguments is not None:
                    calls.append({"name": part.tool_name, "arguments": arguments, "id": part.tool_call_id})
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        (plain,) = ModelMessagesTypeAdapter.dump_python([response], mode="json")
        usage = {"input": response.usage.input_tokens, "output": response.usage.output_tokens}
        await self._log.model_turn(
            {"text": text, "response": plain, "asked": asked},
            calls,
            usage,
            model=response.model_name,
            stop=response.finish_reason,
            context=self._context,
        )

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        raise Usage("an answer is recorded whole before anything acts on it: run_stream cannot be used", next=("run",))
        yield  # pragma: no cover


@dataclass
class Tools(WrapperToolset[Any]):
    """The tools of a run for an agent: see `tools_of`."""

    run: AsyncRun
    context: str = MAIN

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        call = self._call(name, ctx.tool_call_id)
        if call is None:
            raise Usage(
                f"no recorded answer asks for this call of {name}: its agent's model is not recorded in this run",
                kept="nothing was called",
                next=("Agent(Recorded(model, run), toolsets=[tools_of(run)])",),
            )
        answer = await self.run.call(call)
        return {"error": answer.result} if answer.failed else answer.result

    def _call(self, name: str, id: str | None) -> ToolCall | None:
        """The call that the agent is to make: of the newest answer, or of one that is given again."""
        for last in (1, 0):
            for turn in reversed(self.run.turns(self.context, last)):
                for call in turn.tool_calls:
                    if (call.id, call.name) == (id, name):
                        return call
        return None


def tools_of(run: AsyncRun, context: str = MAIN) -> AbstractToolset[Any]:
    """The tools that a run was opened with, as a toolset. What a tool declares holds: its calls are announced, done and
    confirmed, serialised where they write files, joined where they are the same action, denied where they do not fit.

    An error goes to the model as `{"error": ...}`; `NeedsPerson` and whatever else `AsyncRun.call` raises ends the
    agent's run. Arguments reach a tool as JSON values.
    """
    offered: FunctionToolset[Any] = FunctionToolset()
    for tool in run.tools.values():
        offered.add_tool(_offered(tool))
    return Tools(offered, run, context)


def _offered(tool: Tool) -> Offered[Any]:
    """A tool as a model sees it: without the key, which is not a model's to give."""
    shown = _without_key(tool.function) if tool.takes_key else tool.function
    known = Offered(shown, takes_ctx=False, name=tool.name)
    return Offered.from_schema(tool.function, tool.name, known.description, known.function_schema.json_schema)


def _without_key(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def shown(*args: Any, **kw: Any) -> Any: ...

    signature = inspect.signature(function)
    kept = [p for p in signature.parameters.values() if p.name != "key"]
    shown.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    shown.__annotations__ = {name: kind for name, kind in function.__annotations__.items() if name != "key"}
    return shown


def _arguments(part: ToolCallPart) -> dict[str, Any] | None:
    """The arguments of a call; None where the agent will not make it, since they are no JSON."""
    if isinstance(part.args, dict):
        return part.args
    try:
        found = json.loads(part.args or "{}")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _digest(messages: Sequence[ModelMessage]) -> str:
    """What a model is asked, without what differs each time: when it was, and under which names."""
    said: list[Any] = []
    for message in messages:
        for part in message.parts:
            content = part.args_as_json_str() if isinstance(part, ToolCallPart) else getattr(part, "content", None)
            said.append([part.part_kind, getattr(part, "tool_name", None), to_jsonable_python(content, fallback=repr)])
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
