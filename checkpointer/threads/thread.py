"""One thread as a run: what is saved is appended, what is deleted leaves the log."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from checkpointer import canon, machine
from checkpointer.errors import Busy, CheckpointerError, Fenced, NoStore
from checkpointer.events import MAIN, AnyEvent, MemoryWritten, RunStarted, WorkspaceChanged
from checkpointer.log import JsonlLog, JsonlRuns, Pen, claim, delegate
from checkpointer.log.pen import catch_up
from checkpointer.log.place import START, Position
from checkpointer.log.rewrite import redact
from checkpointer.record import Record
from checkpointer.run import roster
from checkpointer.run.files import Files
from checkpointer.threads.state import Name, State, Typed, Version, Write, as_content, typed
from checkpointer.workspace.workspace import Workspace

STATE: Final = "graph state"
WRITES: Final = "graph writes"
GONE: Final = "graph forgotten"


@dataclass
class _Held:
    """A state's place in the log, and what must be known of it without reading that. `commit`: the files then."""

    seq: int
    parent: str | None
    run: str | None
    blobs: dict[tuple[str, Version], int]
    commit: int | None
    writes: dict[tuple[str, int], tuple[int, Write | None]] = field(default_factory=dict)


class Thread:
    """One thread of `workspace`. Not to be used by two threads of a process at once.

    With `files` a checkpoint of the files is made with each state that is saved without a namespace, so that what
    changed since the one before is a step that can be undone. Raises what reading and writing a log raise.
    """

    def __init__(self, workspace: Workspace, name: str, *, files: bool) -> None:
        self.name = name
        self.run = run_of(name)
        self._workspace = workspace
        self._with_files = files
        self._runs = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory)))
        self._log: JsonlLog = self._runs.log(self.run)
        self._files: Files | None = None
        self._pen: Pen | None = None
        self._turn = 0
        self._step = 0
        self._forget_all()

    def _forget_all(self) -> None:
        self._position: Position = START
        self._held: dict[Name, _Held] = {}

    # -- reading

    def names(self) -> list[Name]:
        """Every saved state."""
        self._catch_up()
        return list(self._held)

    def run_id(self, name: Name) -> str | None:
        """The graph library's own name for the run that saved a state."""
        return self._held[name].run

    def parent(self, name: Name) -> str | None:
        return self._held[name].parent

    def files_at(self, name: Name) -> int | None:
        """The number of the checkpoint that held the files when a state was saved; None where there was none."""
        self._catch_up()
        held = self._held.get(name)
        return None if held is None else held.commit

    def load(self, name: Name) -> State | None:
        """A saved state with the blobs that were new with it."""
        self._catch_up()
        held = self._held.get(name)
        if held is None:
            return None
        said = self._content(held.seq)
        blobs = {(b[0], b[1]): typed(b[2]) for b in said["blobs"]}
        return State(name[0], name[1], said["parent"], typed(said["state"]), typed(said["meta"]), blobs, said["run"])

    def blob(self, name: Name, channel: str, version: Version) -> Typed | None:
        """A channel's value as a state has it: new with it, or with the nearest state before it."""
        key, at = (channel, version), name
        seen: set[Name] = set()
        while at in self._held and at not in seen:
            seen.add(at)
            if key in self._held[at].blobs:
                return self._blob(at, key)
            parent = self._held[at].parent
            at = (name[0], parent) if parent is not None else ("", "")
        others = [n for n, held in self._held.items() if n[0] == name[0] and key in held.blobs]
        return self._blob(max(others), key) if others else None

    def _blob(self, name: Name, key: tuple[str, Version]) -> Typed:
        held = self._held[name]
        return typed(self._content(held.seq)["blobs"][held.blobs[key]][2])

    def writes(self, name: Name) -> list[Write]:
        """What tasks wrote after a state, in the order in which the graph applies it."""
        self._catch_up()
        held = self._held.get(name)
        found = [w for _, w in held.writes.values() if w is not None] if held is not None else []
        return sorted(found, key=lambda w: (w.path, w.task, w.nth))

    def _content(self, seq: int) -> Any:
        (record,) = self._log.at([seq])
        return _loaded(record, self._log)

    def _catch_up(self) -> None:
        with contextlib.suppress(NoStore):
            records = self._log.read(self._position)
            for record in records:
                self._take(record)
            self._position = records.position

    def _take(self, record: Record) -> None:
        event = record.event
        if not isinstance(event, MemoryWritten) or record.redacted:
            return
        if event.memory not in (STATE, WRITES, GONE):
            return
        said = _loaded(record, self._log)
        if event.memory == GONE:
            for name in said["states"]:
                self._held.pop((name[0], name[1]), None)
            return
        name = (said["namespace"], said["id"])
        if event.memory == STATE:
            blobs = {(b[0], b[1]): n for n, b in enumerate(said["blobs"])}
            commit = event.commit.number if event.commit is not None else None
            before = self._held.get(name)
            self._held[name] = _Held(record.seq, said["parent"], said["run"], blobs, commit)
            if before is not None:
                self._held[name].writes = before.writes
            return
        held = self._held.get(name)
        if held is None:
            return
        for index, channel, value in said["writes"]:
            place = (said["task"], index)
            if index >= 0 and place in held.writes:
                continue  # the first report of a task's write counts; marks (below 0) are replaced
            held.writes[place] = (record.seq, Write(said["task"], said["path"], index, channel, typed(value)))

    # -- writing

    def put(self, state: State, *, begins: bool = False) -> None:
        """Save a state. `begins`: with it the graph begins to work on something new that it was given."""
        pen, files = self._ready()
        events: list[AnyEvent] = []
        if self._with_files and not state.namespace:
            events += self._look(files, begins)
        self._append(pen, *events, self._event(STATE, as_content(state), files))

    def put_writes(self, name: Name, task: str, path: str, writes: Sequence[tuple[int, str, Typed]]) -> None:
        """Save what a task wrote after a state."""
        pen, files = self._ready()
        said = {
            "namespace": name[0],
            "id": name[1],
            "task": task,
            "path": path,
            "writes": [[index, channel, list(value)] for index, channel, value in writes],
        }
        self._append(pen, self._event(WRITES, said, files))

    def forget(self, names: Collection[Name]) -> None:
        """Delete these states with their writes: from here on they are gone, and their contents leave the log."""
        self._catch_up()
        known = [name for name in names if name in self._held]
        if not known:
            return
        seqs = {self._held[name].seq for name in known}
        seqs |= {seq for name in known for seq, _ in self._held[name].writes.values()}
        pen, files = self._ready()
        self._append(pen, self._event(GONE, {"states": [list(name) for name in known]}, files))
        redact(self._log, seqs, "deleted by the graph", by="graph", world=machine.World())
        self._pen = None
        self._forget_all()

    def delete(self) -> None:
        """Delete the thread: its log is gone."""
        self.close()
        self._log.close()
        self._runs.delete(self.run)
        self._log = self._runs.log(self.run)
        self._files = None
        self._forget_all()

    def close(self) -> None:
        """Let the run go."""
        pen, self._pen = self._pen, None
        if pen is not None:
            with contextlib.suppress(CheckpointerError):
                pen.release("ended")

    # -- parts

    def _event(self, memory: str, said: Mapping[str, Any], files: Files) -> MemoryWritten:
        now = files.verified() if self._with_files else files.now()
        return MemoryWritten(memory=memory, content=said, context=MAIN, **now)

    def _append(self, pen: Pen, *events: AnyEvent) -> None:
        try:
            pen.append(*events)
        except Fenced:  # whoever owned the run has let it go, or died, and another owns it now
            self._pen = None
            self._ready()[0].append(*events)

    def _look(self, files: Files, begins: bool) -> list[AnyEvent]:
        """A checkpoint of the files: a step of the turn that goes on, or, where one begins, what others did before."""
        if begins or not self._turn:
            events: list[AnyEvent] = list(files.before())
            with contextlib.suppress(CheckpointerError):  # then the turn before goes on
                self._turn, self._step = files.open_turn(), 0
            return events
        before = files.newest
        self._step += 1
        events = list(files.during((f"t{self._turn}.{self._step}",)))
        if files.trouble is not None or files.newest == before:
            self._step -= 1
            return events
        changed = WorkspaceChanged(
            cause="step",
            by="agent",
            checkpoint=files.newest,
            before=before or None,
            turn=self._turn,
            step=self._step,
            **files.verified(),
        )
        return [*events, changed]

    def _ready(self) -> tuple[Pen, Files]:
        """The pen, by a claim or under whoever owns the run now."""
        if self._pen is not None and self._files is not None:
            return self._pen, self._files
        try:
            known = catch_up(self._log)
            number = known.state.number
        except NoStore:
            known, number = None, None
        files = Files(self._workspace, self.run, f"r{number}" if number is not None else "")
        if number is None:
            files.base()
            number = files.begin_run()
            files.handle = f"r{number}"
        elif known is not None:
            files.take_up(known.state)
        begin = RunStarted(
            run=self.run,
            number=number,
            owner=machine.holder(),
            agent="langgraph",
            session=canon.thaw(canon.freeze(self.name)),
            **files.verified(),
        )
        try:
            self._pen = claim(self._log, begin, shared=True)
        except Busy:
            now = catch_up(self._log)
            self._pen = delegate(self._log, now.state.epoch, known=now)
        self._files = files
        return self._pen, files


def _loaded(record: Record, log: JsonlLog) -> Any:
    event = record.load(log.fetch)
    assert isinstance(event, MemoryWritten)
    return event.content


PREFIX: Final = "langgraph-"


def run_of(thread: str) -> str:
    """The name of a thread's run."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in thread)[:40]
    return f"{PREFIX}{plain}-{sha256(thread.encode('utf-8', 'backslashreplace')).hexdigest()[:12]}"


def threads(workspace: Workspace) -> Iterator[str]:
    """The names of all threads that were saved in a workspace."""
    runs = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory)))
    for run in runs.runs():
        if run.startswith(PREFIX):
            log = runs.log(run)
            first = next(iter(log.read()), None)
            log.close()
            if first is not None and isinstance(first.event, RunStarted) and first.event.session is not None:
                yield first.event.session
