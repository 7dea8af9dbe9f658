"""Codex CLI: Claude Code's hooks with the names of its turns, and a `notify` program that gets its JSON as an argument.

It refuses an answer with any field that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkpointer.agents.dialects.claude import EVENTS
from checkpointer.agents.dialects.dialect import Dialect, Payload, text, words
from checkpointer.agents.dialects.report import Report


class Codex(Dialect):
    def read(self, event: str, payload: Payload, environ: Mapping[str, str]) -> Report:
        if payload.get("type") != "agent-turn-complete":
            return super().read(event, payload, environ)
        asked = payload.get("input-messages")
        return Report(
            self.agent,
            "notify",
            "turn-done",
            session=text(payload.get("thread-id")),
            directory=text(payload.get("cwd")),
            turn=text(payload.get("turn-id")),
            text=words(payload.get("last-assistant-message")) or None,
            source=words(asked[-1:] if isinstance(asked, list) else None),
        )


DIALECT = Codex(
    "codex",
    {**EVENTS, "notify": "ignored"},
    turn=("turn_id",),
    resume="codex resume ID",
)
