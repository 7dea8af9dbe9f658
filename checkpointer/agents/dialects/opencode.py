"""OpenCode: a plugin passes on what its host tells it, with the event's name in `hook_event_name`, or in the argument.

    chat.message             {"input": {"sessionID"}, "text": [...]}
    tool.execute.before      {"input": {"tool", "sessionID", "callID"}, "args": {...}}
    tool.execute.after       the same, and {"output": {"title", "output", "metadata"}}
    command.execute.before   {"input": {"command", "sessionID", "arguments"}, "answers": true}
    event:NAME               {"properties": {"sessionID", ...}}

With `answers` a plugin says that it can keep a command from the model. The answer is what Claude Code would get; the
plugin does with it what its host allows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from checkpointer.agents.dialects.dialect import Dialect, Payload, text, words
from checkpointer.agents.dialects.report import Kind, Reply, Report

_EVENTS: Mapping[str, Kind] = {
    "plugin.init": "ignored",
    "chat.message": "prompt",
    "command.execute.before": "prompt",
    "tool.execute.before": "tool-start",
    "tool.execute.after": "tool-end",
    "event:session.created": "session-start",
    "event:session.idle": "turn-end",
    "event:session.error": "turn-end",
    "event:session.compacted": "compact",
    "event:session.deleted": "session-end",
    "event:session.status": "ignored",
    "event:session.diff": "ignored",
    "event:session.updated": "ignored",
    "event:file.edited": "ignored",
    "event:command.executed": "ignored",
    "event:permission.asked": "ignored",
    "event:permission.replied": "ignored",
}


class OpenCode(Dialect):
    def settle(self, report: Report, payload: Payload, environ: Mapping[str, str]) -> Report:
        inside: Any = payload.get("input") or {}
        if report.event == "command.execute.before":
            command = text(inside.get("command"))
            report.text = f"/{command} {text(inside.get('arguments'))}".strip()
            if not command.startswith("ckpt") or payload.get("answers") is not True:
                report.kind = "ignored"  # what the command expands to comes as a message
        elif report.kind == "prompt":
            # `opencode run` puts quotes around what was typed.
            said = words(payload.get("text"))
            report.text = said[1:-1] if len(said) > 1 and said[0] == said[-1] == '"' else said
        if report.kind == "session-start":
            properties: Any = payload.get("properties") or {}
            info: Any = properties.get("info") or {}
            report.parent = text(info.get("parentID"))  # a subagent's session is a part of another
        if report.event == "event:session.error":
            report.source = "error"
        for call in report.calls:
            output: Any = payload.get("output")
            if isinstance(output, Mapping):
                metadata = output.get("metadata")
                call.result = output.get("output")
                call.failed = isinstance(metadata, Mapping) and metadata.get("exit") not in (None, 0)
        return report

    def say(self, report: Report, reply: Reply) -> str:
        if reply.block and report.kind == "prompt":
            return json.dumps({"decision": "block", "reason": reply.block})
        return super().say(report, reply)


DIALECT = OpenCode(
    "opencode",
    _EVENTS,
    session=("input.sessionID", "properties.sessionID", "properties.info.id", "session_id"),
    directory=("directory", "cwd"),
    subagent=(),
    stamp=("input.messageID",),
    tool=("input.tool",),
    arguments=("args", "input.args"),
    call_id=("input.callID",),
    model=("input.model.modelID",),
    resume="opencode --session ID",
)
