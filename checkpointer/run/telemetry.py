"""Spans and metrics of driven runs, where the host program has OpenTelemetry; where it has not, nothing is imported.

It has it once it loaded the API: what is done with spans and metrics is up to the SDK that the program configured. The
names are those of the GenAI conventions where there are any, and begin with `ckpt.` where not. An attribute is a name,
an id or a number: never a content, an argument, a message of an error, a path or a value of the environment. Whatever
does not look like a name is left out.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from checkpointer import release
from checkpointer.events import (
    AnyEvent,
    ApprovalDecided,
    ModelTurn,
    ToolCallReconciled,
    ToolCallUncertain,
    Usage,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from checkpointer.recovery import Settled
    from checkpointer.replay import Counters
    from checkpointer.state import RunState

RUN: Final = "gen_ai.conversation.id"
TOOL: Final = "gen_ai.tool.name"
ERROR: Final = "error.type"
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,99}(?:/[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,99})?")
"""A name or an id; a model's may have its maker before it."""

Attributes = Mapping[str, Any]
_COUNTERS = {
    "ckpt.claims": ("{claim}", "Runs that were begun, resumed or taken over"),
    "ckpt.fenced": ("{append}", "Appends that were refused because the run was another's by then"),
    "ckpt.model_turns": ("{turn}", "Answers of models that were recorded"),
    "ckpt.calls.replayed": ("{call}", "Calls that were answered from the log: nothing ran"),
    "ckpt.calls.uncertain": ("{call}", "Calls whose outcome became unknown"),
    "ckpt.recovery.decisions": ("{decision}", "Verdicts on calls whose outcome was unknown"),
    "ckpt.approvals": ("{decision}", "Answers to the question whether a call may run"),
    "ckpt.replay.events": ("{event}", "Events that were read to have a run's state again"),
    "ckpt.snapshot.misses": ("{snapshot}", "Snapshots that did not fit"),
}
_HISTOGRAMS = {
    "gen_ai.execute_tool.duration": ("s", "Time in tools"),
    "ckpt.replay.duration": ("s", "Time to read a run's log"),
    "ckpt.snapshot.load.duration": ("s", "Time to read a snapshot"),
    "ckpt.snapshot.write.duration": ("s", "Time to write a snapshot"),
    "ckpt.snapshot.gap": ("{event}", "Events after the snapshot that was read"),
}
_GAUGES = {
    "ckpt.replay.equivalence_failures": ("{failure}", "Snapshots of a run that led elsewhere than its log, so far"),
}


_TOKENS = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}


class _Api(NamedTuple):
    trace: Any
    tracer: Any
    instruments: Mapping[str, Any]


@functools.cache
def _api() -> _Api:
    from opentelemetry import metrics, trace

    meter = metrics.get_meter("checkpointer", release.VERSION)
    made: dict[str, Any] = {}
    for make, table in (
        (meter.create_counter, _COUNTERS),
        (meter.create_histogram, _HISTOGRAMS),
        (meter.create_gauge, _GAUGES),
    ):
        for name, (unit, about) in table.items():
            made[name] = make(name, unit=unit, description=about)
    return _Api(trace, trace.get_tracer("checkpointer", release.VERSION), made)


def _loaded() -> _Api | None:
    """The API, if the host program loaded it."""
    if "opentelemetry.trace" not in sys.modules and "opentelemetry.metrics" not in sys.modules:
        return None
    try:
        return _api()
    except (ImportError, AttributeError):  # a part of it, or an older one
        return None


def listening() -> bool:
    """Does anybody want to hear of anything?"""
    return _loaded() is not None


def names(attributes: Attributes) -> dict[str, Any]:
    """The attributes that may be told: numbers, and texts that look like a name or an id."""
    return {name: value for name, value in attributes.items() if _tellable(value)}


def _tellable(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(map(_tellable, value))
    return isinstance(value, bool | int | float) or (isinstance(value, str) and _WORD.fullmatch(value) is not None)


class Mark:
    """What a span is told while it is open; nobody's where nobody listens."""

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    def tell(self, attributes: Attributes) -> None:
        if self._span is not None:
            with contextlib.suppress(Exception):
                self._span.set_attributes(names(attributes))

    def happened(self, name: str, attributes: Attributes) -> None:
        if self._span is not None:
            with contextlib.suppress(Exception):
                self._span.add_event(name, names(attributes))

    def went_wrong(self, error: type[BaseException] | str, *, failed: bool = True) -> None:
        """`error` names the kind, never what was said. What only waits for a person has not `failed`."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self.tell({ERROR: error if isinstance(error, str) else kind(error)})
            if failed:
                with contextlib.suppress(Exception):
                    self._span.set_status(StatusCode.ERROR)


_NOBODYS = Mark()


def kind(error: type[BaseException]) -> str:
    """An exception's class, as the conventions name it."""
    return error.__qualname__ if error.__module__ == "builtins" else f"{error.__module__}.{error.__qualname__}"


@contextlib.contextmanager
def span(name: str, attributes: Attributes) -> Iterator[Mark]:
    """A span around the body, in which it is the current one. An exception that leaves the body is named by its class
    and goes on.
    """
    api = _loaded()
    if api is None:
        yield _NOBODYS
        return
    # What the exception says is nobody's business: neither it nor its traceback is recorded.
    with api.tracer.start_as_current_span(
        name, attributes=names(attributes), record_exception=False, set_status_on_exception=False
    ) as made:
        mark = Mark(made)
        try:
            yield mark
        except BaseException as e:
            mark.went_wrong(type(e), failed=getattr(e, "exit", 1) != _ASKS)
            raise


_ASKS: Final = 3
"""The exit status of what a person has to decide."""


def count(name: str, amount: float = 1, attributes: Attributes = {}) -> None:  # noqa: B006 - never changed
    """Add to a counter, or to a histogram, or set a gauge."""
    api = _loaded()
    if api is None:
        return
    with contextlib.suppress(Exception):  # whatever an SDK's views do: a run is not in their hands
        instrument = api.instruments[name]
        how = "add" if name in _COUNTERS else "record" if name in _HISTOGRAMS else "set"
        getattr(instrument, how)(amount, names(attributes))


@contextlib.contextmanager
def executing(attributes: Attributes) -> Iterator[Mark]:
    """Around one attempt of a tool call."""
    if not listening():
        yield _NOBODYS
        return
    tool = str(attributes.get(TOOL, ""))
    facts = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function", **attributes}
    ended: dict[str, Any] = {}
    began = time.perf_counter()
    try:
        with span(f"execute_tool {tool}", facts) as mark:
            yield _Told(mark, ended)
    except BaseException as e:
        ended.setdefault(ERROR, kind(type(e)))
        raise
    finally:
        count("gen_ai.execute_tool.duration", time.perf_counter() - began, {TOOL: tool, **ended})


class _Told(Mark):
    """A mark whose end is told to the metric too."""

    def __init__(self, mark: Mark, ended: dict[str, Any]) -> None:
        super().__init__(mark._span)
        self._ended = ended

    def tell(self, attributes: Attributes) -> None:
        super().tell(attributes)
        self._ended.update({n: v for n, v in attributes.items() if n in (ERROR, "ckpt.call.status")})


def recorded(events: Iterable[AnyEvent]) -> None:
    """Count events that were appended to the log of a driven run."""
    if not listening():
        return
    for event in events:
        match event:
            case ModelTurn():
                count("ckpt.model_turns", 1, {"gen_ai.response.model": event.model})
            case ToolCallUncertain():
                count("ckpt.calls.uncertain", 1, {"ckpt.reason": event.reason})
            case ToolCallReconciled():
                count("ckpt.recovery.decisions", 1, {"ckpt.verdict": event.verdict, "ckpt.by": event.by})
            case ApprovalDecided():
                count("ckpt.approvals", 1, {"ckpt.decision": event.decision, "ckpt.by": event.decided_by})


def claimed(state: RunState, mark: Mark) -> None:
    """That the run is ours now, and how its owner before ended."""
    after = state.resumptions[-1].after if state.resumptions else "begun"
    mark.tell({"ckpt.claim.after": after})
    count("ckpt.claims", 1, {"ckpt.claim.after": after})


def answered(usage: Mapping[str, int] | Usage | None, stop: str | None, calls: int) -> dict[str, Any]:
    """What a model's answer cost, and how many calls it asks for."""
    given = usage if isinstance(usage, Mapping) else usage.model_dump() if usage is not None else {}
    return {
        **{told: given.get(name) for name, told in _TOKENS.items()},
        "gen_ai.response.finish_reasons": (stop,),
        "ckpt.calls": calls,
    }


def settled(mark: Mark, said: Iterable[Settled]) -> None:
    """The verdicts of one settling, on its span."""
    for one in said:
        facts = {TOOL: one.tool, "ckpt.call.key": one.key, "ckpt.verdict": one.verdict, "ckpt.by": one.by}
        mark.happened("ckpt.recovery.decision", facts)


def replayed(counters: Counters, seq: int, mark: Mark) -> None:
    """What one replay cost that led to event `seq`."""
    count("ckpt.replay.events", counters.events_replayed)
    count("ckpt.replay.duration", counters.replay_duration_ms / 1000)
    if seq > counters.events_replayed:
        count("ckpt.snapshot.load.duration", counters.snapshot_load_ms / 1000)
        count("ckpt.snapshot.gap", counters.snapshot_seq_gap)
    for name, misses in counters.snapshot_misses.items():
        count("ckpt.snapshot.misses", misses, {"ckpt.snapshot.miss": name})
    count("ckpt.replay.equivalence_failures", counters.full_replay_equivalence_failures)
    mark.tell({"ckpt.replay.events": counters.events_replayed, "ckpt.snapshot.gap": counters.snapshot_seq_gap})
