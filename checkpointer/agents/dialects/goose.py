"""goose: Claude Code's events, named in `event`; a prompt stands in `message`. What a hook prints is not read."""

from __future__ import annotations

from checkpointer.agents.dialects.claude import EVENTS, Claude

DIALECT = Claude(
    "goose",
    EVENTS,
    event_fields=("event", "hook_event_name"),
    directory=("working_dir", "cwd"),
    prompt=("message", "prompt", "matcher_context"),
    result=("tool_response", "tool_output", "tool_result"),
    call_id=("tool_call_id", "tool_use_id"),
    deaf=True,
    resume="goose session --resume",
)
