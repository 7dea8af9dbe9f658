"""A call that an agent is about to make although it may have happened already: the person is asked first.

Only where the person wants that (`hooks.ask`), and only of agents that can be told to ask.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from checkpointer.agents import dialects, excerpt
from checkpointer.agents.dialects import toolset
from checkpointer.agents.dialects.report import Report

if TYPE_CHECKING:
    from checkpointer.recovery.queue import Item

_SHOWN = 160


def question(store: Path, report: Report) -> str:
    """Why a person should say yes before a reported call runs: one with the same tool and arguments waits for word on
    whether it happened. Empty where none does. Raises what reading the configuration raises.
    """
    calls = [c for c in report.calls if c.effect != "read" and not toolset.ours(c.tool)]
    if report.kind != "tool-start" or not calls or not dialects.dialect(report.agent).asks:
        return ""
    from checkpointer import home

    if not home.configuration()["hooks.ask"]:
        return ""
    from checkpointer import canon
    from checkpointer.recovery import queue
    from checkpointer.run.roster import runs_directory

    for item in queue.waiting(str(runs_directory(store))):
        for call in calls:
            if not item.word and item.tool == call.tool and canon.thaw(item.arguments) == excerpt.kept(call.arguments):
                return _words(item)
    return ""


def _words(item: Item) -> str:
    words = item.words if len(item.words) <= _SHOWN else item.words[:_SHOWN] + "..."
    when = f" at {item.since.astimezone():%H:%M}" if item.since is not None else ""
    return (
        f"ckpt: {words} was cut off{when}, and nobody knows whether it happened ({item.name}). "
        f"Run again, it may happen twice. Once you know: ckpt settle {item.name} --happened, or --did-not-happen."
    )
