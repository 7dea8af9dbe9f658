"""Events of oversight: what was asked of a person or a policy, and what stopped or changed something."""

from __future__ import annotations

from typing import ClassVar, Literal

from checkpointer.events.envelope import ABSENT, Event, Note


class _Oversight(Event):
    group: ClassVar[Literal["oversight"]] = "oversight"


class ApprovalRequested(_Oversight):
    """A call waits for a decision, which will hold for this key, these arguments and this attempt alone.

    `tool` and `arguments` are set where no model turn holds them: the call stands in a slot of the caller's.
    """

    type: Literal["approval_requested"] = "approval_requested"
    key: str
    attempt: int = 1
    args_digest: str | None = None
    expires_at: str | None = None
    tool: str | None = None
    question: Note = ABSENT
    arguments: Note = ABSENT


class ApprovalDecided(_Oversight):
    """The decision. A denied call is over: its `reason` is told to the model. A policy decides without being asked.

    `earlier`: an earlier attempt may have had its effect. Then not allowing another one ends no doubt: the call is
    uncertain again.
    """

    type: Literal["approval_decided"] = "approval_decided"
    key: str
    attempt: int = 1
    args_digest: str | None = None
    decision: Literal["approved", "denied", "expired"]
    decided_by: Literal["person", "policy", "clock"]
    earlier: bool | None = None
    expires_at: str | None = None
    who: Note = ABSENT
    reason: Note = ABSENT


class GuardrailTriggered(_Oversight):
    """A guardrail acted. `redacted` says what was taken out, and where, never what it was."""

    type: Literal["guardrail_triggered"] = "guardrail_triggered"
    guardrail: str
    severity: Literal["info", "warning", "critical"]
    action: Literal["logged", "redacted", "blocked", "paused"]
    key: str | None = None
    redacted: Note = ABSENT
    detail: Note = ABSENT
