"""A person's word on a call whose outcome is unknown: as events, appended by the run's owner or in its place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

from checkpointer import lease, machine
from checkpointer.errors import CheckpointerError, Usage
from checkpointer.events import (
    ABSENT,
    AnyEvent,
    Commit,
    RunResumed,
    RunStarted,
    ToolCallCompleted,
    ToolCallReconciled,
)
from checkpointer.log import Pen, Writable, catch_up, claim, letter
from checkpointer.state import Call, RunState

Word = Literal["happened", "did not happen", "retry anyway", "give up"]

_CLAIMED = (
    "tools", "prompt", "agent", "session", "ttl_ms", "durability", "command", "directory", "environment",
)  # fmt: skip
SAID = "a person said: "
NOT_HAPPENED = "A person found that this call did not happen."


def events(state: RunState, call: Call, word: Word, *, result: Any = None, why: str = "") -> list[AnyEvent]:
    """What a word comes to. Raises `Usage` for a call that nobody could run again."""
    if word == "retry anyway" and call.status == "accepted":
        raise Usage(f"{call.tool} is about to run again", kept="nothing was written", next=("ckpt resume",))
    if word == "retry anyway" and state.mode == "observed":
        raise Usage(
            f"{call.tool} was run by an agent that is only watched: it cannot be run again from here",
            kept="nothing was written",
            next=("ckpt settle U --happened", "ckpt settle U --did-not-happen"),
        )
    commit = state.commit
    place: dict[str, Any] = {"key": call.key, "attempt": call.attempt, "context": call.context}
    if commit is None:
        place["unprotected"] = state.unprotected or "no checkpoint was made yet"
    else:
        place["commit"] = Commit(kind=commit.kind, id=commit.id, number=commit.number, captured=False)
    evidence = {"word": word, "why": why or None}
    verdicts: dict[Word, Any] = {"retry anyway": "retry", "give up": "abandon"}
    said = ToolCallReconciled(
        verdict=verdicts.get(word, "complete"), rule=f"{SAID}{word}", by="person", evidence=evidence, **place
    )
    if word == "happened":
        return [said, ToolCallCompleted(source="person", result=result, **place)]
    if word == "did not happen":
        return [said, ToolCallCompleted(source="person", effect="none", failed=True, result=NOT_HAPPENED, **place)]
    return [said]


def give(log: Writable, key: str, word: Word, *, result: Any = None, why: str = "") -> Literal["appended", "posted"]:
    """Put a word into the log of a run nobody owns, or leave it in the inbox for who does.

    Raises `Usage` where nothing is in question about the call, `Busy` where somebody came in between, what appending
    raises.
    """
    return deliver(log, lambda state: events(state, _open(state, key), word, result=result, why=why))


def deliver(log: Writable, choose: Callable[[RunState], Sequence[AnyEvent]]) -> Literal["appended", "posted"]:
    """Put what `choose` makes of a run's state into its log if nobody owns it, else into the inbox of who does.

    Raises what `choose` raises, `Busy` where somebody came in between, what appending raises.
    """
    state = catch_up(log).state
    chosen = choose(state)
    if state.status == "owned" and lives(state):
        world = machine.World()
        for event in chosen:
            event = event.model_copy(update={"id": event.id or world.event_id()})
            log.post("inbox", event.id, letter(event, world))
        return "posted"
    pen = claim(log, as_before(log, state))
    try:
        pen.collect()
        pen.append(*choose(pen.state))
    finally:
        let_go(pen)
    return "appended"


def _open(state: RunState, key: str) -> Call:
    call = state.live.get(key)
    if call is None or call.key not in state.doubts:
        raise Usage("nothing is in question about this call any more", kept="nothing was written")
    return call


def lives(state: RunState) -> bool:
    """May the owner still append what lies in its inbox?"""
    assert state.owner is not None
    world = machine.World()
    alive = lease.liveness(state.owner, world.here(), world.started(state.owner.pid))
    return alive != "dead"


def as_before(log: Writable, state: RunState) -> RunStarted:
    """A claim by this process that changes nothing else: command, tools and environment stay those of the newest owner
    that worked, so that a resume finds them.
    """
    newest = newest_claim(log, state)
    if newest is None:
        return RunStarted(run=state.run, owner=machine.holder(), tools=state.tools, prompt=state.prompt)
    kept = {name: getattr(newest, name) for name in _CLAIMED}
    return RunStarted(run=state.run, owner=machine.holder(), **{n: v for n, v in kept.items() if v is not ABSENT})


def let_go(pen: Pen, how: Literal["paused", "interrupted"] = "paused") -> None:
    """Release a run that was claimed for a moment; one that is lost or over is let go already."""
    with contextlib.suppress(CheckpointerError):
        pen.release(how)


def newest_claim(log: Writable, state: RunState) -> RunStarted | RunResumed | None:
    """The newest claim with its contents: what command was started where, under which names of variables."""
    seq = state.resumptions[-1].seq if state.resumptions else 1
    try:
        event = log.at([seq])[0].load(log.fetch)
    except (CheckpointerError, KeyError):
        return None
    return event if isinstance(event, RunStarted | RunResumed) else None
