"""The outside of a call that was cut off: its reconciler asked, its effect taken back."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from checkpointer import canon
from checkpointer.errors import CheckpointerError
from checkpointer.events import ABSENT, AnyEvent, ToolCallCompleted, ToolCallStarted, ToolCallUncertain
from checkpointer.recovery.case import Case
from checkpointer.recovery.policy import UNKNOWN
from checkpointer.state import Call
from checkpointer.tools import Absent, Conflict, Finding, Match, NoEffect, Tool, Unknown

if TYPE_CHECKING:
    from checkpointer.recovery.settle import Scene


def storable(value: Any) -> Any:
    try:
        return canon.freeze(value)
    except canon.NotJson:
        return {name: _one_storable(one) for name, one in value.items()}


def _one_storable(value: Any) -> Any:
    try:
        return canon.freeze(value)
    except canon.NotJson:
        return repr(value)


def ask(tool: Tool, case: Case) -> Finding:
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


def take_back(scene: Scene, call: Call, tool: Tool, case: Case) -> str:
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
