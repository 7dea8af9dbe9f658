"""The few facts that every agent's payload comes to, and what a hook may say in return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from checkpointer.fields import Fields, made

Kind = Literal[
    "session-start", "prompt", "tool-start", "tool-end", "batch-end", "turn-end", "turn-done", "interrupt", "idle",
    "compact", "session-end", "subagent-end", "ignored", "unknown",
]  # fmt: skip
Effect = Literal["read", "workspace", "external"]

IGNORED = ("ignored", "unknown")


class Call(Fields):
    """One call of a tool. `effect` is what is known of such tools: `read` changes no file, `workspace` edits files and
    does nothing else, `external` may do anything. `delegates`: it has others make calls of their own.

    `id` is the agent's own name for it, empty where it gives none. `background`: it may still work after its end was
    reported.
    """

    tool: str
    effect: Effect = "external"
    id: str = ""
    arguments: Any = None
    result: Any = None
    failed: bool = False
    background: bool = False
    delegates: bool = False


class Report(Fields):
    """What one call of a hook says.

    `session` names the conversation, `parent` the one it is a part of, if it says so; `directory` is where the agent
    stands now. `subagent` is empty for the agent itself.
    `turn` is the agent's own name for the turn; `stamp` tells two reports of equal words apart. `shape` says in which
    form it came, where one agent may report the same thing in two. `text` is the prompt or the model's answer. `deaf`:
    nobody reads what the hook prints.
    """

    agent: str = ""
    event: str = ""
    kind: Kind = "unknown"
    session: str = ""
    directory: str = ""
    parent: str = ""
    subagent: str = ""
    turn: str = ""
    stamp: str = ""
    shape: str = ""
    text: str | None = None
    model: str | None = None
    source: str = ""
    calls: list[Call] = made(default_factory=list)
    at: str = ""
    trouble: str = ""
    deaf: bool = False

    def as_json(self) -> dict[str, Any]:
        """Itself, without what is empty."""
        return {name: value for name, value in self.as_dict().items() if value not in ("", None, [], False)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Report:
        """The inverse. Raises KeyError or TypeError on anything else."""
        given = {name: value for name, value in data.items() if name in cls.NAMES}
        given["calls"] = [Call(**call) for call in given.get("calls", ())]
        return cls(**given)


class Reply(Fields):
    """What is said in return: `block` keeps the prompt from the model and is shown in its place, `person` is shown to
    the person, `context` is given to the model, `ask` is why the person should say yes before a call runs. All empty:
    nothing is said.
    """

    block: str = ""
    person: str = ""
    context: str = ""
    ask: str = ""

    def __bool__(self) -> bool:
        return bool(self.block or self.person or self.context or self.ask)
