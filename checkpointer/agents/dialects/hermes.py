"""Hermes: shell hooks in snake_case with ids in `extra`. What comes before a request to the model stands for a prompt;
it can be given context, and cannot be kept from the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from checkpointer.agents.dialects.dialect import Dialect, Payload
from checkpointer.agents.dialects.report import Kind, Reply, Report

_EVENTS: Mapping[str, Kind] = {
    "on_session_start": "session-start",
    "session_start": "session-start",
    "pre_llm_call": "prompt",
    "pre_tool_call": "tool-start",
    "post_tool_call": "tool-end",
    "post_llm_call": "turn-end",
    "on_session_end": "turn-end",
    "session_end": "session-end",
    "on_session_finalize": "session-end",
    "subagent_stop": "subagent-end",
}


class Hermes(Dialect):
    def settle(self, report: Report, payload: Payload, environ: Mapping[str, str]) -> Report:
        if report.kind == "prompt" and not report.text:
            report.kind = "ignored"  # a further request of the same turn
        return report

    def say(self, report: Report, reply: Reply) -> str:
        if report.event != "pre_llm_call":
            return ""
        context = self.told(reply) if reply.block else reply.context
        said = "\n".join(filter(None, (context, reply.person and f"Tell the person: {reply.person}")))
        return json.dumps({"context": said}) if said else ""


DIALECT = Hermes(
    "hermes",
    _EVENTS,
    event_fields=("hook_event_name", "event"),
    turn=("extra.turn_id",),
    prompt=("extra.user_message", "extra.prompt", "user_message", "prompt"),
    answer=("extra.assistant_response", "extra.response", "assistant_response"),
    subagent=("extra.child_session_id", "agent_id"),
    result=("extra.result", "tool_response", "result"),
    error=("extra.error", "error"),
    call_id=("extra.tool_call_id", "tool_call_id"),
    model=("extra.model", "model"),
    blocks=False,
    resume="hermes --resume ID",
)
