"""Cursor: a conversation and its generations; edits and commands are reported when they are over, some also before."""

from __future__ import annotations

import json
from collections.abc import Mapping

from checkpointer.agents.dialects.dialect import Dialect, Payload, first, text
from checkpointer.agents.dialects.report import Call, Kind, Reply, Report

_EVENTS: Mapping[str, Kind] = {
    "sessionStart": "session-start",
    "beforeSubmitPrompt": "prompt",
    "preToolUse": "tool-start",
    "postToolUse": "tool-end",
    "postToolUseFailure": "tool-end",
    "beforeShellExecution": "tool-start",
    "afterShellExecution": "tool-end",
    "beforeMCPExecution": "tool-start",
    "afterMCPExecution": "tool-end",
    "afterFileEdit": "tool-end",
    "beforeReadFile": "ignored",
    "afterAgentResponse": "ignored",
    "afterAgentThought": "ignored",
    "subagentStop": "subagent-end",
    "preCompact": "compact",
    "stop": "turn-end",
    "sessionEnd": "session-end",
}
_SHELL = ("beforeShellExecution", "afterShellExecution")


class Cursor(Dialect):
    def call(self, payload: Payload) -> Call:
        event = payload.get("hook_event_name")
        if event in _SHELL:
            return Call("Shell", "external", "", {"command": payload.get("command")}, payload.get("output"))
        if event == "afterFileEdit":
            edited = {"file_path": payload.get("file_path"), "edits": payload.get("edits")}
            return Call("Edit", "workspace", "", edited)
        return super().call(payload)

    def settle(self, report: Report, payload: Payload, environ: Mapping[str, str]) -> Report:
        if report.kind == "turn-end" and payload.get("status") == "aborted":
            report.kind = "interrupt"
        report.directory = text(first(payload, ("workspace_roots", "cwd")))
        return report

    def say(self, report: Report, reply: Reply) -> str:
        if report.kind == "prompt":
            if reply.block:
                return json.dumps({"continue": False, "user_message": reply.block})
            return json.dumps({"continue": True, "user_message": reply.person}) if reply.person else ""
        if reply.ask:
            return json.dumps({"permission": "ask", "user_message": reply.ask})
        said = "\n".join(filter(None, (reply.context, reply.person)))
        return json.dumps({"additional_context": said}) if report.kind == "session-start" and said else ""


DIALECT = Cursor(
    "cursor",
    _EVENTS,
    session=("conversation_id", "session_id"),
    turn=("generation_id",),
    arguments=("tool_input",),
    result=("tool_output", "result_json"),
    error=("error_message",),
    asks=True,
    resume="cursor-agent --resume ID",
)
