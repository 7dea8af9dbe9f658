"""The calls that were cut off get their verdicts before anything else happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkpointer.errors import NeedsPerson
from checkpointer.events import ToolCallReconciled
from checkpointer.run import telemetry
from checkpointer.run.desk import Desk
from checkpointer.state import Call

if TYPE_CHECKING:
    from checkpointer.recovery import Settled


_SHOWN = 8


def settle(desk: Desk, key: str | None = None) -> list[Settled]:
    """Give verdicts on every call that was cut off, or on one. Raises `NeedsPerson` where a person must decide.

    Where the model may be told (`desk.tells`), such a call is no reason to stop.
    """
    if not desk.state.unsettled:
        return []
    from checkpointer.recovery import Scene  # a run that ended well needs none of it
    from checkpointer.recovery import settle as judge

    desk.pen.flush()  # evidence is read from the log
    scene = Scene(desk.pen, desk.files, desk.tools, desk.choice, desk.append)
    with telemetry.span("ckpt.settle", {telemetry.RUN: desk.state.run}) as mark:
        said = judge(scene, None if key is None else (key,))
        telemetry.settled(mark, said)
    left = [c for c in (*desk.state.open, *desk.state.uncertain) if key in (None, c.key)]
    if left and not desk.tells:
        raise _open_questions(desk, left, said)
    for call in left:
        _tell(desk, call)
    return said


def put_back(one: Settled) -> str:
    """For people: which files are as at the start of a call again, and where what stood there is kept; else empty."""
    if not one.put_back:
        return ""
    more = f" and {len(one.differing) - _SHOWN} more" if len(one.differing) > _SHOWN else ""
    return (
        f"{one.tool} was cut off and runs again: {', '.join(one.differing[:_SHOWN])}{more} "
        f"as at its start; what stood there is in checkpoint {one.put_back}"
    )


def _tell(desk: Desk, call: Call) -> None:
    doubt = desk.state.doubts.get(call.key)
    if call.status != "uncertain" or (doubt is not None and doubt.told):
        return
    desk.append(
        ToolCallReconciled(
            key=call.key,
            attempt=call.attempt,
            verdict="tell",
            rule="the model may be told",
            context=call.context,
            **desk.files.now(),
        )
    )


def _open_questions(desk: Desk, left: Sequence[Call], said: Sequence[Settled]) -> NeedsPerson:
    """The error that names each call whose outcome is open, and why no rule settles it."""
    rules = {one.key: one for one in said}
    words = []
    for call in left:
        doubt = desk.state.doubts.get(call.key)
        handle = f"u{doubt.number} " if doubt is not None and doubt.number is not None else ""
        rule = rules.get(call.key)
        words.append(f"{handle}{call.tool}" + (f" ({rule.rule})" if rule is not None else ""))
    files = sorted({path for one in said if one.verdict != "retry" for path in one.differing})
    ways = ("ckpt resume --keep", "ckpt resume --restore", 'open_run(..., files="restore")') if files else ()
    return NeedsPerson(
        f"nobody knows whether this happened: {', '.join(words)}",
        kept="all that is known is in the run's log" + ("; the files stay as they are" if files else ""),
        next=(*ways, "ckpt uncertain", "ckpt settle"),
        keys=[call.key for call in left],
        paths=files,
    )
