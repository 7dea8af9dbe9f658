"""What a dialect is: the names of an agent's events, where its payloads keep things, how it is answered.

Most agents speak like Claude Code, with other names here and there. So a dialect is a table, and a module of its own
overrides what a table cannot say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from checkpointer.agents.dialects import toolset
from checkpointer.agents.dialects.report import Call, Kind, Reply, Report
from checkpointer.fields import Fields

Payload = Mapping[str, Any]


class Dialect(Fields):
    """`events` maps the agent's names of events to kinds; what is not in it is passed over.

    The tuples name the fields in which a fact may stand, the first that is there wins; a dot goes one level down.
    `blocks`: a prompt can be kept from the model; `asks`: a call can be held for the person's yes. `deaf`: nobody reads
    what a hook prints. `silence` is what is printed when nothing is said. `resume` is how the agent itself goes on with
    a conversation, `ID` standing for its name; empty where that is not known.
    """

    agent: str
    events: Mapping[str, Kind]
    event_fields: tuple[str, ...] = ("hook_event_name",)
    session: tuple[str, ...] = ("session_id",)
    directory: tuple[str, ...] = ("cwd",)
    subagent: tuple[str, ...] = ("agent_id",)
    turn: tuple[str, ...] = ()
    stamp: tuple[str, ...] = ()
    prompt: tuple[str, ...] = ("prompt",)
    answer: tuple[str, ...] = ("last_assistant_message",)
    model: tuple[str, ...] = ("model",)
    source: tuple[str, ...] = ("source", "reason", "trigger")
    tool: tuple[str, ...] = ("tool_name",)
    arguments: tuple[str, ...] = ("tool_input",)
    result: tuple[str, ...] = ("tool_response",)
    error: tuple[str, ...] = ("error",)
    call_id: tuple[str, ...] = ("tool_use_id",)
    readers: frozenset[str] = frozenset()
    blocks: bool = True
    asks: bool = False
    deaf: bool = False
    silence: str = ""
    resume: str = ""

    # -- what came in

    def read(self, event: str, payload: Payload, environ: Mapping[str, str]) -> Report:
        """The facts of a payload. May raise what a payload of another shape makes it raise."""
        name = first(payload, self.event_fields) or event
        name = name if isinstance(name, str) else event
        kind = self.events.get(name) or self.events.get(event) or "unknown"
        report = Report(
            self.agent,
            name,
            kind,
            session=text(first(payload, self.session)),
            directory=text(first(payload, self.directory)),
            subagent=text(first(payload, self.subagent)),
            turn=text(first(payload, self.turn)),
            stamp=text(first(payload, self.stamp)),
            model=text(first(payload, self.model)) or None,
            source=text(first(payload, self.source)),
            deaf=self.deaf,
        )
        if kind in ("tool-start", "tool-end"):
            report.calls = [self.call(payload)]
        elif kind == "batch-end":
            report.calls = [self.call(one) for one in payload.get("tool_calls") or () if isinstance(one, Mapping)]
        elif kind == "prompt":
            report.text = words(first(payload, self.prompt))
        elif kind in ("turn-end", "subagent-end", "interrupt"):
            report.text = words(first(payload, self.answer)) or None
        return self.settle(report, payload, environ)

    def settle(self, report: Report, payload: Payload, environ: Mapping[str, str]) -> Report:
        """The last word on a report, for what no table says."""
        return report

    def call(self, payload: Payload) -> Call:
        """The call that a payload is about."""
        tool = text(first(payload, self.tool)) or "unknown"
        arguments, error = first(payload, self.arguments), first(payload, self.error)
        return Call(
            tool,
            self.effect(tool, arguments),
            text(first(payload, self.call_id)),
            arguments,
            error if error else first(payload, self.result),
            failed=bool(error),
            background=_in_background(arguments),
            delegates=toolset.delegates(tool),
        )

    def effect(self, tool: str, arguments: Any) -> Any:
        return "read" if tool in self.readers else toolset.effect(tool)

    # -- what goes out

    def say(self, report: Report, reply: Reply) -> str:
        """The family's way: one JSON object."""
        out: dict[str, Any] = {}
        if reply.ask:
            asked = {"permissionDecision": "ask", "permissionDecisionReason": reply.ask}
            return json.dumps({"hookSpecificOutput": {"hookEventName": report.event, **asked}})
        if reply.block:
            if report.kind != "prompt" or not self.blocks:
                return self.say(report, Reply(person=reply.person, context=self.told(reply)))
            out = {"decision": "block", "reason": reply.block}
        elif reply.person:
            out["systemMessage"] = reply.person
        if reply.context and not reply.block:
            out["hookSpecificOutput"] = {"hookEventName": report.event, "additionalContext": reply.context}
        return json.dumps(out) if out else self.silence

    def told(self, reply: Reply) -> str:
        """A block as the model is told of it, where it cannot be kept from the model."""
        done = f"The person typed a command for ckpt, and was answered by it:\n{reply.block}\n"
        return done + "Show this to the person and do nothing else."


def first(payload: Payload, names: tuple[str, ...]) -> Any:
    """The first of these fields that says something."""
    for name in names:
        value: Any = payload
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
            if isinstance(value, list | tuple) and part.endswith(("Roots", "roots")):
                value = value[0] if value else None
        if value is not None and value != "":
            return value
    return None


def text(value: Any) -> str:
    """A name or a number as text; anything else is none."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def words(value: Any) -> str:
    """What was said, of a text or a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return words(value.get("text"))
    if isinstance(value, list | tuple):
        return "\n".join(filter(None, map(words, value)))
    return ""


def _in_background(arguments: Any) -> bool:
    named = ("run_in_background", "is_background", "background")
    return isinstance(arguments, Mapping) and any(arguments.get(name) is True for name in named)
