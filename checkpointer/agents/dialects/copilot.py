"""Copilot CLI: its own hooks write camelCase and do not name the event; the hooks that a project has for Claude Code
write snake_case, and come as well. Both report the same things, so the form that came first counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from checkpointer.agents.dialects.claude import EVENTS, claude_like
from checkpointer.agents.dialects.dialect import Dialect, Payload
from checkpointer.agents.dialects.report import Kind, Reply, Report

_EVENTS: Mapping[str, Kind] = {
    **EVENTS,
    "sessionStart": "session-start",
    "userPromptSubmitted": "prompt",
    "preToolUse": "tool-start",
    "postToolUse": "tool-end",
    "postToolUseFailure": "tool-end",
    "agentStop": "turn-end",
    "subagentStart": "ignored",
    "subagentStop": "subagent-end",
    "preCompact": "compact",
    "notification": "ignored",
    "permissionRequest": "ignored",
    "errorOccurred": "ignored",
    "sessionEnd": "session-end",
}


class Copilot(Dialect):
    def settle(self, report: Report, payload: Payload, environ: Mapping[str, str]) -> Report:
        report = claude_like(report, payload)
        report.shape = "camel" if "sessionId" in payload else "snake"
        for call in report.calls:
            result: Any = call.result
            if isinstance(result, Mapping):
                kind = result.get("resultType", result.get("result_type"))
                call.failed = call.failed or kind in ("failure", "error", "rejected", "denied")
                call.result = result.get("textResultForLlm", result.get("text_result_for_llm", result))
        return report

    def say(self, report: Report, reply: Reply) -> str:
        if report.shape == "snake" or reply.block:
            return super().say(report, reply)
        if reply.ask:
            return json.dumps({"permissionDecision": "ask", "permissionDecisionReason": reply.ask})
        out = {"systemMessage": reply.person, "additionalContext": reply.context}
        return json.dumps({name: value for name, value in out.items() if value})


DIALECT = Copilot(
    "copilot",
    _EVENTS,
    event_fields=("hook_event_name", "hookName"),
    session=("sessionId", "session_id"),
    stamp=("timestamp",),
    subagent=("agentId", "agent_id"),
    tool=("toolName", "tool_name"),
    arguments=("toolArgs", "tool_input"),
    result=("toolResult", "tool_result", "tool_response"),
    source=("source", "reason", "trigger", "stopReason"),
    call_id=("toolCallId", "tool_use_id"),
    answer=("lastAssistantMessage", "last_assistant_message"),
    asks=True,
    resume="copilot --resume ID",
)
