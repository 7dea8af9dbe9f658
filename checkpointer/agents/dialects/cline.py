"""Cline: executable files named after events. Its CLI and its extension write different payloads; both name the event
in `hookName`, and the root session stays the same where the task changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from checkpointer.agents.dialects.dialect import Dialect, Payload, text
from checkpointer.agents.dialects.report import Kind, Reply, Report

_EVENTS: Mapping[str, Kind] = {
    "TaskStart": "session-start",
    "agent_start": "session-start",
    "TaskResume": "session-start",
    "agent_resume": "session-start",
    "UserPromptSubmit": "prompt",
    "prompt_submit": "prompt",
    "PreToolUse": "tool-start",
    "tool_call": "tool-start",
    "PostToolUse": "tool-end",
    "tool_result": "tool-end",
    "TaskComplete": "turn-end",
    "agent_end": "turn-end",
    "TaskError": "turn-end",
    "agent_error": "turn-end",
    "TaskCancel": "interrupt",
    "agent_abort": "interrupt",
    "PreCompact": "compact",
    "pre_compact": "compact",
    "SessionShutdown": "session-end",
    "session_shutdown": "session-end",
}


class Cline(Dialect):
    def settle(self, report: Report, payload: Payload, environ: Mapping[str, str]) -> Report:
        if not payload.get("parent_agent_id"):
            report.subagent = ""  # the agent itself has an id, too
        succeeded: Any = payload.get("postToolUse")
        if isinstance(succeeded, Mapping) and succeeded.get("success") is False:
            for call in report.calls:
                call.failed = True
        if report.event in ("TaskStart", "agent_start") and (asked := _task(payload)):
            report.kind, report.text = "prompt", asked  # the first words come with the task
        return report

    def say(self, report: Report, reply: Reply) -> str:
        if reply.block:
            # A hook on a prompt can end the task, or add to it; ending it is what comes nearest to no request.
            return json.dumps({"cancel": True, "errorMessage": reply.block})
        said = "\n".join(filter(None, (reply.context, reply.person)))
        return json.dumps({"cancel": False, "contextModification": said})


def _task(payload: Payload) -> str:
    start: Any = payload.get("taskStart")
    metadata = start.get("taskMetadata") if isinstance(start, Mapping) else None
    return text(metadata.get("initialTask")) if isinstance(metadata, Mapping) else ""


DIALECT = Cline(
    "cline",
    _EVENTS,
    event_fields=("hookName",),
    session=("sessionContext.rootSessionId", "taskId"),
    directory=("workspaceInfo.rootPath", "workspaceRoots", "cwd"),
    stamp=("timestamp",),
    prompt=("userPromptSubmit.prompt", "prompt"),
    tool=("tool_call.name", "tool_result.name", "preToolUse.toolName", "postToolUse.toolName"),
    arguments=("tool_call.input", "tool_result.input", "preToolUse.parameters", "postToolUse.parameters"),
    result=("tool_result.output", "postToolUse.result"),
    error=("tool_result.error",),
    call_id=("tool_call.id", "tool_result.id"),
    model=("model.slug",),
    resume="cline --id ID",
)
