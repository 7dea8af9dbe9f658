"""One line of the log: envelope, digests; encode and decode.

    {"e":{"seq":842,"w":842,"v":1,"type":...,...,"dd":"<dd>"},"sum":"<sum>","salt":"<salt>","d":{...}}

`dd` is sha256(salt, the stored bytes of `d`); `sum` is sha256(the previous line's sum, the stored bytes of `e`); both
and the salt are lower-case hex, and it is their text that is hashed. The first line's previous sum is empty. A purge
drops `salt` and `d`; the chain stays. Lines end with one newline and are split on nothing else. Digests are taken of
stored bytes and never of a second serialisation.

A field of `d` that is large stands beside the log: `"objects":{"result":{"bytes":n,"sha256":"..."}}` in its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from checkpointer import canon, redaction, upcasters
from checkpointer.errors import Damaged, LogDamaged
from checkpointer.events import ABSENT, ENVELOPE, TYPES, AnyEvent, Event, content_fields
from checkpointer.line import HEAD, SEAM, BadLine, digest, head_of, parts

LARGE: Final = 64 * 1024
"""Contents of more bytes than this are kept beside the log."""

OBJECTS: Final = "objects"
"""The member of `d` that names what is kept beside the log; no field may be called so."""


class Encoded(NamedTuple):
    """A line with its newline, its sum, and the large contents to keep beside it: `(sha256, bytes)`."""

    line: bytes
    sum: str
    objects: tuple[tuple[str, bytes], ...]


def encode(event: AnyEvent, previous: str, salt: str, *, large: int = LARGE) -> Encoded:
    """The line of an event that has its place. Raises ValueError where the event may not be written."""
    reason = event.missing() or ("" if event.seq > 0 and event.id and event.at else "it has no place in a log yet")
    if reason:
        raise ValueError(f"{event.type}: {reason}")
    d, objects = _contents(event, large)
    e = _facts(event, digest(salt.encode() + d))
    total = digest(previous.encode() + e)
    line = b'{"e":%b,"sum":"%b","salt":"%b","d":%b}\n' % (e, total.encode(), salt.encode(), d)
    return Encoded(line, total, objects)


def encode_redacted(event: AnyEvent, previous: str, dd: str) -> Encoded:
    """The line of an event whose contents, of digest `dd`, are gone."""
    e = _facts(event, dd)
    total = digest(previous.encode() + e)
    return Encoded(b'{"e":%b,"sum":"%b"}\n' % (e, total.encode()), total, ())


def redact(line: bytes) -> bytes:
    """A line without its newline, and then without its contents. Raises `BadLine`."""
    parts(line)
    return line[: line.index(SEAM) + len(SEAM) + 64] + b'"}'


def _facts(event: Event, dd: str) -> bytes:
    facts = event.model_dump_json(exclude=_left_out(type(event)), exclude_none=True)[1:-1]
    n = f'"n":{event.n},' if event.n != 1 else ""
    head = f'{{"seq":{event.seq},"w":{event.w},{n}"v":{event.v},"type":"{event.type}"'
    parts = [head, f'"id":{_text(event.id)},"at":{_text(event.at)},"epoch":{event.epoch}']
    if event.context is not None:
        parts.append(f'"context":{_text(event.context)}')
    if event.commit is not None:
        parts.append(f'"commit":{event.commit.model_dump_json(exclude_none=True)}')
    elif event.unprotected is not None:
        parts.append(f'"commit":null,"unprotected":{_text(event.unprotected)}')
    if facts:
        parts.append(facts)
    parts.append(f'"dd":"{dd}"}}')
    e = ",".join(parts).encode("utf-8")
    if e.find(SEAM) >= 0:
        raise ValueError(f"{event.type}: a fact that would hide where the line parts")
    return e


@cache
def _left_out(cls: type[Event]) -> set[str]:
    """What does not stand among the facts: the envelope, which is written by hand, and the contents."""
    return {*ENVELOPE, *content_fields(cls)}


def _text(value: str) -> str:
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    return json.dumps(value, ensure_ascii=False)


def _contents(event: Event, large: int) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    kept: list[bytes] = []
    beside: dict[str, dict[str, Any]] = {}
    objects = []
    for name in content_fields(type(event)):
        value = getattr(event, name)
        if value is ABSENT:
            continue
        data = canon.dumps(value)
        cleaned = redaction.in_force().clean(value, data)
        if cleaned is not value:
            data = canon.dumps(canon.freeze(cleaned))
        if len(data) > large:
            found = digest(data)
            beside[name] = {"bytes": len(data), "sha256": found}
            objects.append((found, data))
        else:
            kept.append(b'"%b":%b' % (name.encode(), data))
    if beside:
        kept.append(b'"%b":%b' % (OBJECTS.encode(), canon.dumps(canon.freeze(beside))))
    return b"{%b}" % b",".join(sorted(kept)), tuple(objects)


class Record:
    """One verified line. `event` holds the facts in today's words; contents are loaded when asked for."""

    __slots__ = ("_at", "event", "line", "sum")

    def __init__(self, event: AnyEvent, line: bytes, total: str, at: int) -> None:
        self.event = event
        self.line = line
        self.sum = total
        self._at = at  # where the stored bytes of `d` begin; 0 where they were redacted

    @property
    def seq(self) -> int:
        return self.event.seq

    @property
    def redacted(self) -> bool:
        return self._at == 0

    def objects(self) -> dict[str, tuple[str, int]]:
        """The contents kept beside the log: field -> (sha256, bytes)."""
        if self.redacted:
            return {}
        held = canon.loads(self.line[self._at : -1]).get(OBJECTS, {})
        return {name: (o["sha256"], o["bytes"]) for name, o in held.items()}

    def load(self, fetch: Callable[[str], bytes] | None = None) -> AnyEvent:
        """The event with its contents. Redacted ones stay `ABSENT`, and so do large ones without `fetch`.

        `fetch(sha256)` gives the bytes of a large one. Raises what it raises, and `Damaged`.
        """
        if self.redacted:
            return self.event
        try:
            d = dict(canon.loads(self.line[self._at : -1]))
            beside = d.pop(OBJECTS, {})
            for name, held in beside.items():
                d[name] = canon.loads(fetch(held["sha256"])) if fetch is not None else ABSENT
            cls = type(self.event)
            if cls.version != head_of(self.line).v:
                e = canon.loads(self.line[5 : self.line.index(SEAM) + 2])
                d = upcasters.upcast(dict(e), d)[1] or {}
            found = {name: d.get(name) for name in content_fields(cls)}
            return self.event.model_copy(update=found)
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise Damaged(f"the contents of event {self.seq} cannot be read: {e}") from e


def decode(line: bytes, previous: str | None, seq: int) -> Record:
    """The record of a line without its newline, verified to be number `seq` after the sum `previous`; with None, the
    line is only verified to be whole in itself.

    Raises `BadLine`; `NewerFormat` for a type or version not known here; `NeedsMigration` where a meaning changed;
    `LogDamaged` where the line is just what somebody wrote, and yet does not fit its type.
    """
    head = HEAD.match(line)
    if head is None or int(head[1]) != seq:
        raise BadLine("no record" if head is None else f"it says that it is event {int(head[1])}")
    e, total, at = parts(line)
    if previous is not None and sha256(previous.encode() + e).hexdigest() != total:
        raise BadLine("it does not follow the event before it")
    read = _READERS.get(head.group(4, 5)) or _reader(head.group(4, 5))
    try:
        event = read(e, extra="ignore") if read is not _old else _old(e, line[at:-1] if at else None)
    except (ValidationError, canon.NotJson, KeyError, TypeError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise LogDamaged(f"event {seq} was written, but does not fit {head[5].decode()}: {why}", seq=seq) from error
    return Record(event, line, total, at)


_READERS: dict[tuple[bytes, ...], Callable[..., AnyEvent]] = {}


def _reader(found: tuple[bytes, ...]) -> Callable[..., AnyEvent]:
    """What reads the facts of a version and type, as a line names them; made when first met."""
    version, name = int(found[0]), found[1].decode()
    if upcasters.check(name, version):
        TYPES[name].model_rebuild()
        read: Callable[..., AnyEvent] = TYPES[name].__pydantic_validator__.validate_json
    else:
        read = _old
    _READERS[found] = read
    return read


def _old(e: bytes, d: bytes | None) -> AnyEvent:
    contents = dict(canon.loads(d)) if d is not None else None
    facts, _ = upcasters.upcast(dict(canon.loads(e)), contents)
    cls: Any = TYPES[facts["type"]]
    event: AnyEvent = cls.model_validate(facts, extra="ignore")
    return event
