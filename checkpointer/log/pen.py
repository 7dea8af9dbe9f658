"""The one thing that appends: a `Pen` comes from claiming a run, and every event passes through the fold first.

An *exclusive* pen is the only writer of a driven run: that somebody else wrote means that it lost the run, and it
writes no more. A *shared* pen is one of several under one epoch (the hooks of an observed run): it catches up and asks
the fold again. Both end for good with the first sign that the run is another's, over, or that a write went wrong.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple, NoReturn

from checkpointer import lease, machine, record
from checkpointer.collector import uncollected
from checkpointer.errors import Behind, CheckpointerError, Fenced, Finished, IllegalEvent, LogDamaged
from checkpointer.events import AnyEvent, Durability, RunFinished, RunReleased, ToolCallCompleted, ToolCallStarted
from checkpointer.line import NO_SUM
from checkpointer.log.place import START, Position, Writable
from checkpointer.record import Encoded
from checkpointer.state import EMPTY, RunState, apply, fold

_SHARED_TRIES = 100


class Folded(NamedTuple):
    """A state, and the place in the log that it is the state of."""

    state: RunState = EMPTY
    position: Position = START


def catch_up(log: Writable, known: Folded = Folded()) -> Folded:  # noqa: B008 - immutable
    """The fold of the whole log, from `known` on. Raises `LogDamaged`, also for an event that the fold refuses."""
    records = log.read(known.position)
    try:
        with uncollected():
            state = fold(map(attrgetter("event"), records), known.state)
    except IllegalEvent as e:
        seq = e.details["seq"]
        raise LogDamaged(f"event {seq} cannot follow those before it: {e.message}", seq=seq) from e
    return Folded(state, records.position)


class Pen:
    """Appends to one run under one epoch. Made by `claim` and `delegate`, usable by several threads.

    `state` is the fold of everything that was appended, and of everything others appended as far as this pen knows.
    """

    def __init__(
        self,
        log: Writable,
        known: Folded,
        epoch: int,
        *,
        shared: bool,
        world: machine.World,
        until_ms: int = 0,
        durability: Durability | None = None,
    ) -> None:
        self.log = log
        self.epoch = epoch
        self.shared = shared
        self._known = known
        self._world = world
        self._mutex = threading.RLock()
        self._pid = os.getpid()
        self._ended: CheckpointerError | None = None
        self._batch: list[AnyEvent] = []
        self._state = known.state
        self._batch_since = 0
        self._durability = durability or Durability()
        self._until_ms = until_ms

    @property
    def state(self) -> RunState:
        return self._state

    @property
    def folded(self) -> Folded:
        """The durable part: everything but what a batch still holds back."""
        return self._known

    # Appending

    def append(self, *events: AnyEvent) -> tuple[AnyEvent, ...]:
        """Append events, all or none, as one write; gives them with their places.

        On return they are durable, unless the run was started with `batched`. Raises `IllegalEvent` where the fold
        refuses one, `ValueError` where one lacks something, `Fenced`, `Behind`, `Finished`, `NoSpace`, `Failed`,
        `OutcomeUnknown`; but for the first two the pen is done with. Then nothing was written, but for the last.
        """
        with self._mutex:
            if isinstance(self._ended, Fenced) and self._pid == os.getpid():  # a renewal may have heard of it first
                self._leave_late(events)
            return self.decide(lambda state: events)

    def decide(self, choose: Callable[[RunState], Sequence[AnyEvent]]) -> tuple[AnyEvent, ...]:
        """Append what `choose` makes of the state; it is asked again if a shared pen had to catch up. None are fine."""
        try:
            return self._decide(choose)
        except Fenced as e:
            if "epoch" in e.details:  # else it was we who let the run go
                self.log.count_fenced()
            raise

    def _decide(self, choose: Callable[[RunState], Sequence[AnyEvent]]) -> tuple[AnyEvent, ...]:
        with self._mutex:
            for _ in range(_SHARED_TRIES):
                self._check()
                events = choose(self.state)
                if not events:
                    return ()
                placed, state = self._place(events)
                try:
                    self._write(placed, state)
                except Behind:
                    if not self.shared:
                        raise
                    self._known = catch_up(self.log, self._known)
                    self._state = self._known.state
                    continue
                return placed
            raise Behind(f"others wrote {_SHARED_TRIES} times in a row", kept="nothing was written")

    def _check(self) -> None:
        if self._ended is not None:
            raise type(self._ended)(f"this pen is done with: {self._ended.message}", **self._ended.details)
        if self._pid != os.getpid():
            raise Fenced("a forked child cannot use its parent's pen", kept="nothing was written")
        if self._state.status == "finished":
            raise Finished(f"run {self.log.run} is finished")
        if self._state.epoch != self.epoch:
            epoch = self._state.epoch
            self._end(Fenced(f"run {self.log.run} has another owner now (epoch {epoch})", epoch=epoch))

    def _end(self, error: CheckpointerError) -> NoReturn:
        self._ended = error
        raise error

    def _place(self, events: Sequence[AnyEvent]) -> tuple[tuple[AnyEvent, ...], RunState]:
        """Give events their places, and ask the fold."""
        state, at, first = self._state, self._world.at(), self._state.seq + 1
        placed = []
        for event in events:
            event = event.model_copy(
                update={
                    "seq": state.seq + 1,
                    "w": first,
                    "n": len(events),
                    "v": event.version,
                    "id": event.id or self._world.event_id(),
                    "at": event.at or at,
                    "epoch": self.epoch,
                }
            )
            if reason := event.missing():
                raise ValueError(f"{event.type}: {reason}")
            state = apply(state, event)
            placed.append(event)
        return tuple(placed), state

    def _write(self, placed: Sequence[AnyEvent], state: RunState) -> None:
        """Write the events, or let them wait in the batch."""
        batch = [*self._batch, *placed]
        if self._may_wait(batch, placed):
            if not self._batch:
                self._batch_since = self._world.now().monotonic_ms
            self._batch, self._state = batch, state
            return
        lines = seal(self.log, batch, self._known.position.sum, self._world)
        try:
            position = self.log.append(self._known.position, self.epoch, lines)
        except Behind as e:
            if not self.shared:
                self._end(e)
            raise
        except Fenced as e:
            self._leave_late(placed)
            self._end(e)
        except CheckpointerError as e:
            self._end(e)
        self._batch, self._state = [], state
        self._known = Folded(state, position)

    def _may_wait(self, batch: Sequence[AnyEvent], placed: Sequence[AnyEvent]) -> bool:
        rule = self._durability
        if rule.kind == "sync" or self.shared or len(batch) >= rule.events:
            return False
        if any(e.group == "run" or (isinstance(e, ToolCallStarted) and e.effect == "external") for e in placed):
            return False
        return not self._batch or self._world.now().monotonic_ms - self._batch_since < rule.ms

    def flush(self) -> None:
        """Write what a batch holds back; on return it is durable. Raises what `append` raises."""
        with self._mutex:
            if self._batch:
                self._check()
                batch, self._batch = self._batch, []
                kept, self._durability = self._durability, Durability()
                try:
                    self._write(batch, self._state)
                finally:
                    self._durability = kept

    def _leave_late(self, placed: Sequence[AnyEvent]) -> None:
        """A completion that came too late is evidence for the next owner."""
        for event in placed:
            if isinstance(event, ToolCallCompleted):
                event = event.model_copy(update={"id": event.id or self._world.event_id(), "epoch": self.epoch})
                with contextlib.suppress(CheckpointerError):
                    self.log.post("late", event.id, letter(event, self._world))

    # Owning

    def renew(self) -> None:
        """Write a new lease. Raises `Fenced` if the run is another's now; then the pen is done with."""
        with self._mutex:
            self._check()
            now = self._world.now()
            try:
                self.log.renew(self._known.position, self.epoch, lease.grant(self.epoch, now, self._state.ttl_ms))
            except Fenced as e:
                self._end(e)
            self._until_ms = now.monotonic_ms + self._state.ttl_ms

    def ensure(self) -> None:
        """To be called before an effect: is this run still ours? Renews a lease that has passed. Raises `Fenced`."""
        if self._world.now().monotonic_ms >= self._until_ms:
            self.renew()
        else:
            self._check()

    def release(
        self, how: Literal["ended", "paused", "interrupted"], status: int | None = None, *, dismissed: bool = False
    ) -> None:
        """Let the run go: anybody may claim it at once."""
        self.append(RunReleased(how=how, status=status, dismissed=dismissed or None))
        self._ended = Fenced(f"run {self.log.run} was released")

    def finish(self, outcome: str, status: int | None = None, detail: Any = None) -> None:
        """End the run for good."""
        self.append(RunFinished(outcome=outcome, status=status, detail=detail))

    def collect(self) -> list[tuple[str, str]]:
        """Append what others left in the inbox, each once, and take it out.

        Gives (event id, what became of it): `appended`, `known` (it was in the log), or why it was refused; a refused
        one is moved to `late`.
        """
        outcomes = []
        with self._mutex:
            for event_id, line in self.log.letters("inbox"):
                outcome = self._collect(event_id, line)
                outcomes.append((event_id, outcome))
                if outcome not in ("appended", "known"):
                    self.log.post("late", event_id, line)
                self.log.discard("inbox", event_id)
        return outcomes

    def _collect(self, event_id: str, line: bytes) -> str:
        if self.log.resolve(event_id) is not None:
            return "known"
        try:
            event = open_letter(line)
            self.append(event.model_copy(update={"id": event_id, "at": ""}))
            self.flush()
        except (IllegalEvent, ValueError) as e:
            return str(e)
        return "appended"


def seal(log: Writable, events: Sequence[AnyEvent], previous: str, world: machine.World) -> list[Encoded]:
    """The lines of one write, their large contents kept."""
    lines = []
    for event in events:
        if (event.w, event.n) != (events[0].seq, len(events)):  # it waited in a batch
            event = event.model_copy(update={"w": events[0].seq, "n": len(events)})
        line = record.encode(event, previous, world.salt())
        previous = line.sum
        lines.append(line)
    log.keep([one for line in lines for one in line.objects])
    return lines


def letter(event: AnyEvent, world: machine.World) -> bytes:
    """An event as it lies in `inbox` or `late`: a line of its own, with all its contents."""
    given = {"seq": 1, "w": 1, "n": 1, "id": event.id or world.event_id(), "at": event.at or world.at()}
    return record.encode(event.model_copy(update=given), NO_SUM, world.salt(), large=1 << 62).line


def open_letter(line: bytes) -> AnyEvent:
    """The event of a letter, without a place. Raises `BadLine`, a ValueError."""
    event = record.decode(line.removesuffix(b"\n"), NO_SUM, 1).load()
    return event.model_copy(update={"seq": 0, "w": 0})
