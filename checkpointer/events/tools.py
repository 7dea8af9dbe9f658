"""Events of tool calls: announced, done, and what became of those that were cut off."""

from __future__ import annotations

from typing import ClassVar, Literal

from checkpointer.events.envelope import ABSENT, Content, Event, Fact, Note, Trust

Effect = Literal["read", "workspace", "external"]
Risk = Literal["low", "normal", "high"]
Source = Literal["tool", "reconciliation", "person", "late", "report"]


class TurnSlot(Fact):
    """The place of a call in the model turn that accepted it: `seq` of that event, `index` in it from 0."""

    seq: int
    index: int


Slot = TurnSlot | str
"""A place that a call fills, once: in a model turn, or under a name that the caller gave."""


class CarriedCall(Fact):
    """A call that another run of the operation made. Its start stands in that run's log at `seq`."""

    key: str
    tool: str
    effect: Effect
    signature: str | None = None
    occurrence: int = 1
    status: Literal["completed", "uncertain", "world"]
    risk: Risk | None = None
    run: str
    seq: int


class Process(Fact):
    """The process that the tool runs in, and the group that it leads, in which what the tool starts stays; with the
    start time that tells it from a later one of that number.
    """

    pid: int
    group: int
    started: str


class _Call(Event):
    group: ClassVar[Literal["tools"]] = "tools"
    key: str


class Terms(Fact):
    """What the tool declared when it was started, kept with the call: the stricter of this and a later declaration
    counts.

    `keys_kept_s`: how long the receiver knows a key. `deadline_s`: how long it may still act. `recovery_s`: when an
    open question is overdue. `exclusive`: nobody else edits this workspace. `offers`: what the tool can be asked.
    `declared`: a digest of the whole declaration.
    """

    keys_kept_s: int | None = None
    deadline_s: int | None = None
    recovery_s: int | None = None
    fresh_for_s: int | None = None
    exclusive: bool = False
    after_failure: Literal["new_key", "same_key"] = "new_key"
    policy: Literal["declared", "person"] = "declared"
    offers: tuple[Literal["keys", "reconcile", "compensate", "recheck"], ...] = ()
    declared: str | None = None


class ToolCallStarted(_Call):
    """A call is about to run: synced before its effect. `arguments` are as the tool gets them.

    `key` names the action; attempts of it are counted from 1, and `generation` grows by one after each proven failure
    (the receiver sees `key`, then `key/g1`). `slot` is null where it was given when the call was accepted. `terms` are
    null for a call that is only observed. `args_digest` is keyed with a secret of the run. `turn` and `step` are the
    numbers of its handle (`t3.2`). `parent` is the call that made this one; `compensates` the one it takes back.
    """

    type: Literal["tool_call_started"] = "tool_call_started"
    tool: str
    effect: Effect
    attempt: int = 1
    generation: int = 0
    slot: Slot | None = None
    signature: str | None = None
    occurrence: int = 1
    args_digest: str | None = None
    risk: Risk = "normal"
    terms: Terms | None = None
    parent: str | None = None
    compensates: str | None = None
    process: Process | None = None
    call_id: str | None = None
    turn: int | None = None
    step: int | None = None
    arguments: Content = ABSENT
    title: Note = ABSENT


class ToolCallCompleted(_Call):
    """A call is over and its outcome known. `effect: none` is a proven failure, `partial` one that went halfway.

    `source` says who knows. `failed` marks a result that is an error to the model, whatever the effect. With
    `again` a proven failure is not told to the model: the same slot is tried again. `paired: guess` marks an observed
    end that carried no call id. `observed` is `[{"path", "blob"}]`: the `files` that were read, by the id git has for
    their content, null for one that was not there.
    """

    type: Literal["tool_call_completed"] = "tool_call_completed"
    attempt: int = 1
    effect: Literal["done", "none", "partial"] = "done"
    source: Source = "tool"
    failed: bool = False
    again: bool = False
    trust: Trust = "untrusted"
    paired: Literal["id", "guess"] = "id"
    fresh_for_s: int | None = None
    files: int | None = None
    result: Content = ABSENT
    observed: Note = ABSENT


class ToolCallUncertain(_Call):
    """A call started and nobody knows its outcome. `number` is its handle (`1` for `u1`)."""

    type: Literal["tool_call_uncertain"] = "tool_call_uncertain"
    attempt: int = 1
    reason: Literal["crash", "exception", "timeout", "cancelled", "signal", "partial", "earlier"]
    number: int | None = None
    detail: Note = ABSENT


Verdict = Literal["retry", "complete", "wait", "escalate", "tell", "abandon", "unreported"]


class ToolCallReconciled(_Call):
    """An attempt to settle a call: the rule that decided, its evidence, and the verdict.

    `retry`: it may run again, under the same key. `complete`: a completion follows in the same write. `wait`: still
    uncertain. `escalate`: only a person can say. `tell`: the model was told that the outcome is unknown. `abandon`: a
    person gave it up. `unreported`: its agent went on without reporting an end, so nothing is in question.
    """

    type: Literal["tool_call_reconciled"] = "tool_call_reconciled"
    attempt: int = 1
    verdict: Verdict
    rule: str
    by: Literal["policy", "person", "receiver", "tree", "late", "agent"] = "policy"
    evidence: Note = ABSENT
