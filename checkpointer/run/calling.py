"""One call, in the parts that a thread and a task both go through: answered, allowed, begun, done or failed.

Announce, do, confirm: the start is on disk before the tool runs, and what became of it before anybody acts on it. A
failure is one only where the tool proves it; anything else that goes wrong outside leaves the call uncertain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from checkpointer import canon, machine, redaction
from checkpointer.errors import NeedsPerson, Usage
from checkpointer.events import (
    ABSENT,
    AnyEvent,
    ToolCallCompleted,
    ToolCallReconciled,
    ToolCallStarted,
    ToolCallUncertain,
)
from checkpointer.run import approvals, mishap, telemetry
from checkpointer.run.acceptance import misfit
from checkpointer.run.contents import UNKNOWN, result
from checkpointer.run.desk import Answer, Ask, Deny, Desk, ToolCall
from checkpointer.state import Call
from checkpointer.tools import NoEffect, Partial, Tool, broader, riskier

TRIES = 3
"""How often one process starts a call whose attempts came to nothing, or whose outcome was settled as `retry`."""


@dataclass(frozen=True, eq=False, repr=False)
class Execution:
    """An attempt whose start is in the log. `sent_key` is what a receiver is told; `step` its handle (`t3.2`)."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    attempt: int
    sent_key: str
    step: str
    writes: bool
    found: str | None
    parent: Execution | None
    desk: Desk
    observed: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self) -> Any:
        """What the tool's function gives: a result, or a coroutine for it."""
        more = {"key": self.sent_key} if self.tool.takes_key else {}
        return self.tool.function(**self.arguments, **more)

    def tell(self, mark: telemetry.Mark) -> None:
        """Which attempt it is: not known before its start was written."""
        mark.tell({"ckpt.step": self.step, "ckpt.call.attempt": self.attempt})


current: ContextVar[Execution | None] = ContextVar("current", default=None)
"""The attempt that the running tool belongs to: what a call made inside a tool has as its parent."""


def environment() -> dict[str, str]:
    """Variables for a process that a running tool starts: `CKPT_STEP_ID` (`t3.2`) and `CKPT_KEY`, the action's key.

    Empty outside a tool.
    """
    now = current.get()
    return {} if now is None else {"CKPT_STEP_ID": now.step, "CKPT_KEY": now.sent_key}


class Calling:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @contextlib.contextmanager
    def watched(self, call: ToolCall) -> Iterator[telemetry.Mark]:
        """Around one attempt: what is told of it to whoever watches the program."""
        desk, tool = self.desk, self.desk.tool(call.name)
        facts = {
            telemetry.RUN: desk.state.run,
            telemetry.TOOL: tool.name,
            "gen_ai.tool.call.id": call.id,
            "ckpt.run": desk.files.handle,
            "ckpt.call.key": call.key,
            "ckpt.call.effect": tool.effect,
            "ckpt.call.risk": tool.risk,
        }
        with telemetry.executing(facts) as mark:
            yield mark
            known = desk.state.call(call.key)
            mark.tell({"ckpt.call.status": known.status if known is not None else None})

    # -- before

    def answered(self, call: ToolCall, problem: BaseException | None = None) -> Answer | None:
        """The answer of a call that is over or was told of; None if it may start.

        An uncertain one is settled first. Raises `NeedsPerson` where only a person can say, from `problem`.
        """
        self.desk.hear()
        known = self.desk.state.call(call.key)
        if known is not None and known.status == "accepted" and call.key in self.desk.state.doubts:
            self.desk.settle(call.key)  # it was judged to run again: is it so still?
            known = self.desk.state.call(call.key)
        if known is not None and known.status in ("open", "uncertain"):
            if not self._was_told(known):
                self.desk.settle(call.key)
                known = self.desk.state.call(call.key)
            if known is not None and self._was_told(known):
                return self._tell(call, known)
        if known is None or known.status == "accepted":
            return None
        if known.status in ("open", "uncertain"):
            raise unclear(call, known) from problem
        return self._over(known)

    def _was_told(self, known: Call) -> bool:
        doubt = self.desk.state.doubts.get(known.key)
        return doubt is not None and doubt.told

    def _tell(self, call: ToolCall, known: Call) -> Answer:
        """Answer a slot that still waits with what the model may know."""
        if not self._was_told(known) or call.slot in self.desk.state.waiting:
            self.desk.append(
                ToolCallReconciled(
                    key=call.key,
                    attempt=known.attempt,
                    verdict="tell",
                    rule="the model may be told",
                    context=call.context,
                    **self.desk.files.now(),
                )
            )
        return Answer(call.key, "uncertain", UNKNOWN, failed=True)

    def _over(self, known: Call) -> Answer:
        if known.ended or known.origin is None:
            said, failed = result(self.desk.contents.one(known.ended) if known.ended else None)
        else:
            said, failed = self.desk.contents.carried(known.key)
        status: Any = known.status
        telemetry.count("ckpt.calls.replayed", 1, {telemetry.TOOL: known.tool})
        return Answer(known.key, status, None if said is ABSENT else canon.thaw(said), failed, replayed=True)

    def allowed(self, call: ToolCall) -> Answer | None:
        """None if the call may start; the answer of one that a policy denied. Raises `NeedsPerson` while it waits."""
        desk, tool = self.desk, self.desk.tool(call.name)
        stands = approvals.standing(desk, call)
        if stands == "expired":
            stands = approvals.ask(desk, call, approvals.as_before(desk, call))
        if stands == "none" and desk.policy is not None:
            word = desk.policy(call, tool)
            if isinstance(word, Deny):
                approvals.deny(desk, call, word.reason)
                stands = "denied"
            elif isinstance(word, Ask):
                stands = approvals.ask(desk, call, word)
        if stands == "denied":
            known = desk.state.call(call.key)
            if known is not None and call.key in desk.state.doubts:
                if not desk.tells:
                    raise unclear(call, known)
                return self._tell(call, known)
            if known is None:
                return Answer(call.key, "denied", approvals.words(desk, call), failed=True)
            return self._over(known)
        if stands not in ("none", "approved"):
            raise approvals.waits(call)
        return None

    def begin(self, call: ToolCall, parent: Execution | None) -> Execution:
        """Checkpoint, check that the run is still ours, write the start. On return it is on disk.

        Raises `Fenced`, what `append` raises, `NeedsPerson` where the arguments were redacted and not given again.
        """
        desk, tool = self.desk, self.desk.tool(call.name)
        known = desk.state.call(call.key)
        arguments = self._arguments(call, known)
        events: list[AnyEvent] = []
        if tool.writes:
            events += desk.files.before(parent.step if parent is not None and parent.writes else "")
        turn, step = desk.next_step()
        attempt = known.attempt + 1 if known is not None else 1
        files = desk.files.verified() if tool.writes else desk.files.now()
        started = ToolCallStarted(
            key=call.key,
            tool=call.name,
            effect=broader(known.effect, tool.effect) if known is not None else tool.effect,
            risk=riskier(known.risk, tool.risk) if known is not None else tool.risk,
            attempt=attempt,
            generation=_generation(known),
            slot=call.slot if known is None and isinstance(call.slot, str) else None,
            signature=call.signature if known is None else None,
            occurrence=call.occurrence if known is None else 1,
            args_digest=call.digest,
            terms=tool.terms(),
            parent=parent.call.key if parent is not None else None,
            process=machine.group() if tool.effect != "read" else None,
            call_id=call.id,
            turn=turn,
            step=step,
            arguments=arguments,
            context=call.context,
            **files,
        )
        desk.pen.ensure()
        desk.append(*events, started)
        now = desk.state.call(call.key)
        assert now is not None
        commit = files.get("commit")
        return Execution(
            call, tool, canon.thaw(arguments), attempt, now.sent_key, f"t{turn}.{step}", tool.writes,
            commit.id if commit is not None and commit.captured else None, parent, desk,
        )  # fmt: skip

    def _arguments(self, call: ToolCall, known: Call | None) -> Any:
        """The arguments as they were accepted. Those that were redacted must be given again, and be the same."""
        desk = self.desk
        stored = desk.contents.arguments(desk.state, call.slot) if known is not None and _stored(call, desk) else ABSENT
        if stored is not ABSENT and stored is not None and not redaction.marked(stored):
            return stored
        given = canon.freeze(call.arguments)
        if known is not None and (given is None or desk.identity.arguments(given) != known.args_digest):
            raise NeedsPerson(
                f"the arguments of {call.name} were redacted: it runs again only if the same ones are given",
                kept="nothing was done",
                next=("run.call(call, arguments)",),
                key=call.key,
            )
        if problem := misfit(desk.tool(call.name), given):
            raise Usage(f"{call.name}: {problem}")
        return given

    # -- after

    def done(self, ran: Execution, value: Any) -> Answer:
        """The tool gave a result: what it did to the files and the result are on disk on return."""
        events = self.desk.files.after(ran.step) if ran.writes else []
        return self._complete(ran, events, _storable(value))

    def failed(self, ran: Execution, error: BaseException, *, last: bool) -> Answer | None:
        """The tool raised. None if the call is to be looked at anew: it is uncertain, or is tried again (not if this
        was the `last` time). Never raises `error` itself.
        """
        doubt = self.desk.state.doubts.get(ran.call.key)
        if isinstance(error, NoEffect) and doubt is not None and doubt.earlier and not error.every_attempt:
            self._uncertain(ran, self.desk.files.after(ran.step) if ran.writes else [], error, "earlier")
            return None
        if isinstance(error, NoEffect):
            again = error.again and not last
            events = self.desk.files.after(ran.step) if ran.writes else []
            answer = self._complete(ran, events, mishap.words(error), effect="none", failed=True, again=again)
            return None if again else answer
        stopped = not isinstance(error, Exception)
        if ran.tool.effect == "read":
            answer = self._complete(ran, [], mishap.words(error), effect="none", failed=True, again=stopped)
            return None if stopped else answer
        events = self.desk.files.after(ran.step) if ran.writes else []
        if ran.tool.effect == "workspace" and not stopped and not isinstance(error, Partial):
            now = self.desk.files.verified().get("commit")
            if now is not None and now.captured and ran.found is not None:
                effect: Literal["done", "none"] = "none" if now.id == ran.found else "done"
                return self._complete(ran, events, mishap.words(error), effect=effect, failed=True)
        self._uncertain(ran, events, error, mishap.reason(error))
        return None

    def _complete(self, ran: Execution, events: list[Any], value: Any, **facts: Any) -> Answer:
        files = self.desk.files
        terms = ran.tool.terms()
        completed = ToolCallCompleted(
            key=ran.call.key,
            attempt=ran.attempt,
            result=value,
            fresh_for_s=terms.fresh_for_s,
            files=len(ran.observed) or None,
            observed=list(ran.observed.values()) or ABSENT,
            context=ran.call.context,
            **facts,
            **(files.verified() if ran.writes else files.now()),
        )
        self.desk.append(*events, completed)
        status: Any = "failed" if facts.get("effect") == "none" else "completed"
        return Answer(ran.call.key, status, canon.thaw(value), bool(facts.get("failed", False)))

    def _uncertain(self, ran: Execution, events: list[Any], error: BaseException, reason: mishap.Reason) -> None:
        detail: dict[str, Any] = {"error": mishap.words(error)}
        if isinstance(error, Partial):
            detail["partial"] = _storable(error.detail)
        from checkpointer.recovery import handle

        number = handle(self.desk.state, self.desk.files, ran.call.key)
        self.desk.append(
            *events,
            ToolCallUncertain(
                key=ran.call.key,
                attempt=ran.attempt,
                reason=reason,
                number=number,
                detail=detail,
                context=ran.call.context,
                **self.desk.files.now(),
            ),
        )

    def give_up(self, call: ToolCall, problem: BaseException | None) -> Answer:
        """The call was tried often enough. Raises `NeedsPerson`, unless the model is to be told."""
        known = self.desk.state.call(call.key)
        if known is None or known.status != "uncertain" or not self.desk.tells:
            raise unclear(call, known) from problem
        return self._tell(call, known)


def _stored(call: ToolCall, desk: Desk) -> bool:
    return not isinstance(call.slot, str) or call.slot in desk.state.named


def _generation(known: Call | None) -> int:
    if known is None:
        return 0
    terms = known.newest.terms if known.newest is not None else None
    return known.generation + (known.proven and (terms is None or terms.after_failure == "new_key"))


def unclear(call: ToolCall, known: Call | None) -> NeedsPerson:
    sent = known.sent_key if known is not None else call.key
    return NeedsPerson(
        f"nobody knows whether {call.name} happened (key {sent})",
        kept="its start and all that is known are in the run's log",
        next=("ckpt uncertain", "ckpt settle"),
        key=call.key,
    )


def _storable(value: Any) -> Any:
    """A result as a log can hold it: what is no JSON value is kept as its `repr`."""
    try:
        return canon.freeze(value)
    except (canon.NotJson, RecursionError):
        try:
            return repr(value)
        except Exception as e:  # it ran, and that is what counts
            return f"a {type(value).__name__} that cannot be shown ({type(e).__name__})"
