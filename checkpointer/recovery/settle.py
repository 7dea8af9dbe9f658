"""Settle calls that were cut off: look for evidence, judge, write both down; before a model is asked anything.

A call that is found open was cut off by a crash, and is uncertain from then on. What stays uncertain is for a person,
and in the queue. Safe to be killed anywhere: the next settling finds the same evidence.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from checkpointer import canon
from checkpointer.errors import CheckpointerError, NothingToDo
from checkpointer.events import (
    ABSENT,
    AnyEvent,
    ToolCallCompleted,
    ToolCallReconciled,
    ToolCallStarted,
    ToolCallUncertain,
    Verdict,
    WorkspaceChanged,
)
from checkpointer.log import Pen
from checkpointer.recovery import evidence
from checkpointer.recovery.case import Case, Choice, Judgement
from checkpointer.recovery.policy import UNKNOWN, judge
from checkpointer.state import Call, RunState
from checkpointer.tools import Absent, Conflict, Finding, Match, NoEffect, Tool, Unknown
from checkpointer.workspace.workspace import Workspace

__all__ = ["Choice", "Files", "Scene", "Settled", "settle"]


class Files(Protocol):
    """The files of the run, as its owner keeps them. What gives events made a checkpoint, and does not raise."""

    workspace: Workspace

    @property
    def newest(self) -> int: ...
    def now(self) -> dict[str, Any]: ...
    def verified(self) -> dict[str, Any]: ...
    def before(self) -> list[WorkspaceChanged]: ...
    def left(self, step: str) -> list[WorkspaceChanged]: ...
    def open_question(self) -> int: ...


@dataclass
class Scene:
    """Who settles, and with what. `append` is the pen's, or one around it. `choice` is what a person said about files.

    Without `tools` (the command line has none) calls with effects outside are only marked: those who have them judge.
    """

    pen: Pen
    files: Files
    tools: Mapping[str, Tool] | None = None
    choice: Choice = "ask"
    append: Callable[..., Sequence[AnyEvent]] | None = None
    _starts: dict[tuple[str, int], evidence.Start] = field(default_factory=dict)

    def write(self, *events: AnyEvent) -> None:
        (self.append or self.pen.append)(*events)

    def start(self, call: Call) -> evidence.Start:
        mark = (call.key, call.started)
        if mark not in self._starts:
            self._starts[mark] = evidence.start_of(self.pen, call)
        return self._starts[mark]

    def call(self, key: str) -> Call | None:
        return self.pen.state.call(key)


@dataclass(frozen=True)
class Settled:
    """What was decided about one call. `number` is its handle (`u1`), `differing` the paths that a call on files left
    other than they were; `put_back` is the checkpoint that holds these, where they are as at its start again.
    """

    key: str
    tool: str
    verdict: Verdict
    rule: str
    number: int | None = None
    by: str = "policy"
    differing: tuple[str, ...] = ()
    put_back: int = 0


def settle(scene: Scene, keys: Collection[str] | None = None) -> list[Settled]:
    """Give verdicts on every call that was cut off, or on those of `keys`; what they made of it, in order.

    Calls that others made come after these. Raises what appending and a restore raise; never for what a receiver says
    or does not say.
    """
    asked = [c for c in _cut_off(scene) if keys is None or c.key in keys]
    for call in asked:
        if call.status == "open" and call.effect != "read" and not _only_unreported(scene, call):
            _mark(scene, call)
    out = []
    for call in _leaves_first(asked):
        known = scene.call(call.key)
        if known is not None and known.key in {c.key for c in _cut_off(scene)}:
            done = _one(scene, known)
            if done is not None:
                out.append(done)
    return out


def _cut_off(scene: Scene) -> list[Call]:
    """What nobody knows: also of those that were judged before, and have not run again since; a key may be too old now,
    but what a person said stands.
    """
    state = scene.pen.state
    return [c for c in state.unsettled if c.status != "accepted" or state.doubts[c.key].retry == "policy"]


def _only_unreported(scene: Scene, call: Call) -> bool:
    """An agent that is only watched went on after it: nothing is in question."""
    return scene.pen.state.mode == "observed" and evidence.went_on(scene.pen, scene.start(call))


def _leaves_first(calls: Sequence[Call]) -> list[Call]:
    """Newest start first, so that what a call made comes before it."""
    return sorted(calls, key=lambda c: c.started, reverse=True)


def _mark(scene: Scene, call: Call) -> None:
    """A call that was cut off is uncertain; what it may have left of files is in a checkpoint first."""
    files = scene.files
    number = handle(scene.pen.state, files, call.key)
    changed: list[WorkspaceChanged] = []
    captured = call.newest is not None and call.newest.commit is not None and call.newest.commit.captured
    if captured and call.effect == "external":
        changed = files.left("")
    scene.write(
        *changed,
        ToolCallUncertain(
            key=call.key,
            attempt=call.attempt,
            reason="crash",
            number=number,
            context=call.context,
            **files.now(),
        ),
    )


def handle(state: RunState, files: Files, key: str) -> int | None:
    """The number of a question: the one that it has, else a new one; None where that cannot be had."""
    doubt = state.doubts.get(key)
    if doubt is not None and doubt.number is not None:
        return doubt.number
    with contextlib.suppress(CheckpointerError):  # without a handle, then: that it is uncertain matters more
        return files.open_question()
    return None


def _one(scene: Scene, call: Call) -> Settled | None:
    tools = scene.tools
    observed = scene.pen.state.mode == "observed"
    if tools is None and call.effect == "external" and not observed:
        return None
    tool = tools.get(call.tool) if tools is not None else None
    start = scene.start(call)
    case = evidence.case_of(scene.pen, call, start, tool, scene.files.workspace, scene.choice)
    verdict = judge(case)
    for _ in range(3):
        if verdict.act == "ask" and tool is not None:
            case = replace(case, finding=_ask(tool, case))
        elif verdict.act == "compensate" and tool is not None:
            case = replace(case, compensated=_compensate(scene, call, tool, case))
        else:
            break
        verdict = judge(case)
    if call.status == "accepted" and verdict.verdict == "retry":
        return None  # as it was judged before
    doubt = scene.pen.state.doubts.get(call.key)
    number = doubt.number if doubt is not None else None
    changed: list[WorkspaceChanged] = []
    looked, kept = False, 0
    if case.files is not None and case.files.equal is False:
        (changed, kept), looked = _keep_present(scene, start, case, verdict), True
    elif case.files is not None and case.files.equal and verdict.verdict == "retry":
        changed, looked = scene.files.before(), True
    _write(scene, call, verdict, changed, looked)
    differing = case.files.differing if case.files is not None else ()
    return Settled(call.key, call.tool, verdict.verdict, verdict.rule, number, verdict.by, differing, kept)


def _keep_present(
    scene: Scene, start: evidence.Start, case: Case, verdict: Judgement
) -> tuple[list[WorkspaceChanged], int]:
    """The files as they are go into a checkpoint; then, if so judged, those of the start come back. Gives its number
    too, if they did.
    """
    assert case.files is not None
    changed, kept = scene.files.left(start.step if case.files.explained else ""), 0
    if verdict.act == "put back" and case.files.start is not None:
        holds = scene.files.newest
        with contextlib.suppress(NothingToDo):
            scene.files.workspace.restore(case.files.start, by="person" if verdict.by == "person" else "watch")
            kept = holds
        changed += scene.files.before()
    return changed, kept


def _write(scene: Scene, call: Call, verdict: Judgement, changed: Sequence[WorkspaceChanged], looked: bool) -> None:
    doubt = scene.pen.state.doubts.get(call.key)
    known = doubt is not None and doubt.escalated and call.status != "accepted"
    if verdict.verdict == "escalate" and known and verdict.by == "policy":
        if changed:
            scene.write(*changed)
        return  # a person has been asked, and nothing new is known
    files = scene.files.verified() if looked else scene.files.now()
    events: list[AnyEvent] = [
        *changed,
        ToolCallReconciled(
            key=call.key,
            attempt=call.attempt,
            verdict=verdict.verdict,
            rule=verdict.rule,
            by=verdict.by,
            evidence=_storable(verdict.evidence),
            context=call.context,
            **files,
        ),
    ]
    if verdict.verdict == "complete":
        events.append(
            ToolCallCompleted(
                key=call.key,
                attempt=call.attempt,
                effect=verdict.effect,
                source=verdict.source,
                failed=verdict.failed,
                result=verdict.result,
                context=call.context,
                **files,
            )
        )
    scene.write(*events)


def _storable(value: Any) -> Any:
    try:
        return canon.freeze(value)
    except canon.NotJson:
        return {name: _one_storable(one) for name, one in value.items()}


def _one_storable(value: Any) -> Any:
    try:
        return canon.freeze(value)
    except canon.NotJson:
        return repr(value)


# -- the outside


def _ask(tool: Tool, case: Case) -> Finding:
    """What the reconciler says; that it failed is no finding."""
    assert tool.reconcile is not None
    if case.arguments is ABSENT:
        return Unknown("its arguments were redacted")
    try:
        found = _result(tool.reconcile, canon.thaw(case.arguments), case.key)
    except Exception as e:
        return Unknown(_words(e))
    if not isinstance(found, Match | Conflict | Absent | Unknown):
        return Unknown(f"it returned {type(found).__name__}, which is no finding")
    return found


def _compensate(scene: Scene, call: Call, tool: Tool, case: Case) -> str:
    """Take a call back, announced like any call. Gives `done`, or why it is not."""
    assert tool.compensate is not None
    key = f"{call.key}/c{call.attempt}"
    before = scene.call(key)
    if before is not None:
        if before.status in ("open", "uncertain"):
            return UNKNOWN
        return "done" if before.status == "completed" else "it was tried before"
    files = scene.files.now()
    scene.pen.ensure()
    scene.write(
        ToolCallStarted(
            key=key,
            tool=tool.name,
            effect="external",
            risk=case.risk,
            terms=case.terms.model_copy(update={"policy": "person", "offers": ()}),
            compensates=call.key,
            arguments=case.arguments,
            title=f"takes back {tool.name}",
            context=call.context,
            **files,
        )
    )
    ending: AnyEvent
    try:
        result = _result(tool.compensate, canon.thaw(case.arguments), None)
        ending = ToolCallCompleted(key=key, result=_one_storable(result), context=call.context, **files)
        said = "done"
    except NoEffect as e:
        said = _words(e)
        ending = ToolCallCompleted(key=key, effect="none", failed=True, result=said, context=call.context, **files)
    except Exception as e:
        said = f"{UNKNOWN}: {_words(e)}"
        number = None
        with contextlib.suppress(CheckpointerError):
            number = scene.files.open_question()
        ending = ToolCallUncertain(
            key=key, reason="exception", number=number, detail={"error": _words(e)}, context=call.context, **files
        )
    scene.write(ending)
    return said


def _result(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives, or the coroutine that it gives; also inside a running event loop."""
    value = function(*args)
    if not inspect.iscoroutine(value):
        return value
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(value)
    out: list[Any] = []
    errors: list[BaseException] = []

    def go() -> None:
        try:
            out.append(asyncio.run(value))
        except BaseException as e:
            errors.append(e)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return out[0]


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
