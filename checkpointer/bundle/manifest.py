"""What a bundle says of itself: `manifest.json`, its first member."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from checkpointer.errors import Damaged, NewerFormat
from checkpointer.workspace.entry import from_json, to_json

NAME: Final = "manifest.json"
SUM: Final = "manifest.sha256"
EVENTS: Final = "events.jsonl"
OBJECTS: Final = "objects/"
PACK: Final = "checkpoints.pack"
KIND: Final = "ckpt-run"
FORMAT: Final = 1
LIMIT: Final = 64 << 20
"""Bytes that a manifest may have."""
_HEX64 = re.compile(r"[0-9a-f]{64}")
_HEX40 = re.compile(r"[0-9a-f]{40}")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST = 10**12
_LONGEST = 1000


@dataclass(frozen=True)
class Kept:
    """One checkpoint of a bundle: its number, its commit, the names it was given after it was made."""

    number: int
    commit: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """`run` is the run's own name, `handle` what people call it. `chain` are the checkpoints of the stretch, `alone`
    older ones, both oldest first; `shallow` commits whose parents are not here, `missing` numbers that the log names
    and that are kept no more, `rewritten` the ids in the log that a purge replaced. `members` are all files but the
    manifest, in their order: size and SHA-256.
    """

    run: str
    handle: str
    workspace: bytes
    at: str
    writer: str
    events: int
    sum: str
    chain: tuple[Kept, ...] = ()
    alone: tuple[Kept, ...] = ()
    shallow: tuple[str, ...] = ()
    missing: tuple[int, ...] = ()
    rewritten: dict[str, str] = field(default_factory=dict)
    members: dict[str, tuple[int, str]] = field(default_factory=dict)

    def encode(self) -> bytes:
        value = {
            "kind": KIND,
            "format": FORMAT,
            "run": self.run,
            "handle": self.handle,
            "workspace": to_json(self.workspace),
            "at": self.at,
            "writer": self.writer,
            "log": {"events": self.events, "sum": self.sum},
            "checkpoints": [_kept(one) for one in self.chain],
            "alone": [_kept(one) for one in self.alone],
            "shallow": list(self.shallow),
            "missing": list(self.missing),
            "rewritten": self.rewritten,
            "members": {name: {"bytes": size, "sha256": sha} for name, (size, sha) in self.members.items()},
        }
        return json.dumps(value, indent=1, ensure_ascii=True).encode() + b"\n"


def sum_of(data: bytes) -> bytes:
    """What stands in `manifest.sha256`, for `sha256sum --check`."""
    return f"{sha256(data).hexdigest()}  {NAME}\n".encode()


def _kept(one: Kept) -> dict[str, Any]:
    return {"number": one.number, "commit": one.commit, **({"labels": list(one.labels)} if one.labels else {})}


def decode(data: bytes) -> Manifest:
    """Raises `Damaged` on anything that `encode` does not write, `NewerFormat`."""
    try:
        value = json.loads(data)
        if value["kind"] != KIND:
            raise ValueError("it is of another kind")
        if type(value["format"]) is int and value["format"] > FORMAT:
            raise NewerFormat(f"this bundle has format {value['format']}, this program knows {FORMAT}")
        found = Manifest(
            run=_matching(_RUN, value["run"]),
            handle=_matching(_RUN, value["handle"]),
            workspace=from_json(value["workspace"]),
            at=_text(value["at"]),
            writer=_text(value["writer"]),
            events=_count(value["log"]["events"]),
            sum=_matching(_HEX64, value["log"]["sum"]),
            chain=tuple(_read_kept(one) for one in value["checkpoints"]),
            alone=tuple(_read_kept(one) for one in value["alone"]),
            shallow=tuple(_matching(_HEX40, one) for one in value["shallow"]),
            missing=tuple(_count(one) for one in value["missing"]),
            rewritten={_matching(_HEX40, a): _matching(_HEX40, b) for a, b in value["rewritten"].items()},
            members={
                name: (_size(one["bytes"]), _matching(_HEX64, one["sha256"])) for name, one in value["members"].items()
            },
        )
        if found.encode() != data:
            raise ValueError("there is more in it, or it is in another form")
        _check(found)
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Damaged(f"its {NAME} is not what an export writes: {e}") from e


def _check(found: Manifest) -> None:
    numbers = [one.number for one in (*found.alone, *found.chain)]
    if numbers != sorted(set(numbers)):
        raise ValueError("its checkpoints are not in order")
    if not set(found.shallow) <= {one.commit for one in (*found.alone, *found.chain[:1])}:
        raise ValueError("a cut where none can be")
    names = [name for name in found.members if name not in (EVENTS, PACK)]
    objects = sorted(name for name in names)
    for name in names:
        if not name.startswith(OBJECTS) or name.removeprefix(OBJECTS) != found.members[name][1]:
            raise ValueError(f"a member called {name}")
    expected = [EVENTS, *objects, *([PACK] if numbers else [])]
    if list(found.members) != expected:
        raise ValueError("its members are not those that it must have")


def _read_kept(value: dict[str, Any]) -> Kept:
    return Kept(
        _count(value["number"]),
        _matching(_HEX40, value["commit"]),
        tuple(_text(one) for one in value.get("labels", [])),
    )


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{str(value)[:80]!r} is not what must stand there")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ValueError("a text that is none, or is too long")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 < value < _MOST:
        raise ValueError(f"{str(value)[:40]} is no number of ours")
    return value


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 60:
        raise ValueError(f"{str(value)[:40]} is no size")
    return value
