"""`AsyncRun`: the same run for an asyncio loop. Nothing that touches a disk blocks it; tools that are no coroutine
functions run in threads.

A cancellation reaches the caller only after what became of the call is on disk.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from checkpointer.events import MAIN, Trust
from checkpointer.events import Usage as Tokens
from checkpointer.lock import Lock
from checkpointer.run import approvals, telemetry, turnstile
from checkpointer.run.calling import TRIES, Calling, Execution, current
from checkpointer.run.desk import Answer, Desk, ToolCall, Turn
from checkpointer.run.driven import Run, needs_lock, refuse_own
from checkpointer.run.freshness import Stale
from checkpointer.state import Place, RunState
from checkpointer.tools import NoEffect, Tool

T = TypeVar("T")


async def through(act: Callable[[], T]) -> tuple[T, asyncio.CancelledError | None]:
    """Do `act` in a thread, to its end; gives its result, and the cancellation that came meanwhile."""
    work = asyncio.ensure_future(asyncio.to_thread(act))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as e:
            if work.cancelled():
                raise
            cancelled = e
        except BaseException:
            break  # it is the work's own: raised below
    return work.result(), cancelled


class AsyncRun:
    """`Run`, to be awaited; see there for what each method does and raises. Parallel calls: `asyncio.gather`."""

    def __init__(self, run: Run, desk: Desk, gate: turnstile.Turnstile) -> None:
        self._run = run
        self._desk = desk
        self._gate = gate
        self._calling = Calling(desk)

    @property
    def state(self) -> RunState:
        return self._run.state

    @property
    def id(self) -> str:
        return self._run.id

    @property
    def handle(self) -> str:
        return self._run.handle

    @property
    def unprotected(self) -> str | None:
        return self._run.unprotected

    @property
    def notices(self) -> list[str]:
        return self._run.notices

    @property
    def stale(self) -> list[Stale]:
        return self._run.stale

    def context(self, name: str = MAIN) -> list[dict[str, Any]]:
        """As `Run.context`; not to be awaited: what it reads was mostly read before."""
        return self._run.context(name)

    def last_turn(self, name: str = MAIN) -> Turn | None:
        """As `Run.last_turn`; not to be awaited."""
        return self._run.last_turn(name)

    def turns(self, name: str = MAIN, last: int = 0) -> list[Turn]:
        """As `Run.turns`; not to be awaited."""
        return self._run.turns(name, last)

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._run.tools

    async def refuse(self, call: ToolCall, reason: str) -> None:
        await self._do(self._run.refuse, call, reason)

    async def user_message(
        self,
        content: Any,
        *,
        slot: str | None = None,
        trust: Trust = "trusted",
        turn: bool = True,
        context: str = MAIN,
    ) -> int:
        return await self._do(self._run.user_message, content, slot=slot, trust=trust, turn=turn, context=context)

    async def model_turn(
        self,
        content: Any = None,
        tool_calls: Sequence[Mapping[str, Any]] = (),
        usage: Mapping[str, int] | Tokens | None = None,
        *,
        model: str | None = None,
        stop: str | None = None,
        cost_micros: int = 0,
        context: str = MAIN,
    ) -> Turn:
        more = {"model": model, "stop": stop, "cost_micros": cost_micros, "context": context}
        return await self._do(self._run.model_turn, content, tool_calls, usage, **more)

    async def compact(self, from_seq: int, to_seq: int, summary: Any = None, *, context: str = MAIN) -> int:
        return await self._do(self._run.compact, from_seq, to_seq, summary, context=context)

    async def rewind(self, to_seq: int, why: str | None = None, *, context: str = MAIN) -> int:
        return await self._do(self._run.rewind, to_seq, why, context=context)

    async def memory(self, memory: str, content: Any, *, trust: Trust = "model", context: str = MAIN) -> int:
        return await self._do(self._run.memory, memory, content, trust=trust, context=context)

    async def guardrail(self, guardrail: str, **facts: Any) -> int:
        return await self._do(self._run.guardrail, guardrail, **facts)

    async def finish(self, outcome: str, detail: Any = None) -> None:
        await self._do(self._run.finish, outcome, detail)

    async def _do(self, method: Callable[..., T], *args: Any, **kw: Any) -> T:
        value, cancelled = await through(functools.partial(method, *args, **kw))
        if cancelled is not None:
            raise cancelled
        return value

    async def call(
        self,
        what: ToolCall | Place | Tool | str,
        arguments: Mapping[str, Any] | None = None,
        *,
        slot: str | None = None,
        repeat: bool = False,
    ) -> Answer:
        """As `Run.call`. Cancelled while the tool runs, an `external` or `workspace` call is recorded as uncertain."""
        asked = self._run.asked(what, arguments, slot=slot, repeat=repeat)
        ran = current.get()
        parent = ran if ran is not None and ran.desk is self._desk else None
        refuse_own(asked, parent)
        while not self._gate.try_enter(asked.key):
            await asyncio.sleep(turnstile.PAUSE)
        try:
            problem: BaseException | None = None
            for nth in range(1, TRIES + 1):
                answer = await self._do(self._settled, asked, problem)
                if answer is not None:
                    return answer
                with self._calling.watched(asked) as mark:
                    answer, problem = await self._attempt(asked, parent, mark, last=nth == TRIES)
                if answer is not None:
                    return answer
            return await self._do(self._calling.give_up, asked, problem)
        finally:
            self._gate.leave(asked.key)

    def _settled(self, call: ToolCall, problem: BaseException | None) -> Answer | None:
        return self._calling.answered(call, problem) or self._calling.allowed(call)

    async def _attempt(
        self, call: ToolCall, parent: Execution | None, mark: telemetry.Mark, *, last: bool
    ) -> tuple[Answer | None, BaseException | None]:
        lock = await self._may_write(call, parent)
        thread: asyncio.Future[Any] | None = None
        try:
            ran, cancelled = await through(lambda: self._calling.begin(call, parent))
            if cancelled is not None:  # recorded, but the tool never ran
                await through(lambda: self._calling.failed(ran, NoEffect("cancelled", again=True), last=False))
                raise cancelled
            ran.tell(mark)
            before = current.set(ran)
            try:
                if ran.tool.is_async:
                    value = await ran.run()
                else:
                    thread = asyncio.ensure_future(asyncio.to_thread(ran.run))
                    value = await asyncio.shield(thread)
                    if inspect.isawaitable(value):
                        value = await value
            except BaseException as error:
                mark.went_wrong(type(error))
                return await self._failed(ran, error, last)
            finally:
                current.reset(before)
            answer, cancelled = await through(lambda: self._calling.done(ran, value))
            if cancelled is not None:
                raise cancelled
            return answer, None
        finally:
            if lock is not None:
                _release(lock, thread)

    async def _failed(self, ran: Execution, error: BaseException, last: bool) -> tuple[Answer | None, BaseException]:
        answer, cancelled = await through(lambda: self._calling.failed(ran, error, last=last))
        if not isinstance(error, Exception):
            raise error
        if cancelled is not None:
            raise cancelled
        return answer, error

    async def _may_write(self, call: ToolCall, parent: Execution | None) -> Lock | None:
        if not needs_lock(self._desk.tool(call.name), parent):
            return None
        while (lock := self._gate.try_write(f"{self.handle} {call.name}")) is None:
            await asyncio.sleep(turnstile.PAUSE)
        return lock

    async def ask(
        self,
        call: ToolCall | Place,
        question: str = "",
        *,
        expires: timedelta | None = None,
        wait: float = 0.0,
    ) -> bool:
        asked = self._run.asked(call)
        until = time.monotonic() + wait
        while True:
            stands = await self._do(self._run.permission, asked, question, expires)
            if stands in ("approved", "denied"):
                return stands == "approved"
            if time.monotonic() >= until:
                raise approvals.waits(asked)
            await asyncio.sleep(min(0.2, max(0.0, until - time.monotonic())))


def _release(lock: Lock, thread: asyncio.Future[Any] | None) -> None:
    """Let go, but not before a tool in a thread, which a cancellation cannot stop, has ended."""
    if thread is None or thread.done():
        lock.release()
    else:
        thread.add_done_callback(lambda done: _let_go(lock, done))


def _let_go(lock: Lock, done: asyncio.Future[Any]) -> None:
    lock.release()
    if not done.cancelled():
        done.exception()  # told in the log as uncertain; nobody else asks
