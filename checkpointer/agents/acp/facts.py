"""What the messages say of a tool call, bounded: its kind, how it stands, what it was given, what it gave. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from checkpointer import canon
from checkpointer.events import Effect

LARGEST: Final = 16_000
"""Characters of arguments or of a result that are kept; of a longer one the beginning."""

_EFFECTS: Final[Mapping[str, Effect]] = {
    "read": "read",
    "search": "read",
    "think": "read",
    "fetch": "read",
    "switch_mode": "read",
    "edit": "workspace",
    "delete": "workspace",
    "move": "workspace",
}
"""By the protocol's kinds of tools. Any other (`execute`, `other`, unknown) may do anything anywhere."""

_OVER: Final = frozenset(("completed", "failed", "cancelled"))


@dataclass(frozen=True)
class CallFacts:
    """All that was said so far of one call. `id` is the agent's own name for it."""

    id: str
    kind: str = "other"
    title: str = ""
    status: str = "pending"
    given: Any = None
    gave: Any = None

    @property
    def effect(self) -> Effect:
        return _EFFECTS.get(self.kind, "external")

    @property
    def begun(self) -> bool:
        """Has it begun, or is all known that will be known before it does?"""
        return self.status != "pending" or bool(self.given)

    @property
    def over(self) -> bool:
        return self.status in _OVER

    @property
    def arguments(self) -> Any:
        return self.given if self.given not in (None, {}, "") else self.title

    def told(self, update: Mapping[str, Any]) -> CallFacts:
        """With what one more `tool_call` or `tool_call_update` says."""
        now: dict[str, Any] = {}
        for name in ("kind", "title", "status"):
            if isinstance(update.get(name), str):
                now[name] = update[name][:LARGEST]
        if update.get("rawInput") is not None:
            now["given"] = bounded(update["rawInput"])
        gave = _result(update)
        if gave is not None:
            now["gave"] = bounded(gave)
        return replace(self, **now)


def _result(update: Mapping[str, Any]) -> Any:
    said = []
    content = update.get("content")
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        inner = part.get("content")
        if isinstance(inner, dict) and isinstance(inner.get("text"), str):
            said.append(inner["text"][:LARGEST])
        elif part.get("type") == "diff":
            said.append(f"[diff {part.get('path')}]")
        elif part.get("type") == "terminal":
            said.append(f"[terminal {part.get('terminalId')}]")
    return "\n".join(said) if said else update.get("rawOutput")


def bounded(value: Any) -> Any:
    """A value as it may stand in a log: what is too large, or no JSON, is the beginning of its text."""
    if isinstance(value, str):
        value = value.encode("utf-8", "backslashreplace").decode()
        return value if len(value) <= LARGEST else f"{value[:LARGEST]} [... {len(value) - LARGEST:,} more]"
    try:
        text = json.dumps(value, ensure_ascii=False)
        if len(text) <= LARGEST:
            canon.freeze(value)
            return value
    except (ValueError, RecursionError, TypeError):
        text = repr(value)
    return bounded(text)
