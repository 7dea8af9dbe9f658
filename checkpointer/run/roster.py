"""The runs of a workspace, read from their logs: which turns they hold, what those were asked, which are open.

Nothing here writes or locks. A log that is missing or damaged is passed over: what it would have said is then unknown,
and the files are still undone by what the checkpoints say.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from checkpointer import canon
from checkpointer.errors import CheckpointerError
from checkpointer.log import glance
from checkpointer.log.beside import Beside
from checkpointer.workspace.undoing.timeline import OpenTurn

if TYPE_CHECKING:
    from checkpointer.lease import Liveness

SAYING = ("command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url", "prompt", "description")
"""Names of arguments that say most of what a call is about, the first that is there."""
NO_END = "no end told"
"""How a call ended whose agent went on without a word of its end: it may have been interrupted, or denied."""
Facts = Mapping[str, Any]


def runs_directory(store: Path) -> Path:
    """Where the runs of a store lie."""
    return store / "runs"


@dataclass(eq=False, repr=False)
class TurnInfo:
    """One turn as its log tells it. `calls` are the steps with the tool and its arguments, by handle (`t3.2`),
    `ends` says of those that did not end well how: `failed`, `uncertain`, `no end told`. `session` is the agent's name
    for the conversation, where there is one.
    """

    handle: str
    run: str
    agent: str
    prompt: str = ""
    started: datetime | None = None
    last: datetime | None = None
    steps: int = 0
    since: int | None = None
    calls: dict[str, tuple[str, Any]] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    answer: str = ""
    session: str = ""


@dataclass(eq=False, repr=False)
class RunInfo:
    """One run: its handle, how it stands, its turns by number. `alive` is what is known of its owner's process.

    `owner` are the facts of the newest owner.
    """

    run: str
    handle: str
    agent: str = ""
    command: tuple[str, ...] = ()
    status: str = "running"
    exit: int | None = None
    started: datetime | None = None
    last: datetime | None = None
    alive: Liveness = "unknown"
    owner: Facts | None = None
    turns: dict[int, TurnInfo] = field(default_factory=dict)
    open_by_context: dict[str | None, int] = field(default_factory=dict)
    open_steps: dict[str, tuple[int, int | None, int]] = field(default_factory=dict)
    closed_steps: dict[str, tuple[int, int | None, int]] = field(default_factory=dict)
    checkpoint: int | None = None
    session: str = ""
    mode: str = "observed"
    events: int = 0
    dismissed: bool = False
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
    return glance.runs(os.fspath(runs_directory(store)))


def read(store: Path, run: str) -> RunInfo:
    """All that is asked about one run. Never raises for a damaged log: `problem` says so, and the rest is kept."""
    directory = os.fspath(runs_directory(store) / run)
    fetch = Beside(directory).fetch
    info = RunInfo(run, run)
    try:
        for line in glance.look(directory):
            info.events = line.seq
            owner = _take(info, line.facts, lambda line=line: line.contents(fetch))  # type: ignore[misc]
            info.owner = owner or info.owner
        for facts, contents in _waiting(store, run):
            _take(info, facts, lambda contents=contents: contents)  # type: ignore[misc]
    except CheckpointerError as e:
        info.problem = e.message
    except (KeyError, TypeError, ValueError) as e:
        info.problem = f"event {info.events} was written, but is not what it says: {e}"
    if info.owner is not None and not info.ended:
        info.alive = _liveness(info.owner)
    return info


def _liveness(owner: Facts) -> Liveness:
    from checkpointer import lease, machine
    from checkpointer.events import Holder

    holder = Holder(**owner)
    return lease.liveness(holder, machine.holder(), machine.started(holder.pid))


_TOLD_AS = {
    "turn": "user_message",
    "start": "tool_call_started",
    "end": "tool_call_completed",
    "lost": "tool_call_reconciled",
    "said": "model_turn",
    "changed": "workspace_changed",
    "ended": "run_released",
}
"""What hooks told and no log has yet, by the event that it will be: see `run.pending`."""


def _waiting(store: Path, run: str) -> Iterator[tuple[Facts, Facts]]:
    """Facts and contents of the events that wait in the journal of a run's hooks."""
    from checkpointer.run import session as sessions

    told, _ = sessions.journal(sessions.directory(store, run))
    for fact in told:
        if fact["f"] in _TOLD_AS and "at" in fact:
            commit = fact.get("commit")
            facts = {**fact, "type": _TOLD_AS[fact["f"]], "context": fact.get("ctx", "main"), "turn": fact.get("turn")}
            if fact["f"] == "turn":
                facts["turn"] = fact.get("n")
            elif fact["f"] == "lost":
                facts["verdict"] = "unreported"
            facts["commit"] = {"number": commit[1]} if commit else None
            said = {"content": fact.get("text"), "arguments": fact.get("args")}
            with contextlib.suppress(canon.NotJson):
                yield facts, {name: canon.freeze(value) for name, value in said.items()}


def _take(info: RunInfo, facts: Facts, contents: Callable[[], Facts]) -> Facts | None:
    """One more event. Gives the owner, where the event names a new one."""
    kind, at, turn = facts["type"], facts["at"], facts.get("turn")
    info.last = moment(at) or info.last
    commit = facts.get("commit")
    if commit and commit.get("number") is not None:
        info.checkpoint = commit["number"]
    if kind in ("run_started", "run_resumed"):
        _began(info, facts, contents)
        owner: Facts = facts["owner"]
        return owner
    if kind in ("run_released", "run_finished"):
        info.status = facts["how"] if kind == "run_released" else facts["outcome"]
        info.exit = facts.get("status")
        info.dismissed = bool(facts.get("dismissed"))
        info.open_by_context.clear()
    elif kind == "model_turn" and facts.get("stop") is not None and info.mode == "observed":
        closed = info.open_by_context.pop(facts.get("context"), None)  # its agent said that the turn is over
        if closed in info.turns and closed is not None:
            info.turns[closed].answer = _words(contents().get("content"))
            info.turns[closed].last = moment(at)
    elif kind == "user_message" and turn is not None:
        info.open_by_context[facts.get("context")] = turn
        info.session, info.agent = facts.get("session") or info.session, facts.get("agent") or info.agent
        named = _turn(info, turn, at)
        named.since = info.checkpoint
        named.prompt = _words(contents().get("content")) or named.prompt
    elif kind == "workspace_changed" and turn is not None:
        named = _turn(info, turn, at)
        named.steps = max(named.steps, facts.get("step") or 0)
        named.since = facts["checkpoint"]
    elif kind == "tool_call_started":
        _call_started(info, facts, contents)
    elif kind in ("tool_call_completed", "tool_call_reconciled", "tool_call_uncertain"):
        _call_ended(info, facts)
    if info.open_turn is not None and info.open_turn in info.turns:
        info.turns[info.open_turn].last = moment(at)
    return None


def _began(info: RunInfo, facts: Facts, contents: Callable[[], Facts]) -> None:
    info.status, info.dismissed = "running", False
    info.agent = facts.get("agent") or info.agent
    info.session = facts.get("session") or info.session
    if facts["type"] == "run_started":
        info.started, info.mode = moment(facts["at"]), facts.get("mode", "observed")
        number = facts.get("number")
        info.handle = f"r{number}" if number is not None else info.run
        command = contents().get("command")
        if isinstance(command, tuple):
            info.command = tuple(str(word) for word in command)


def _turn(info: RunInfo, number: int, at: str) -> TurnInfo:
    turn = info.turns.get(number)
    if turn is None:
        turn = info.turns[number] = TurnInfo(
            f"t{number}", info.handle, info.agent, started=moment(at), session=info.session
        )
    turn.last = moment(at)
    return turn


def _call_started(info: RunInfo, facts: Facts, contents: Callable[[], Facts]) -> None:
    number = facts.get("turn") or info.open_turn
    step = facts.get("step")
    if number is None:
        return
    turn = _turn(info, number, facts["at"])
    if step is not None:
        turn.steps = max(turn.steps, step)
        turn.calls[f"t{number}.{step}"] = (facts["tool"], _about(contents()))
    commit = facts.get("commit") or {}
    info.open_steps[facts["key"]] = (number, step, commit.get("number") or info.checkpoint or 0)


def _call_ended(info: RunInfo, facts: Facts) -> None:
    key = facts.get("key", "")
    began = info.open_steps.pop(key, None) or info.closed_steps.get(key)
    if began is None or began[1] is None or began[0] not in info.turns:
        return
    info.closed_steps[key] = began
    ends, handle = info.turns[began[0]].ends, f"t{began[0]}.{began[1]}"
    ends.pop(handle, None)
    if facts["type"] == "tool_call_uncertain" or facts.get("verdict") in ("escalate", "wait", "tell"):
        ends[handle] = "uncertain"
    elif facts.get("failed"):
        ends[handle] = "failed"
    elif facts.get("verdict") == "unreported":
        ends[handle] = NO_END


def _about(said: Facts) -> Any:
    """What a call was given; its title, where that says more to a person."""
    given, title = said.get("arguments"), said.get("title")
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
        if run not in but and not glance.has_ended(os.fspath(runs_directory(store) / run)):
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
    from checkpointer.run import session as sessions

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
