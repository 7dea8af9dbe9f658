"""One session as it stands: its open turn, its open calls, what the model said since it was last written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from checkpointer.agents.acp.facts import CallFacts, bounded

MOST_TEXT = 64_000
"""Characters of one answer of the model that are kept."""


@dataclass
class Call:
    """A call that stands in the log and is not over."""

    key: str
    step: int
    facts: CallFacts


@dataclass
class Talk:
    """One session: its open turn, the number of its newest step, its open calls, what the model said meanwhile. `told`
    is the newest checkpoint that its agent was told of.
    """

    name: str
    told: int = 0
    turn: int | None = None
    step: int = 0
    calls: dict[str, Call] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    size: int = 0

    def steps(self) -> set[str]:
        """Whose the changes made now are."""
        if self.turn is None:
            return set()
        return {f"t{self.turn}.{n}" for n in ([c.step for c in self.calls.values()] or [max(1, self.step)])}

    def hear(self, text: str) -> None:
        if self.size < MOST_TEXT:
            self.text.append(text[: MOST_TEXT - self.size])
            self.size += len(text)

    def said(self) -> str:
        text, self.text, self.size = bounded("".join(self.text)), [], 0
        return str(text)


def context_of(session: str) -> str:
    """A session's name as that of a conversation in a log."""
    plain = session.encode("utf-8", "backslashreplace").decode()
    return plain if 0 < len(plain) <= 200 else sha256(plain.encode()).hexdigest()[:32]
