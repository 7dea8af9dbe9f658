"""What all parts of one driven run share: its pen, contents, files and tools; the words for calls and answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from checkpointer.errors import Fenced, Usage
from checkpointer.events import MAIN, AnyEvent
from checkpointer.log import Pen
from checkpointer.run import telemetry
from checkpointer.run.contents import Contents
from checkpointer.run.files import Files
from checkpointer.run.identity import Identity
from checkpointer.run.keeper import Keeper
from checkpointer.state import Place, RunState
from checkpointer.tools import Tool

if TYPE_CHECKING:
    from checkpointer.recovery import Choice


@dataclass(frozen=True)
class ToolCall:
    """A call that somebody asked for: what `run.call` takes.

    `slot` is its place in a model turn, (seq, index), or the name that the caller gave; `key` its identity for good.
    `name` and `arguments` are what the model asked for, None where they were redacted; `id` is the model's own name
    for the call.
    """

    slot: Place | str
    key: str
    name: str
    arguments: Any = None
    id: str | None = None
    context: str = MAIN
    digest: str | None = None
    signature: str | None = None
    occurrence: int = 1


Ending = Literal["completed", "failed", "denied", "uncertain", "abandoned", "unreported"]


@dataclass(frozen=True)
class Answer:
    """How a call ended. `result` is what the model is told: the tool's own result, or words about what became of it.

    `failed` says that it is an error to the model. `status`: `completed`; `failed`, certainly without effect; `denied`;
    `uncertain`, and the model was told so; `abandoned` by a person. `replayed`: read from the log, nothing ran.
    """

    key: str
    status: Ending
    result: Any = None
    failed: bool = False
    replayed: bool = False


@dataclass(frozen=True)
class Turn:
    """One answer of a model as it was recorded. `tool_calls` wait to be called, in this order."""

    seq: int
    content: Any
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True)
class Deny:
    """A policy's word: the call must not run. The model is told why."""

    reason: str = ""


@dataclass(frozen=True)
class Ask:
    """A policy's word: a person must approve this attempt of the call first, within so many seconds."""

    question: str = ""
    expires_s: float | None = None


Policy = Callable[[ToolCall, Tool], Deny | Ask | None]
"""Asked before each attempt; None lets it run."""


@dataclass(eq=False, repr=False)
class Desk:
    """`choice` is what a person said about files that a cut-off call left, `tells` whether a model may go on while an
    outcome is unknown, once it was told. `turn` is the number of the turn that goes on. `settle` gives a verdict on
    one uncertain call, or raises.
    """

    pen: Pen
    contents: Contents
    files: Files
    identity: Identity
    tools: Mapping[str, Tool]
    settle: Callable[[str], object]
    policy: Policy | None = None
    tells: bool = False
    choice: Choice = "ask"
    turn: int | None = None
    keeper: Keeper | None = None
    steps: dict[int, int] = field(default_factory=dict)
    mutex: threading.RLock = field(default_factory=threading.RLock)

    @property
    def state(self) -> RunState:
        return self.pen.state

    def append(self, *events: AnyEvent) -> tuple[AnyEvent, ...]:
        """Append, and remember the contents. Raises what `Pen.append` raises."""
        return self._wrote(lambda: self.pen.append(*events))

    def decide(self, choose: Callable[[RunState], Sequence[AnyEvent]]) -> tuple[AnyEvent, ...]:
        """Append what `choose` makes of the state, as `append` does."""
        return self._wrote(lambda: self.pen.decide(choose))

    def _wrote(self, write: Callable[[], tuple[AnyEvent, ...]]) -> tuple[AnyEvent, ...]:
        try:
            placed = write()
        except Fenced:
            telemetry.count("ckpt.fenced")
            raise
        self.contents.add(placed)
        telemetry.recorded(placed)
        if self.keeper is not None:
            self.keeper.wrote(self.pen.folded)
        return placed

    def hear(self) -> None:
        """Take in what others left for the owner: one look at a directory. Raises what appending raises."""
        if self.state.status == "owned":
            before = self.state.seq
            self.pen.collect()
            if self.state.seq > before and telemetry.listening():
                heard = self.pen.log.at(range(before + 1, self.state.seq + 1))
                telemetry.recorded(record.event for record in heard)

    def tool(self, name: str) -> Tool:
        """The tool that recorded calls name. Raises `Usage` where it was not brought along."""
        found = self.tools.get(name)
        if found is None:
            raise Usage(f"this run has calls of a tool {name} that was not given to open_run", next=("tools=[...]",))
        return found

    def take_up(self) -> None:
        """Go on from what the log says: turn and steps are counted from there."""
        state = self.state
        self.files.take_up(state)
        for step in state.trajectory:
            if step.turn is not None and step.number is not None:
                self.steps[step.turn] = max(self.steps.get(step.turn, 0), step.number)
                self.turn = step.turn
        self.turn = max(state.turn or 0, self.turn or 0) or None

    def next_step(self) -> tuple[int, int]:
        """Turn and number of a call that starts now. Raises what numbering a turn raises."""
        with self.mutex:
            if self.turn is None:
                self.turn = self.files.open_turn()
            self.steps[self.turn] = self.steps.get(self.turn, 0) + 1
            return self.turn, self.steps[self.turn]
