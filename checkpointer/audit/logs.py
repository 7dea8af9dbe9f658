"""Runs' logs: the chain, what is kept beside it, that each event may follow those before it, what snapshots hold."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from checkpointer.audit.finding import Audit, Progress
from checkpointer.errors import (
    CheckpointerError,
    IllegalEvent,
    LogDamaged,
    NeedsMigration,
    NewerFormat,
    NoStore,
)
from checkpointer.events import AnyEvent
from checkpointer.log import Folded, JsonlLog, JsonlRuns, Position
from checkpointer.record import OBJECTS, Record
from checkpointer.run import retirement
from checkpointer.run import session as sessions
from checkpointer.snapshot import Snapshots
from checkpointer.state import EMPTY, RunState, fold


def check(directory: str, audit: Audit, progress: Progress | None = None) -> None:
    """The log of every run in a store."""
    runs = JsonlRuns(os.path.join(directory, "runs"))
    names = runs.runs()
    for n, name in enumerate(names):
        _Check(runs.log(name), audit).run()
        audit.count("runs")
        if progress is not None:
            progress("runs", n + 1, len(names), 0)
    _gone(Path(directory), set(names), audit)


def _gone(store: Path, names: set[str], audit: Audit) -> None:
    """Runs that hooks told of, which they do only once it is in its log, and that have none."""
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(os.listdir(store / "hooks")):
            session = sessions.load(store, name) if name not in names else None
            if session is not None and retirement.gone(store, name) is None:
                audit.add("log", f"run {session.handle}: its log is gone", run=session.handle)


class _Check:
    """One log, read once. A tail that is torn is no damage: it is what a kill leaves, and nobody was told that it was
    written.
    """

    def __init__(self, log: JsonlLog, audit: Audit) -> None:
        self._log = log
        self._audit = audit
        self._handle = log.run
        self._seq = 0
        self._beside: dict[str, int] = {}

    def run(self) -> None:
        try:
            self._replay()
        except IllegalEvent as e:
            seq = e.details.get("seq", self._seq)
            self._damaged(seq, f"event {seq} cannot follow those before it: {e.message}")
        except LogDamaged as e:
            self._damaged(e.seq, e.message)
        except (NewerFormat, NeedsMigration) as e:
            self._audit.unchecked.append(f"run {self._handle} after event {self._seq}: {e.message}")
            self._chain()
        except NoStore:
            return  # deleted meanwhile
        except CheckpointerError as e:
            self._add("log", e.message)
        self._audit.count("events", self._seq)
        self._contents()

    def _add(self, what: str, message: str, event: int | None = None, *, harmless: bool = False) -> None:
        text = f"run {self._handle}: {message}"
        self._audit.add(what, text, run=self._handle, event=event, harmless=harmless)

    def _damaged(self, seq: int, message: str) -> None:
        self._add("log", message, seq)
        self._audit.unchecked.append(f"run {self._handle}: what comes after event {seq}")

    def _replay(self) -> None:
        """The whole log folded; where there are snapshots, each must be what it comes to there, and what follows the
        newest must lead to where the whole log leads.
        """
        snapshots = Snapshots(os.path.join(self._log.directory, "snapshots"))
        records = self._log.read()
        events = self._events(iter(records))
        state, newest = EMPTY, Folded()
        for known, total, offset in snapshots.every(self._has):
            state = fold(islice(events, known.seq - state.seq), state)
            newest = Folded(known, Position(known.seq, total, offset)) if state == known else Folded()
            self._audit.count("snapshots")
            if state != known:
                self._mislead(f"the snapshot of event {state.seq} is not what the log comes to", state.seq)
        state = fold(events, state)
        if newest.position.seq and self._tail(newest, state.seq) != state:
            seq = newest.position.seq
            self._mislead(f"the snapshot of event {seq} and what follows it lead elsewhere than the whole log", seq)
        if records.torn:
            why = (
                f"what was written after event {self._seq} is not whole ({records.torn}); the next writer sets it aside"
            )
            self._add("log", why, self._seq + 1, harmless=True)

    def _has(self, seq: int, total: str, offset: int) -> bool:
        return self._log.find(seq, total, offset) is not None

    def _tail(self, known: Folded, end: int) -> RunState:
        """The state at event `end`, from a snapshot on."""
        records = self._log.read(known.position)
        return fold((r.event for r in islice(records, end - known.position.seq)), known.state)

    def _mislead(self, message: str, seq: int) -> None:
        self._add("snapshot", message, seq)
        if self._log.directory not in self._audit.misled:
            self._audit.misled.append(self._log.directory)

    def _events(self, records: Iterator[Record]) -> Iterator[AnyEvent]:
        mark = f'"{OBJECTS}":'.encode()
        for record in records:
            if record.seq == 1 and (number := getattr(record.event, "number", None)) is not None:
                self._handle = f"r{number}"
            self._seq = record.seq
            if mark in record.line:
                self._beside.update((name, record.seq) for name, _ in record.objects().values())
            yield record.event

    def _chain(self) -> None:
        """What is not understood is still whole, or is not."""
        try:
            for record in self._log.raw():
                self._seq = record.seq
        except LogDamaged as e:
            self._damaged(e.seq, e.message)

    def _contents(self) -> None:
        for name, seq in self._beside.items():
            try:
                self._log.fetch(name)
            except CheckpointerError as e:
                self._add("object", f"event {seq}: {e.message}", seq)
            except OSError as e:
                self._add("object", f"event {seq}: contents {name[:12]} cannot be read: {e.strerror or e}", seq)
            self._audit.count("contents")
