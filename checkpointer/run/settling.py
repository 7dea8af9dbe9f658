"""The calls that were cut off get their verdicts before anything else happens."""

from __future__ import annotations

from typing import Literal

from checkpointer.errors import NeedsPerson
from checkpointer.events import ToolCallReconciled, ToolCallUncertain
from checkpointer.run.desk import Desk
from checkpointer.state import Call


def settle(desk: Desk, key: str | None = None) -> None:
    """Give verdicts on every call that was cut off, or on one. Raises `NeedsPerson` where a person must decide.

    Where the model may be told (`desk.tells`), such a call is no reason to stop.
    """
    found = [c for c in (*desk.state.open, *desk.state.uncertain) if key in (None, c.key)]
    for call in found:
        _one(desk, call)
    left = [c for c in (*desk.state.open, *desk.state.uncertain) if key in (None, c.key)]
    if not left:
        return
    if desk.tells:
        for call in left:
            doubt = desk.state.doubts.get(call.key)
            if doubt is None or not doubt.told:
                _verdict(desk, call, "tell")
        return
    raise NeedsPerson(
        f"nobody knows whether {', '.join(c.tool for c in left)} happened",
        kept="all that is known is in the run's log",
        next=("ckpt uncertain", "ckpt settle"),
        keys=[c.key for c in left],
    )


def _one(desk: Desk, call: Call) -> None:
    if call.status == "open" and call.effect != "read":
        desk.append(
            ToolCallUncertain(
                key=call.key,
                attempt=call.attempt,
                reason="crash",
                number=desk.files.open_question(),
                context=call.context,
                **desk.files.now(),
            )
        )
    if call.effect == "read":
        _verdict(desk, call, "retry")


def _verdict(desk: Desk, call: Call, verdict: Literal["retry", "tell"]) -> None:
    desk.append(
        ToolCallReconciled(
            key=call.key,
            attempt=call.attempt,
            verdict=verdict,
            rule="nothing outside can have happened" if verdict == "retry" else "nobody can say",
            context=call.context,
            **desk.files.now(),
        )
    )
