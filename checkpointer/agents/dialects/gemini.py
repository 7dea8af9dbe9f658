"""Gemini CLI: Claude Code's hooks under other names, without ids of turns or calls; only its time stamps tell apart.

It may print nothing but JSON. `PreCompress` comes before every request to the model, whether or not anything is
compressed, so it says nothing unless a person asked for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from checkpointer.agents.dialects.dialect import Dialect, Payload
from checkpointer.agents.dialects.report import Kind, Reply, Report

_EVENTS: Mapping[str, Kind] = {
    "SessionStart": "session-start",
    "BeforeAgent": "prompt",
    "BeforeTool": "tool-start",
    "AfterTool": "tool-end",
    "AfterAgent": "turn-end",
    "PreCompress": "compact",
    "SessionEnd": "session-end",
    "Notification": "ignored",
    "BeforeModel": "ignored",
    "AfterModel": "ignored",
    "BeforeToolSelection": "ignored",
}


class Gemini(Dialect):
    def settle(self, report: Report, payload: Payload, environ: Mapping[str, str]) -> Report:
        if report.kind == "compact" and report.source != "manual":
            report.kind = "ignored"
        if report.kind == "tool-end":
            answer: Any = payload.get("tool_response")
            error = answer.get("error") if isinstance(answer, Mapping) else None
            for call in report.calls:
                call.failed = call.failed or bool(error)
        return report

    def say(self, report: Report, reply: Reply) -> str:
        if reply.block and report.kind == "prompt":
            return json.dumps({"decision": "deny", "reason": reply.block})
        return super().say(report, reply)


DIALECT = Gemini(
    "gemini",
    _EVENTS,
    stamp=("timestamp",),
    answer=("prompt_response",),
    silence="{}",
    resume="gemini --resume ID",
)
