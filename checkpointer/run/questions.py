"""What runs ask of people: the calls that wait for approval, and how earlier questions were answered.

Read from the logs, never kept: a projection beside the fold.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from checkpointer import canon
from checkpointer.errors import CheckpointerError
from checkpointer.events import ABSENT, ApprovalDecided, ApprovalRequested, ModelTurn
from checkpointer.log import JsonlRuns, Writable, catch_up, open_letter
from checkpointer.machine import moment
from checkpointer.state import Approval, RunState

_BRIEF = 8


@dataclass(frozen=True)
class Question:
    """A call that may not run before somebody decides. `run` is its run's own name, `handle` the short one.

    `answered` is a decision that lies in the inbox of the run's owner; `expired` says that its time has passed: it is
    asked again when the run goes on. `earlier`: an attempt before this one may have happened.
    """

    run: str
    handle: str
    key: str
    attempt: int
    tool: str
    arguments: Any
    risk: str
    effect: str
    text: str
    asked: datetime | None
    expires: datetime | None
    expired: bool
    answered: str = ""
    earlier: bool = False

    @property
    def name(self) -> str:
        """The beginning of its key, which names it."""
        return self.key[:_BRIEF]

    @property
    def words(self) -> str:
        """`pay(order=881, cents=4200)`, on one line."""
        said = canon.thaw(self.arguments) if self.arguments not in (None, ABSENT) else None
        if not isinstance(said, dict):
            return f"{self.tool}(...)"
        return f"{self.tool}({', '.join(f'{name}={value!r}' for name, value in said.items())})"


@dataclass
class Figures:
    """Counts over all runs read. `by_policy` are denials that no person was asked about; `waited` are the seconds from
    a question to a person's answer.
    """

    asked: int = 0
    approved: int = 0
    denied: int = 0
    by_policy: int = 0
    expired: int = 0
    waited: list[float] = field(default_factory=list)
    open: list[Question] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def latency(self) -> dict[str, float]:
        """Seconds: the median and the longest; empty where nobody answered yet."""
        if not self.waited:
            return {}
        return {"median": round(statistics.median(self.waited), 3), "longest": round(max(self.waited), 3)}


def read(directory: str) -> Figures:
    """The questions of every run in a directory of runs, oldest first. Logs that cannot be read are named."""
    runs, figures = JsonlRuns(directory), Figures()
    for run in runs.runs():
        log = runs.log(run)
        try:
            _count(figures, log)
            figures.open += pending(log, catch_up(log).state)
        except CheckpointerError as e:
            figures.problems[run] = e.message
        finally:
            log.close()
    figures.open.sort(key=lambda q: q.asked.timestamp() if q.asked else 0.0)
    return figures


def _count(figures: Figures, log: Writable) -> None:
    since: dict[tuple[str, int], datetime | None] = {}
    for record in log.read():
        event = record.event
        if isinstance(event, ApprovalRequested):
            figures.asked += 1
            since[event.key, event.attempt] = moment(event.at)
        elif isinstance(event, ApprovalDecided):
            asked, at = since.get((event.key, event.attempt)), moment(event.at)
            if event.decided_by == "policy":
                figures.by_policy += event.decision == "denied"
            elif event.decision == "expired":
                figures.expired += 1
            else:
                figures.approved += event.decision == "approved"
                figures.denied += event.decision == "denied"
                if asked is not None and at is not None:
                    figures.waited.append((at - asked).total_seconds())


def pending(log: Writable, state: RunState, now: datetime | None = None) -> list[Question]:
    """The open questions of one run, with what its log says of their calls."""
    waiting = [asked for asked in state.approvals.values() if asked.status == "pending"]
    if not waiting or state.status == "finished":
        return []
    answers = _answers(log)
    return [_question(log, state, asked, answers, now or datetime.now(UTC)) for asked in waiting]


def _answers(log: Writable) -> dict[tuple[str, int], str]:
    """The decisions that lie in the inbox."""
    found: dict[tuple[str, int], str] = {}
    for _, line in log.letters("inbox"):
        try:
            event = open_letter(line)
        except (ValueError, CheckpointerError):
            continue
        if isinstance(event, ApprovalDecided):
            found.setdefault((event.key, event.attempt), event.decision)
    return found


def _question(
    log: Writable, state: RunState, asked: Approval, answers: dict[tuple[str, int], str], now: datetime
) -> Question:
    event = log.at([asked.seq])[0].load(log.fetch)
    assert isinstance(event, ApprovalRequested)
    call = state.call(asked.key)
    tool, arguments = event.tool or "", event.arguments
    if call is not None:
        tool, arguments = call.tool, _accepted(log, call.slot)
    expires = moment(asked.expires_at)
    return Question(
        run=state.run,
        handle=f"r{state.number}" if state.number is not None else state.run,
        key=asked.key,
        attempt=asked.attempt,
        tool=tool,
        arguments=arguments,
        risk=call.risk if call is not None else "normal",
        effect=call.effect if call is not None else "external",
        text=event.question if isinstance(event.question, str) else "",
        asked=moment(asked.at),
        expires=expires,
        expired=expires is not None and expires <= now,
        answered=answers.get((asked.key, asked.attempt), ""),
        earlier=asked.key in state.doubts,
    )


def _accepted(log: Writable, slot: Any) -> Any:
    """The arguments in a slot of a model turn."""
    if not isinstance(slot, tuple):
        return ABSENT
    turn = log.at([slot[0]])[0].load(log.fetch)
    said = turn.arguments if isinstance(turn, ModelTurn) else ABSENT
    return said[slot[1]] if isinstance(said, tuple) else ABSENT


def named(found: Sequence[Question], word: str) -> list[Question]:
    """The questions whose keys begin with a word of at least four letters."""
    return [one for one in found if len(word) >= 4 and one.key.startswith(word)]
