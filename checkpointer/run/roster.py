"""The runs of a workspace, read from their logs: which turns they hold, what those were asked, which are open.

Nothing here writes or locks. A log that is missing or damaged is passed over: what it would have said is then unknown,
and the files are still undone by what the checkpoints say.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from checkpointer import lease, machine
from checkpointer.errors import CheckpointerError
from checkpointer.events import (
    AnyEvent,
    ModelTurn,
    RunFinished,
    RunReleased,
    RunResumed,
    RunStarted,
    ToolCallStarted,
    UserMessage,
    WorkspaceChanged,
)
from checkpointer.line import peek
from checkpointer.log import JsonlLog, JsonlRuns
from checkpointer.record import Record
from checkpointer.run import pending
from checkpointer.run import session as sessions
from checkpointer.workspace.undoing.timeline import OpenTurn

SAYING = ("command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url", "prompt", "description")
"""Names of arguments that say most of what a call is about, the first that is there."""
_TAIL = 1 << 16
_LAST_TYPES = (b'"type":"run_finished"', b'"type":"run_released"')


def runs_directory(store: Path) -> Path:
    """Where the runs of a store lie."""
    return store / "runs"


@dataclass
class TurnInfo:
    """One turn as its log tells it. `calls` are the steps with the tool and its arguments, by handle (`t3.2`)."""

    handle: str
    run: str
    agent: str
    prompt: str = ""
    started: datetime | None = None
    last: datetime | None = None
    steps: int = 0
    since: int | None = None
    calls: dict[str, tuple[str, Any]] = field(default_factory=dict)


@dataclass
class RunInfo:
    """One run: its handle, how it stands, its turns by number. `alive` is what is known of its owner's process."""

    run: str
    handle: str
    agent: str = ""
    command: tuple[str, ...] = ()
    status: str = "running"
    exit: int | None = None
    started: datetime | None = None
    last: datetime | None = None
    alive: lease.Liveness = "unknown"
    turns: dict[int, TurnInfo] = field(default_factory=dict)
    open_by_context: dict[str | None, int] = field(default_factory=dict)
    open_steps: dict[str, tuple[int, int | None, int]] = field(default_factory=dict)
    checkpoint: int | None = None
    mode: str = "observed"
    events: int = 0
    problem: str = ""

    @property
    def ended(self) -> bool:
        return self.status != "running"

    @property
    def open_turn(self) -> int | None:
        """The newest turn that is open; the conversations of a run may have one each."""
        return max(self.open_by_context.values(), default=None)


def moment(text: str) -> datetime | None:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(text)
    return None


def names(store: Path) -> list[str]:
    """Every run of the store, by its own name."""
    return JsonlRuns(os.fspath(runs_directory(store))).runs()


def has_ended(store: Path, run: str) -> bool:
    """Does the log's last line end or release the run? A look at the file's end; False where that cannot be told."""
    with contextlib.suppress(OSError), open(runs_directory(store) / run / "events.jsonl", "rb") as f:
        size = f.seek(0, os.SEEK_END)
        f.seek(max(0, size - _TAIL))
        line = f.read().removesuffix(b"\n").rpartition(b"\n")[2]
        return any(kind in line for kind in _LAST_TYPES) and peek(line) is not None
    return False


def read(store: Path, run: str) -> RunInfo:
    """All that is asked about one run. Never raises for a damaged log: `problem` says so, and the rest is kept."""
    log = JsonlLog(os.fspath(runs_directory(store) / run))
    info = RunInfo(run, run)
    owner = None
    try:
        for record in log.read():
            owner = _take(info, log, record) or owner
        for event in pending.waiting(store, run):
            _take(info, log, _Waiting(event))
    except CheckpointerError as e:
        info.problem = e.message
    finally:
        log.close()
    if owner is not None and not info.ended:
        info.alive = lease.liveness(owner, machine.holder(), machine.started(owner.pid))
    return info


class _Waiting:
    """An event that no log has yet, read like a record."""

    def __init__(self, event: AnyEvent) -> None:
        self.event = event
        self.seq = 0

    def load(self, fetch: object = None) -> AnyEvent:
        return self.event


def _take(info: RunInfo, log: JsonlLog, record: Record | _Waiting) -> Any:
    """One more event. Gives the owner, where the event names a new one."""
    event = record.event
    info.events = record.seq or info.events
    info.last = moment(event.at) or info.last
    if event.commit is not None and event.commit.number is not None:
        info.checkpoint = event.commit.number
    if isinstance(event, RunStarted | RunResumed):
        info.status = "running"
        info.agent = event.agent or info.agent
        loaded = record.load(log.fetch)
        if isinstance(loaded, RunStarted):
            info.started, info.mode = moment(event.at), loaded.mode
            info.handle = f"r{loaded.number}" if loaded.number is not None else info.run
            if isinstance(loaded.command, tuple):
                info.command = tuple(str(word) for word in loaded.command)
        return event.owner
    if isinstance(event, RunReleased):
        info.status, info.exit = event.how, event.status
        info.open_by_context.clear()
    elif isinstance(event, RunFinished):
        info.status, info.exit = event.outcome, event.status
        info.open_by_context.clear()
    elif isinstance(event, ModelTurn) and event.stop is not None and info.mode == "observed":
        info.open_by_context.pop(event.context, None)  # its agent said that the turn is over
    elif isinstance(event, UserMessage) and event.turn is not None:
        info.open_by_context[event.context] = event.turn
        turn = _turn(info, event.turn, event.at)
        turn.since = info.checkpoint
        turn.prompt = _words(getattr(record.load(log.fetch), "content", None)) or turn.prompt
    elif isinstance(event, WorkspaceChanged) and event.turn is not None:
        turn = _turn(info, event.turn, event.at)
        turn.steps = max(turn.steps, event.step or 0)
        turn.since = event.checkpoint
    elif isinstance(event, ToolCallStarted):
        _call_started(info, log, record, event)
    elif event.type in ("tool_call_completed", "tool_call_reconciled", "tool_call_uncertain"):
        info.open_steps.pop(str(getattr(event, "key", "")), None)
    if info.open_turn is not None and info.open_turn in info.turns:
        info.turns[info.open_turn].last = moment(event.at)
    return None


def _turn(info: RunInfo, number: int, at: str) -> TurnInfo:
    turn = info.turns.get(number)
    if turn is None:
        turn = info.turns[number] = TurnInfo(f"t{number}", info.handle, info.agent, started=moment(at))
    turn.last = moment(at)
    return turn


def _call_started(info: RunInfo, log: JsonlLog, record: Record | _Waiting, event: ToolCallStarted) -> None:
    turn_number = getattr(event, "turn", None) or info.open_turn
    step = getattr(event, "step", None)
    if turn_number is None:
        return
    turn = _turn(info, turn_number, event.at)
    if step is not None:
        turn.steps = max(turn.steps, step)
        loaded = record.load(log.fetch)
        turn.calls[f"t{turn_number}.{step}"] = (event.tool, _about(loaded))
    number = event.commit.number if event.commit is not None else None
    info.open_steps[event.key] = (turn_number, step, number or info.checkpoint or 0)


def _about(started: Any) -> Any:
    """What a call was given; its title, where that says more to a person."""
    given, title = getattr(started, "arguments", None), getattr(started, "title", None)
    known = isinstance(given, Mapping) and any(isinstance(given.get(name), str) for name in SAYING)
    return title if isinstance(title, str) and title and not known else given


def _words(content: Any) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _words(content.get("text", ""))
    if isinstance(content, tuple | list):
        return " ".join(filter(None, map(_words, content)))
    return ""


def running(store: Path, but: Collection[str] = ()) -> Iterator[RunInfo]:
    """The runs that nobody ended: their owners live, or died. Those whose own names are in `but` are passed over."""
    for run in names(store):
        if run not in but and not has_ended(store, run):
            info = read(store, run)
            if not info.ended and info.events:
                yield info


def open_turns(store: Path, but: Collection[str] = ()) -> list[OpenTurn]:
    """The turns that have not ended, oldest first. A driven run's count only while a call of theirs is open."""
    found = []
    for info in running(store, but):
        alive = info.alive != "dead"
        if info.mode == "driven":
            for turn, step, began in info.open_steps.values():
                handle = f"t{turn}" if step is None else f"t{turn}.{step}"
                found.append(OpenTurn(info.handle, turn, (handle,), began, alive, executing=alive))
        else:
            found += _open_turns(store, info, alive)
    return sorted(found, key=lambda t: (t.since, t.turn))


def _open(info: RunInfo, number: int, alive: bool) -> OpenTurn:
    turn = info.turns[number]
    since = turn.since if turn.since is not None else info.checkpoint
    return OpenTurn(info.handle, number, (f"t{number}.{turn.steps + 1}",), since or 1, alive)


def _open_turns(store: Path, info: RunInfo, alive: bool) -> Iterator[OpenTurn]:
    """The open turns of a run that is only watched; where hooks tell of it, with the calls that are open."""
    session = sessions.load(store, info.run)
    for turn in info.open_by_context.values():
        if session is not None and session.turn == turn:
            yield OpenTurn(info.handle, turn, session.owners(closing=True), session.known or 1, alive)
        else:
            yield _open(info, turn, alive)


class Others(NamedTuple):
    """Whose, beside some runs, changes made now may be."""

    runs: tuple[str, ...]
    steps: tuple[str, ...]


def others(store: Path, *but: str) -> Others:
    """Runs and steps of agents that live, but for the runs whose own names are `but`."""
    found = [turn for turn in open_turns(store, but) if turn.alive]
    return Others(
        tuple(dict.fromkeys(turn.run for turn in found)), tuple(step for turn in found for step in turn.steps)
    )


def turns(store: Path) -> dict[str, TurnInfo]:
    """Every turn of every run, by handle."""
    return {turn.handle: turn for run in names(store) for turn in read(store, run).turns.values()}
