"""A run written by hand: short ways to append the usual events, in a fixed world."""

from __future__ import annotations

from typing import Any

from checkpointer.events import (
    AcceptedCall,
    AnyEvent,
    ApprovalDecided,
    ApprovalRequested,
    Commit,
    ModelTurn,
    RunStarted,
    ToolCallCompleted,
    ToolCallReconciled,
    ToolCallStarted,
    ToolCallUncertain,
    Usage,
    UserMessage,
    WorkspaceChanged,
)
from checkpointer.log import MemoryLog, Pen, Writable, claim
from checkpointer.testing.world import FixedWorld


def begin(world: FixedWorld, run: str = "r1", **more: Any) -> RunStarted:
    """A first event, of which only the owner is given."""
    given: dict[str, Any] = {"run": run, "owner": world.here(), "writer": "fixture", "mode": "driven", **more}
    return RunStarted(**given)


class Script:
    """Holds a pen and the checkpoint that is current; every method appends, and gives the event as appended. `later` is
    what all further claims say.
    """

    def __init__(self, log: Writable | None = None, world: FixedWorld | None = None, **more: Any) -> None:
        self.world = world or FixedWorld()
        self.log = log if log is not None else MemoryLog("r1")
        self.number = 1
        self.later: dict[str, Any] = {}
        self.pen: Pen = claim(self.log, begin(self.world, self.log.run, **more), world=self.world)

    @property
    def commit(self) -> Commit:
        return Commit(id=f"{self.number:040x}", number=self.number, captured=True)

    def again(self, *, take_over: bool = False, pid: int | None = None, **more: Any) -> Pen:
        """Claim the run anew, as another process."""
        self.world.pid = pid if pid is not None else self.world.pid + 1
        first = begin(self.world, self.log.run, **self.later, **more)
        self.pen = claim(self.log, first, take_over=take_over, world=self.world)
        return self.pen

    def put(self, event: AnyEvent) -> Any:
        return self.pen.append(event)[0]

    def _at(self, context: str) -> dict[str, Any]:
        return {"context": context, "commit": self.commit}

    def user_event(self, content: Any = "do it", *, context: str = "main", **more: Any) -> UserMessage:
        return UserMessage(**self._at(context), content=content, **more)

    def user(self, content: Any = "do it", *, context: str = "main", **more: Any) -> Any:
        return self.put(self.user_event(content, context=context, **more))

    def model(self, *calls: AcceptedCall, content: Any = "well", context: str = "main", **more: Any) -> Any:
        usage = Usage(input=100, output=10, cache_read=5)
        arguments = [{"n": n} for n in range(len(calls))]
        return self.put(
            ModelTurn(
                **self._at(context),
                content=content,
                calls=calls,
                arguments=arguments,
                usage=usage,
                cost_micros=1500,
                model="m-1",
                **more,
            )
        )

    def start(self, key: str, tool: str = "shell", effect: Any = "workspace", **more: Any) -> Any:
        given: dict[str, Any] = {"arguments": {"n": 1}, **self._at("main"), **more}
        return self.put(ToolCallStarted(key=key, tool=tool, effect=effect, **given))

    def done(self, key: str, result: Any = "ok", **more: Any) -> Any:
        given: dict[str, Any] = {**self._at("main"), **more}
        return self.put(ToolCallCompleted(key=key, result=result, **given))

    def uncertain(self, key: str, reason: Any = "crash", **more: Any) -> Any:
        return self.put(ToolCallUncertain(**self._at("main"), key=key, reason=reason, **more))

    def reconciled(self, key: str, verdict: Any, rule: str = "by hand", **more: Any) -> Any:
        return self.put(ToolCallReconciled(**self._at("main"), key=key, verdict=verdict, rule=rule, **more))

    def ask(self, key: str, **more: Any) -> Any:
        return self.put(ApprovalRequested(**self._at("main"), key=key, question="may it?", **more))

    def decide(self, key: str, decision: Any = "approved", decided_by: Any = "person", **more: Any) -> Any:
        return self.put(ApprovalDecided(**self._at("main"), key=key, decision=decision, decided_by=decided_by, **more))

    def moved(self, cause: Any = "edit", **more: Any) -> Any:
        self.number += 1
        return self.put(WorkspaceChanged(commit=self.commit, cause=cause, checkpoint=self.number, **more))


def asked(key: str, tool: str = "shell", effect: Any = "workspace", **more: Any) -> AcceptedCall:
    return AcceptedCall(key=key, tool=tool, effect=effect, **more)


def payment(key: str = "pay-1", **more: Any) -> AcceptedCall:
    """An external call, whose signature is `sig` unless it is given."""
    given: dict[str, Any] = {"tool": "pay", "effect": "external", "risk": "high", "signature": "sig", **more}
    return AcceptedCall(key=key, **given)
