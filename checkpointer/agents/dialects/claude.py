"""Claude Code: the tongue that most others are variants of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpointer.agents.dialects.dialect import Dialect, Payload
from checkpointer.agents.dialects.report import Kind, Report

EVENTS: Mapping[str, Kind] = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "prompt",
    "UserPromptExpansion": "prompt",
    "PreToolUse": "tool-start",
    "PostToolUse": "tool-end",
    "PostToolUseFailure": "tool-end",
    "PostToolBatch": "batch-end",
    "Stop": "turn-end",
    "StopFailure": "turn-end",
    "SubagentStart": "ignored",
    "SubagentStop": "subagent-end",
    "PreCompact": "compact",
    "Interrupt": "interrupt",
    "Notification": "ignored",
    "PermissionRequest": "ignored",
    "CwdChanged": "ignored",
    "PostCompact": "ignored",
    "SessionEnd": "session-end",
}


class Claude(Dialect):
    def settle(self, report: Report, payload: Payload, environ: Mapping[str, str]) -> Report:
        return claude_like(report, payload)


def claude_like(report: Report, payload: Payload) -> Report:
    """What the whole family means by its notifications, failures and expansions."""
    if report.event == "Notification" and payload.get("notification_type") in ("idle_prompt", "idle"):
        report.kind = "idle"
    if report.event == "UserPromptExpansion":
        # The command as it was typed; any other than ours comes again, as the prompt that it expands to.
        command: Any = payload.get("command_name")
        typed = f"/{command} {payload.get('command_args') or ''}".strip()
        if not isinstance(command, str) or not command.startswith("ckpt"):
            report.kind = "ignored"
        report.text = typed
    if report.event == "PostToolUseFailure" and payload.get("is_interrupt") is True:
        for call in report.calls:
            call.failed = True
    return report


DIALECT = Claude(
    "claude",
    EVENTS,
    turn=("prompt_id",),
    asks=True,
    resume="claude --resume ID",
)
