"""What stands in the way of an undo before any file is looked at: open steps, dead agents, crowds, branches, gaps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from checkpointer.errors import Busy, Damaged, NeedsPerson
from checkpointer.workspace.undoing.timeline import OpenTurn, Timeline
from checkpointer.workspace.undoing.units import Change, Step

Mode = Literal["plain", "skip", "force"]


def check(
    timeline: Timeline,
    steps: Sequence[Step],
    changes: Sequence[Change],
    mode: Mode,
    open_turns: Collection[OpenTurn],
    head: str | None,
    lost: Collection[int],
    command: str,
) -> tuple[str, ...]:
    notes: list[str] = []
    handles = {str(handle) for step in steps for handle in step.handles}
    for turn in open_turns:
        mine = sorted(handles & set(turn.steps))
        if not mine:
            if turn.alive and any(handle.turn == turn.turn for step in steps for handle in step.handles):
                notes.append(f"t{turn.turn} has not ended: what it does from here on stays")
            if not turn.alive and any(h.turn == turn.turn for step in steps for h in step.handles):
                if not _went_on(timeline, turn):
                    continue
                notes.append(
                    f"{turn.run} was cut off in t{turn.turn}: what it did after checkpoint {turn.since} cannot be told "
                    f"from your own edits, and is not taken back (see: ckpt diff {turn.since})"
                )
            continue
        what = ", ".join(mine)
        if turn.executing:
            raise Busy(f"{what} is being executed now by {turn.run}", kept="nothing was written", next=["ckpt status"])
        if not turn.alive:
            _need(
                mode,
                f"{turn.run} ended in the middle of {what}: what changed after it may be yours",
                [f"ckpt diff {turn.since} now", command],
            )
        notes.append(f"{what} has not ended: everything up to the files as they are now counts as its work")
    check_lost(min(change.segment.before for change in changes), lost, mode, command)
    for step in steps:
        if step.crowded:
            runs = " and ".join(sorted(step.crowded))
            _need(
                mode,
                f"{runs} worked at the same time in {step.handle}: nobody can tell which of them wrote what",
                [f"ckpt diff {step.segments[0].before} {step.last}", command],
            )
    if not all(step.exact for step in steps):
        loose = ", ".join(step.handle for step in steps if not step.exact)
        notes.append(f"{loose} is known only by its ends: what anybody else wrote meanwhile counts as its work")
    heads = [(c.handle, timeline.head_after(c)) for c in steps]
    return (*notes, *check_head(heads, head, mode, command))


def _went_on(timeline: Timeline, turn: OpenTurn) -> bool:
    """Did anything change after the last that is known of a turn that was cut off?"""
    newest = timeline.checkpoints[-1].number
    known = any(c.number == turn.since for c in timeline.checkpoints)
    return not known or bool(timeline.diff(turn.since, newest))


def _need(mode: Mode, message: str, ways: Sequence[str]) -> None:
    if mode != "force":
        raise NeedsPerson(message, kept="nothing was written", next=ways)


def check_head(whose: Iterable[tuple[str, str | None]], head: str | None, mode: Mode, command: str) -> tuple[str, ...]:
    for what, then in whose:
        if head is not None and then is not None and head != then:
            _need(
                mode,
                f"{what} was on the branch {then}, and the project is on {head} now",
                [f"git switch {then}", command],
            )
    return ()


def check_lost(oldest: int, lost: Collection[int], mode: Mode, command: str) -> None:
    gaps = sorted(number for number in lost if number > oldest)
    if gaps and mode != "force":
        numbers = ", ".join(str(number) for number in gaps)
        raise Damaged(
            f"checkpoint {numbers} could not be read, so what happened around it is not known",
            kept="nothing was written",
            next=[f"ckpt restore {gaps[0] - 1}", command],
        )
