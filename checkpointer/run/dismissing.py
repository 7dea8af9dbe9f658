"""A person does not mean to go on with a run that was cut off: its log says so, and it is listed no more.

Nothing is settled by that. A call outside that was under way becomes uncertain, and stays in the queue until a receiver
or a person settles it. No file is written; of a watched run that died the files are captured first, as at any end of
one, so that what changes from here on is nobody's of it.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Literal, NamedTuple

from checkpointer.errors import CheckpointerError, NothingToDo
from checkpointer.events import AnyEvent, Commit, ToolCallUncertain, WorkspaceChanged
from checkpointer.log import JsonlLog, claim
from checkpointer.recovery import queue, word
from checkpointer.replay import replay
from checkpointer.run import inheriting, keeper, leftoff, pending, resuming, roster
from checkpointer.run.files import Files, commit_of
from checkpointer.state import RunState
from checkpointer.workspace.workspace import Workspace


class Dismissed(NamedTuple):
    """`questions` are the names (`u1`) of calls whose outcome nobody knows, all the same."""

    run: str
    handle: str
    questions: list[str]


def dismiss(workspace: Workspace, log: JsonlLog) -> Dismissed:
    """Say so of one run. Raises `NothingToDo` for one that came to its end or is dismissed already, `Busy` while its
    owner or its command lives, what a claim and a checkpoint raise.
    """
    pending.settle(workspace.directory, log.run)
    info = roster.read(workspace.directory, log.run)
    known = replay(log, keeper.of(log))
    state = known.state
    over = state.status == "finished" or (state.status == "released" and state.released not in leftoff.LEFT_OFF)
    if over or info.dismissed:
        why = "is dismissed already" if info.dismissed else "came to its end"
        raise NothingToDo(f"{info.handle} {why}: it waits for nobody", kept="nothing was written", next=("ckpt runs",))
    inheriting.refuse_living(log, state, f"{info.handle} cannot be dismissed")
    resuming.refuse_working(workspace, state, info.handle)
    files = Files(workspace, state.run, info.handle)
    seen = _seen(workspace, state)
    observed = state.mode == "observed"
    pen = claim(log, word.as_before(log, state), shared=observed, known=known)
    how: Literal["paused", "interrupted"] = "paused" if state.released == "paused" else "interrupted"
    try:
        pen.collect()
        pen.append(*seen, *_questions(pen.state, files, seen))
        left = queue.items(log, pen.state)
        pen.release(how, dismissed=True)
    except BaseException:
        word.let_go(pen, how)
        raise
    return Dismissed(log.run, info.handle, [item.name for item in left])


def _seen(workspace: Workspace, state: RunState) -> list[AnyEvent]:
    """The files as a watched run that died left them, or anybody since."""
    if state.mode != "observed" or state.status != "owned" or not os.path.isdir(workspace.root):
        return []
    saved = workspace.save(kind="crash").checkpoint
    commit = commit_of(saved, captured=True)
    return [WorkspaceChanged(cause="edit", by="unknown", checkpoint=saved.number, commit=commit)]


def _questions(state: RunState, files: Files, seen: list[AnyEvent]) -> list[AnyEvent]:
    """The calls outside that were under way: nobody knows what became of them."""
    place: dict[str, Any] = {}
    commit = seen[-1].commit if seen else state.commit
    if commit is None:
        place["unprotected"] = state.unprotected or "no checkpoint was made yet"
    else:
        place["commit"] = Commit(kind=commit.kind, id=commit.id, number=commit.number, captured=False)
    found: list[AnyEvent] = []
    for call in state.open:
        if call.effect == "external":
            number = None
            with contextlib.suppress(CheckpointerError):  # without one it is known by its key
                number = files.open_question()
            found.append(
                ToolCallUncertain(
                    key=call.key, attempt=call.attempt, reason="crash", number=number, context=call.context, **place
                )
            )
    return found
