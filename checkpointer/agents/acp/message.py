"""What a line says, as far as we need to know, and lines of our own. Pure; what cannot be understood says nothing.

Bytes that are not ours to change are never built anew: what is added to a line is put in between.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\r\n]*")
HEAD: Final = 1 << 16
"""Of a line that is passed on in pieces, so many bytes are looked at."""


@dataclass(frozen=True)
class Message:
    """One message of the protocol. `params` is what a request or notification brings, `result` what a response does.

    `failed` says that a response is an error. `head` says that only the beginning of a long line is known.
    """

    kind: Literal["request", "notification", "response"]
    id: Hashable = None
    raw_id: Any = None
    method: str = ""
    params: Mapping[str, Any] | None = None
    result: Any = None
    failed: bool = False
    head: bool = False

    def text(self, name: str) -> str | None:
        """A parameter that is a text, else None."""
        value = (self.params or {}).get(name)
        return value if isinstance(value, str) else None


def read(line: bytes) -> list[Message]:
    """The messages of a whole line: one, those of a batch, or none where it is no message."""
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return []
    found = value if isinstance(value, list) else [value]
    return [m for m in map(_message, found) if m is not None]


def read_head(beginning: bytes) -> list[Message]:
    """What the beginning of a long line tells: method, id and session, where they stand before what is long."""
    known: dict[str, Any] = {}
    text = beginning[:HEAD].decode("utf-8", "replace")
    for name, start, end in _members(text, _SPACE.match(text).end()):  # type: ignore[union-attr]
        if end is not None:
            known[name] = _DECODER.raw_decode(text, start)[0]
        elif name == "params":
            inner = _members(text, start)
            known[name] = {n: _DECODER.raw_decode(text, s)[0] for n, s, e in inner if e is not None}
    message = _message(known)
    return [] if message is None else [Message(**{**message.__dict__, "head": True})]


def _message(value: Any) -> Message | None:
    if not isinstance(value, dict):
        return None
    method, params = value.get("method"), value.get("params")
    named = {"id": same(value["id"]), "raw_id": value["id"]} if "id" in value else {}
    if isinstance(method, str):
        given = params if isinstance(params, dict) else None
        return Message("request" if named else "notification", method=method, params=given, **named)
    if named and ("result" in value or "error" in value):
        return Message("response", result=value.get("result"), failed="error" in value, **named)
    return None


def same(value: Any) -> Hashable:
    """An id as something that can be compared: 1 and 1.0 are one id, 1 and "1" are two."""
    if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return ("json", json.dumps(value, sort_keys=True))


# -- places in a line


def _members(text: str, at: int) -> Iterator[tuple[str, int, int | None]]:
    """The members of the object at a place: name, and where its value begins and ends; None where it goes on."""
    if text[at : at + 1] != "{":
        return
    at = _after(text, at + 1)
    while text[at : at + 1] == '"':
        try:
            name, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        at = _after(text, at)
        if text[at : at + 1] != ":":
            return
        start = _after(text, at + 1)
        try:
            _, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            yield name, start, None
            return
        if end == len(text):  # a number may go on
            yield name, start, None
            return
        yield name, start, end
        at = _after(text, end)
        if text[at : at + 1] != ",":
            return
        at = _after(text, at + 1)


def _after(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _place(text: str, names: Sequence[str]) -> tuple[int, int] | None:
    """Where the value under these names begins and ends. Of a name that stands twice the last counts."""
    start, end = _after(text, 0), len(text)
    for wanted in names:
        found = [(s, e) for name, s, e in _members(text, start) if name == wanted and e is not None]
        if not found:
            return None
        start, end = found[-1]
    return start, end


def with_more(line: bytes, names: Sequence[str], more: Sequence[Any], *, first: bool = False) -> bytes:
    """The line with elements added to the array under these names; every other byte stays. The line itself where
    there is no such array.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return line
    place = _place(text, names) if more else None
    if place is None or text[place[0]] != "[":
        return line
    empty = text[place[0] + 1 : place[1] - 1].strip() == ""
    added = ",".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in more)
    if first:
        at, added = place[0] + 1, added if empty else added + ","
    else:
        at, added = place[1] - 1, added if empty else "," + added
    return (text[:at] + added + text[at:]).encode()


# -- lines of our own


def line(**members: Any) -> bytes:
    """A message of ours as a line."""
    return json.dumps({"jsonrpc": "2.0", **members}, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def update(session: str, kind: str, **members: Any) -> bytes:
    """A `session/update` of ours."""
    return line(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": kind, **members}})


def saying(session: str, text: str) -> bytes:
    """Words of ours that stand in the conversation as they are."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return update(session, "agent_message_chunk", content={"type": "text", "text": f"{fence}\n{text}\n{fence}\n"})


def words_of(prompt: Any) -> str:
    """The text of a prompt's blocks; what is no text is named by its kind."""
    said = []
    for block in prompt if isinstance(prompt, list) else ():
        if not isinstance(block, dict):
            continue
        if isinstance(block.get("text"), str):
            said.append(block["text"])
        elif block.get("type") == "resource_link":
            said.append(f"[{block.get('name') or block.get('uri')}]")
        elif isinstance(block.get("resource"), dict):
            said.append(f"[{block['resource'].get('uri')}]")
        else:
            said.append(f"[{block.get('type')}]")
    return "\n".join(said)


def only_text(prompt: Any) -> str:
    """The text of a prompt that is one text and nothing else; empty for any other."""
    blocks = [b for b in prompt if b != {"type": "text", "text": ""}] if isinstance(prompt, list) else []
    if len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].get("type") == "text":
        return str(blocks[0].get("text") or "")
    return ""
