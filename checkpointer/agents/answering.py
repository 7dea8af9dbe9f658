"""What a person typed as a prompt is carried out once, however often its prompt is reported, and answered each time.

That it is to be done is a fact, durable before anything is done. A hook that is killed before it begins leaves it
undone, and says so at the next occasion: nothing that was asked is begun later, when nobody expects it any more. What
had begun, and stands halfway, is finished by the next hook, which says that.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from checkpointer import disk
from checkpointer.agents import typed
from checkpointer.agents.dialects.report import Report
from checkpointer.run.session import Session, prompt_name
from checkpointer.workspace.entry import show

if TYPE_CHECKING:
    from checkpointer.workspace.outcome import Settled

ANSWER = "answer"
_BESIDE = timedelta(seconds=1)
"""So much later the second report of one prompt comes at most, where the hook of the first did not live to answer."""


def slot(report: Report) -> str:
    """What the agent calls a turn, or the moment it began; empty where it says neither."""
    return report.turn or report.stamp


def command(report: Report) -> list[str] | None:
    """The call of ckpt that a report asks for; None where it asks for none, or nobody would read the answer."""
    if report.kind != "prompt" or report.subagent or report.deaf:
        return None
    return typed.call_of(report.text or "")


def changes(words: Sequence[str]) -> bool:
    """Does a command change files, so that it must not be carried out twice?"""
    return words[0] in ("undo", "redo")


def is_known(session: Session, report: Report) -> bool:
    """Was this very prompt taken in before? A nameless one only if it came while the same was answered."""
    asked, text = session.asked, report.text or ""
    if slot(report):
        return prompt_name(slot(report), text) in session.answered
    if not asked or asked["slot"] or prompt_name("", asked["text"]) != prompt_name("", text):
        return False
    with contextlib.suppress(ValueError, TypeError):
        until = asked.get("until")
        latest = datetime.fromisoformat(until) if until else datetime.fromisoformat(asked["at"]) + _BESIDE
        return datetime.fromisoformat(report.at) <= latest
    return False


def close(session: Session) -> None:
    """What was asked last has been answered, or its person told that nobody knows."""
    if session.asked:
        session.asked["until"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def keep(place: Path, session: Session, words: str) -> None:
    """Keep the answer to what was asked last. Never raises."""
    with contextlib.suppress(OSError):
        disk.replace(place / ANSWER, json.dumps({"name": session.asked.get("name"), "words": words}).encode())


def again(place: Path, session: Session, finished: Settled | None) -> str:
    """The answer to a prompt that was taken in before. `finished` is what the hook had to bring to its end first."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads((place / ANSWER).read_bytes())
        if found["name"] == session.asked["name"]:
            return str(found["words"])
    return cut_short(session, finished) or "ckpt: this prompt was reported before, and is not carried out a second time"


def is_finished(session: Session, finished: Settled | None) -> bool:
    """Is what was asked last, and never came to an answer, the very thing that was brought to its end now?"""
    if finished is None or finished.abandoned or not session.asked or session.asked.get("until"):
        return False
    return (typed.call_of(session.asked["text"]) or [""])[0] == finished.checkpoint.kind


def cut_short(session: Session, finished: Settled | None) -> str:
    """That what was asked last never came to an answer; empty where it did. The gate is held."""
    if not session.asked or session.asked.get("until"):
        return ""
    text = session.asked["text"].strip()
    if finished is not None and is_finished(session, finished):
        left = (
            f"; left, since they were changed meanwhile: {' '.join(map(show, finished.left))}" if finished.left else ""
        )
        return f'ckpt: "{text}" was cut short; the {finished.what} is finished now{left}'
    return (
        f'ckpt: "{text}" was cut short before it had an answer. Look at ckpt log, and type it again if it is not done'
    )


def busy(session: Session | None, report: Report) -> str:
    """The answer where the gate was not free in time."""
    if session is not None and is_known(session, report):
        return "ckpt: this prompt was reported before, and is being carried out"
    return f"ckpt is busy; {_not_done(report)}: type it again"


def failed(report: Report, why: str) -> str:
    """The answer where nothing could be begun."""
    return f"ckpt: {why}; {_not_done(report)}"


def _not_done(report: Report) -> str:
    words = command(report)
    verb = {"undo": "undone", "redo": "redone"}.get(words[0] if words else "", "looked up")
    return f"nothing was {verb}"
