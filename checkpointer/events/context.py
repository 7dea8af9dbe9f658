"""Events of the conversation: what was said to the model, what it answered, what was cut out of its sight."""

from __future__ import annotations

from typing import ClassVar, Literal

from checkpointer.events.envelope import ABSENT, Content, Event, Fact, Note, Trust
from checkpointer.events.tools import Effect, Risk


class _Context(Event):
    group: ClassVar[Literal["context"]] = "context"


class UserMessage(_Context):
    """Something said to the model. `slot` is the caller's name for it: a name says one thing, once. `turn` is the
    number of the turn that it opens (`3` for `t3`). `agent` and `session` name the agent program that it was said to
    and the conversation as that calls it, where they became known after the run began.
    """

    type: Literal["user_message"] = "user_message"
    slot: str | None = None
    trust: Trust = "trusted"
    turn: int | None = None
    agent: str | None = None
    session: str | None = None
    content: Content = ABSENT


class Usage(Fact):
    """Tokens of one model turn."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


class AcceptedCall(Fact):
    """A call that a model turn asks for, with the identity it has from now on.

    `key` and `occurrence` are fixed here and never computed again. `joined` says that an earlier call of this
    `signature` is the same action, so that this one is answered by it. `call_id` is the model's own name for it.
    """

    tool: str
    key: str
    effect: Effect
    risk: Risk = "normal"
    signature: str | None = None
    occurrence: int = 1
    joined: bool = False
    args_digest: str | None = None
    call_id: str | None = None


class ModelTurn(_Context):
    """One answer of the model. `arguments` holds those of each call, in order. `cost_micros` counts millionths."""

    type: Literal["model_turn"] = "model_turn"
    model: str | None = None
    calls: tuple[AcceptedCall, ...] = ()
    usage: Usage = Usage()
    cost_micros: int = 0
    stop: str | None = None
    content: Content = ABSENT
    arguments: Note = ABSENT


class ContextCompacted(_Context):
    """The messages `from_seq` to `to_seq` gave way to a summary. Without one (`summarised: false`) the context is
    recorded but can no longer be rebuilt.
    """

    type: Literal["context_compacted"] = "context_compacted"
    from_seq: int
    to_seq: int
    summarised: bool
    summary: Note = ABSENT


class ContextRewound(_Context):
    """Every message after `to_seq` left the context; 0 empties it."""

    type: Literal["context_rewound"] = "context_rewound"
    to_seq: int
    why: Note = ABSENT


class MemoryWritten(_Context):
    """Something was stored to be remembered in other runs."""

    type: Literal["memory_written"] = "memory_written"
    memory: str
    trust: Trust = "model"
    content: Content = ABSENT
