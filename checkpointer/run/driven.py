"""`Run`: an agent's loop whose every step is in a log before it counts, so that a kill anywhere is only a pause.

    with open_run(".", run_id="billing-q3", tools=[write_report, pay]) as run:
        run.user_message("bill the third quarter", slot="task")
        while not run.state.outcome:
            for call in run.state.accepted:
                run.call(call)
            turn = run.last_turn() or run.model_turn(**ask_model(run.context()))
            if not turn.tool_calls:
                run.finish("done")

The same script is the start and the resume.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from checkpointer import redaction
from checkpointer.errors import Usage
from checkpointer.lock import Lock
from checkpointer.run import acceptance, approvals, telemetry, turnstile
from checkpointer.run.calling import TRIES, Calling, Execution, current
from checkpointer.run.conversation import Conversation
from checkpointer.run.desk import Answer, Ask, Desk, ToolCall
from checkpointer.run.shield import shielded
from checkpointer.run.turnstile import Turnstile
from checkpointer.state import Place
from checkpointer.tools import NoEffect, Tool


class Run(Conversation):
    """A run that this process owns; made by `open_run`. Usable by several threads: calls of one model turn may run side
    by side, those that may write files still one after another.

    Every method that records raises `Fenced` once another process owns the run, `NoSpace` and `Failed` where the log
    cannot be written; then nothing was recorded, and the run is done with here. `notices` are lines for people.
    """

    def __init__(self, desk: Desk, gate: Turnstile) -> None:
        super().__init__(desk)
        self._gate = gate
        self._calling = Calling(desk)

    def asked(self, what: Any, arguments: Any = None, *, slot: str | None = None, repeat: bool = False) -> ToolCall:
        """The call that `what` stands for, as `call` takes it."""
        desk = self._desk
        if isinstance(what, tuple):
            call = acceptance.in_slot(desk, what)
        elif isinstance(what, ToolCall):
            call = what
        elif isinstance(what, str | Tool):
            if slot is None:
                raise Usage("a call outside a model turn needs a slot: a name that stays the same when this runs again")
            name = what if isinstance(what, str) else what.name
            return acceptance.named(desk, slot, name, arguments or {}, repeat)
        else:
            raise Usage(f"not a call: {what!r}")
        if arguments is not None and (call.arguments is None or redaction.marked(call.arguments)):
            return ToolCall(**{**call.__dict__, "arguments": arguments})
        return call

    def call(
        self,
        what: ToolCall | Place | Tool | str,
        arguments: Mapping[str, Any] | None = None,
        *,
        slot: str | None = None,
        repeat: bool = False,
    ) -> Answer:
        """Run a call, unless the log has its outcome.

        `what` is one of `turn.tool_calls` or `state.accepted`; or a tool with `arguments` and a `slot` of the caller's
        naming. Raises `NeedsPerson` where nobody knows what became of it, or it waits for approval; whatever stops this
        thread (Ctrl-C), once that is recorded. What a tool raises is not raised: it is in the answer.
        """
        asked = self.asked(what, arguments, slot=slot, repeat=repeat)
        parent = self._parent()
        refuse_own(asked, parent)
        while not self._gate.try_enter(asked.key):
            time.sleep(turnstile.PAUSE)
        try:
            problem: BaseException | None = None
            for nth in range(1, TRIES + 1):
                answer = self._calling.answered(asked, problem) or self._calling.allowed(asked)
                if answer is not None:
                    return answer
                with self._calling.watched(asked) as mark:
                    answer, problem = self._attempt(asked, parent, mark, last=nth == TRIES)
                if answer is not None:
                    return answer
            return self._calling.give_up(asked, problem)
        finally:
            self._gate.leave(asked.key)

    def _parent(self) -> Execution | None:
        ran = current.get()
        return ran if ran is not None and ran.desk is self._desk else None

    def _attempt(
        self, call: ToolCall, parent: Execution | None, mark: telemetry.Mark, *, last: bool
    ) -> tuple[Answer | None, BaseException | None]:
        """One start. Gives the answer, or None and what was raised."""
        lock = self._may_write(call, parent)
        try:
            ran, stopped = shielded(lambda: self._calling.begin(call, parent))
            if stopped is not None:  # recorded, but the tool never ran
                self._calling.failed(ran, NoEffect("stopped before it began", again=True), last=False)
                raise stopped
            ran.tell(mark)
            before = current.set(ran)
            try:
                value = _now(ran.run())
            except BaseException as error:
                mark.went_wrong(type(error))
                return self._failed(ran, error, last)
            finally:
                current.reset(before)
            answer, stopped = shielded(lambda: self._calling.done(ran, value))
            if stopped is not None:
                raise stopped
            return answer, None
        finally:
            if lock is not None:
                lock.release()

    def _failed(self, ran: Execution, error: BaseException, last: bool) -> tuple[Answer | None, BaseException]:
        answer, stopped = shielded(lambda: self._calling.failed(ran, error, last=last))
        if not isinstance(error, Exception):
            raise error
        if stopped is not None:
            raise stopped
        return answer, error

    def _may_write(self, call: ToolCall, parent: Execution | None) -> Lock | None:
        """Wait for the right to write files, where the tool needs it and the caller has it not."""
        if not needs_lock(self._desk.tool(call.name), parent):
            return None
        while (lock := self._gate.try_write(f"{self.handle} {call.name}")) is None:
            time.sleep(turnstile.PAUSE)
        return lock

    # -- approvals

    def ask(
        self,
        call: ToolCall | Place,
        question: str = "",
        *,
        expires: timedelta | None = None,
        wait: float = 0.0,
    ) -> bool:
        """May this call run? Asks a person, once: a question that is open, or was answered, is not asked again.

        True: approved, for this attempt alone. False: denied, and the model is told. Waits up to `wait` seconds for an
        answer (see `checkpointer.decide`), then raises `NeedsPerson`; the question stays open.
        """
        asked = self.asked(call)
        until = time.monotonic() + wait
        while True:
            stands = self.permission(asked, question, expires)
            if stands in ("approved", "denied"):
                return stands == "approved"
            if time.monotonic() >= until:
                raise approvals.waits(asked)
            time.sleep(min(0.2, max(0.0, until - time.monotonic())))

    def permission(self, call: ToolCall, question: str = "", expires: timedelta | None = None) -> approvals.Standing:
        """How a question about a call stands now; asked if it was not."""
        known = self.state.call(call.key)
        if known is not None and known.status not in ("accepted", "denied"):
            return "approved"  # it ran, or runs
        seconds = expires.total_seconds() if expires is not None else None
        return approvals.ask(self._desk, call, Ask(question, seconds))


def needs_lock(tool: Tool, parent: Execution | None) -> bool:
    return tool.writes and not (parent is not None and holds(parent))


def holds(ran: Execution) -> bool:
    """Does this attempt, or one that it is part of, hold the right to write files?"""
    return ran.writes or (ran.parent is not None and holds(ran.parent))


def refuse_own(call: ToolCall, parent: Execution | None) -> None:
    """Raises `Usage` where a tool calls the action that it is part of."""
    above = parent
    while above is not None:
        if above.call.key == call.key:
            raise Usage(f"{call.name} calls itself: the same action cannot be a part of itself")
        above = above.parent


def _now(value: Any) -> Any:
    """What a coroutine comes to; anything else as it is."""
    if inspect.iscoroutine(value):
        import asyncio  # loads slowly, and most tools need none

        return asyncio.run(value)
    return value
