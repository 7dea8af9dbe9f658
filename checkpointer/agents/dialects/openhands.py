"""OpenHands: Claude Code's events, named in `event_type`; context goes to the top of the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping

from checkpointer.agents.dialects.claude import EVENTS, Claude
from checkpointer.agents.dialects.dialect import Payload
from checkpointer.agents.dialects.report import Reply, Report

_SNAKE = {
    "session_start": "SessionStart",
    "user_prompt_submit": "UserPromptSubmit",
    "pre_tool_use": "PreToolUse",
    "post_tool_use": "PostToolUse",
    "stop": "Stop",
    "session_end": "SessionEnd",
}


class OpenHands(Claude):
    def settle(self, report: Report, payload: Payload, environ: Mapping[str, str]) -> Report:
        report.event = _SNAKE.get(report.event, report.event)
        return super().settle(report, payload, environ)

    def say(self, report: Report, reply: Reply) -> str:
        if reply.block and report.kind == "prompt":
            return json.dumps({"decision": "deny", "reason": reply.block})
        said = "\n".join(filter(None, (reply.context, reply.person)))
        return json.dumps({"additionalContext": said}) if said else ""


DIALECT = OpenHands(
    "openhands",
    {**EVENTS, **{snake: EVENTS[name] for snake, name in _SNAKE.items()}},
    event_fields=("event_type", "hook_event_name"),
    directory=("working_dir", "cwd"),
    prompt=("message", "prompt"),
    answer=("message", "last_assistant_message"),
    resume="openhands --resume ID",
)
