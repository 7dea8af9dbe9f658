"""Settle calls that were cut off: look for evidence, judge, write both down; before a model is asked anything.

A call that is found open was cut off by a crash, and is uncertain from then on. What stays uncertain is for a person,
and in the queue. Safe to be killed anywhere: the next settling finds the same evidence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from checkpointer.errors import CheckpointerError, NothingToDo
from checkpointer.events import (
    AnyEvent,
    ToolCallCompleted,
    ToolCallReconciled,
    ToolCallUncertain,
    Verdict,
    WorkspaceChanged,
)
from checkpointer.log import Pen
from checkpointer.recovery import evidence, receiver
from checkpointer.recovery.case import Case, Choice, Judgement
from checkpointer.recovery.policy import judge
from checkpointer.state import Call, RunState
from checkpointer.tools import Tool
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
            case = replace(case, finding=receiver.ask(tool, case))
        elif verdict.act == "compensate" and tool is not None:
            case = replace(case, compensated=receiver.take_back(scene, call, tool, case))
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
            evidence=receiver.storable(verdict.evidence),
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
