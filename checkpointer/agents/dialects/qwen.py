"""Qwen Code: Claude Code's shapes; its calls are told apart by `tool_call_id`, since `tool_use_id` differs between the
two ends of one call. A prompt without words comes after each batch of calls and begins nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkpointer.agents.dialects.claude import EVENTS, Claude
from checkpointer.agents.dialects.dialect import Payload
from checkpointer.agents.dialects.report import Report


class Qwen(Claude):
    def settle(self, report: Report, payload: Payload, environ: Mapping[str, str]) -> Report:
        report = super().settle(report, payload, environ)
        if report.kind == "prompt" and not report.text:
            report.kind = "ignored"
        return report


DIALECT = Qwen(
    "qwen",
    EVENTS,
    turn=("prompt_id",),
    call_id=("tool_call_id", "tool_use_id"),
    asks=True,
    resume="qwen --resume ID",
)
