"""The calls that were cut off get their verdicts before anything else happens; the rules are those of `recovery`."""

from __future__ import annotations

from collections.abc import Sequence

from checkpointer.errors import NeedsPerson
from checkpointer.events import ToolCallReconciled
from checkpointer.recovery import Choice, Scene, Settled
from checkpointer.recovery import settle as judge
from checkpointer.run.desk import Desk
from checkpointer.state import Call


def settle(desk: Desk, key: str | None = None, *, choice: Choice = "ask") -> None:
    """Give verdicts on every call that was cut off, or on one. Raises `NeedsPerson` where a person must decide.

    `choice` is what was said about files that such a call left other than they were. Where the model may be told
    (`desk.tells`), an unknown outcome is no reason to stop.
    """
    scene = Scene(desk.pen, desk.files, desk.tools, choice, desk.append)
    settled = judge(scene, None if key is None else (key,))
    left = [c for c in desk.state.uncertain if key in (None, c.key)]
    if not left:
        return
    if desk.tells:
        for call in left:
            doubt = desk.state.doubts.get(call.key)
            if doubt is None or not doubt.told:
                _tell(desk, call)
        return
    raise _asks(left, settled)


def _asks(left: Sequence[Call], settled: Sequence[Settled]) -> NeedsPerson:
    said = {one.key: one for one in settled}
    words = [f"{c.tool}: {said[c.key].rule}" if c.key in said else c.tool for c in left]
    files = sorted({path for c in left if c.key in said for path in said[c.key].differing})
    ways = ("ckpt resume --keep", "ckpt resume --restore", 'open_run(..., files="restore")') if files else ()
    return NeedsPerson(
        f"nobody knows whether this happened: {'; '.join(words)}",
        kept="all that is known is in the run's log" + ("; the files are as they are" if files else ""),
        next=(*ways, "ckpt uncertain", "ckpt settle"),
        keys=[c.key for c in left],
        paths=files,
    )


def _tell(desk: Desk, call: Call) -> None:
    desk.append(
        ToolCallReconciled(
            key=call.key,
            attempt=call.attempt,
            verdict="tell",
            rule="nobody can say",
            context=call.context,
            **desk.files.now(),
        )
    )
