"""Save and load a fold at a seq, bound to the log's digest there.

A snapshot is a cache: without any, or with only bad ones, everything is the same but slower. One line of JSON holds
its digest, a second the body: the versions of schema and fold, the place in the log, the state. It holds no contents,
only what the log's facts say. Written by temporary file, sync and rename; there is no pointer to the newest.

Every misfit is a miss, counted by its name: `corrupt`, `version`, `ahead` of the log, `foreign` (another log's, or one
whose log is not what it was), or `quarantined`: one of that version once led elsewhere than its log, so that none of
it is trusted or written any more, in any run of the store.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from checkpointer import canon, disk, state
from checkpointer.canon import FrozenDict
from checkpointer.collector import uncollected
from checkpointer.errors import CheckpointerError
from checkpointer.events import Commit, Declared, Holder, Terms
from checkpointer.state import Attempt, Call, RunState
from checkpointer.state.parts import Approval, Compaction, Doubt, Message, Named, Resumption, Step, Tokens, Waiting
from checkpointer.trail import Ledger, Trail

SCHEMA: Final = 1
_NAME = re.compile(r"(\d{1,18})\.json")
_TALLY = "counters.json"
_BANNED = "quarantined-snapshots"


def plain(of: RunState) -> dict[str, Any]:
    """A state as JSON can hold it; `restored` is its inverse."""
    data = dict(of.__dict__)
    data["owner"] = of.owner.model_dump() if of.owner else None
    data["tools"] = [[t.name, t.digest] for t in of.tools]
    data["commit"] = of.commit.model_dump() if of.commit else None
    data["messages"] = {context: [_short(row) for row in trail.rows()] for context, trail in of.messages.items()}
    data["trajectory"] = of.trajectory.rows()
    data["readings"] = of.readings.rows()
    for name in ("over", "signatures", "named", "watched"):
        data[name] = getattr(of, name).entries()
    data["over"] = [_row(row) for _, row in data["over"]]
    data["live"] = [_row(call) for call in of.live.values()]
    data["waiting"] = [[list(slot), *waits] for slot, waits in of.waiting.items()]
    data["doubts"] = list(of.doubts.values())
    data["approvals"] = list(of.approvals.values())
    return data


_LEAST = Call._field_defaults
_DEFAULTS = tuple(_LEAST.get(name) for name in Call._fields)
_GIVEN = len(Call._fields) - len(_LEAST)
_SLOT, _NEWEST, _ORIGIN = (Call._fields.index(name) for name in ("slot", "newest", "origin"))


def _row(call: tuple[Any, ...]) -> list[Any]:
    """A call's fields without the defaults at its end."""
    row = list(call)
    newest: Attempt | None = row[_NEWEST]
    if newest is not None:
        terms = newest.terms.model_dump(mode="json") if newest.terms else None
        commit = newest.commit.model_dump() if newest.commit else None
        row[_NEWEST] = [
            newest.first_at,
            newest.at,
            commit,
            terms,
            newest.parent,
            newest.compensates,
        ]
    n = len(row)
    while n > _GIVEN and row[n - 1] == _DEFAULTS[n - 1]:
        n -= 1
    return row[:n]


def _dumps(body: dict[str, Any]) -> bytes:
    """Plain values, in a form only for this program: the way of `canon` would take many times as long."""
    try:
        return to_json(body)
    except PydanticSerializationError:  # half of a surrogate pair, which a log may hold
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass")


_ENDS = tuple(_DEFAULTS[n:] for n in range(len(_DEFAULTS) + 1))


def _call(row: list[Any]) -> tuple[Any, ...]:
    n = len(row)
    row += _ENDS[n]
    slot = row[_SLOT]
    if type(slot) is list:
        row[_SLOT] = tuple(slot)
    if n <= _NEWEST:
        return tuple(row)
    if row[_ORIGIN] is not None:
        row[_ORIGIN] = tuple(row[_ORIGIN])
    if row[_NEWEST] is not None:
        first_at, at, commit, terms, parent, compensates = row[_NEWEST]
        made = Terms.model_validate_json(canon.dumps(canon.freeze(terms))) if terms else None
        row[_NEWEST] = Attempt(first_at, at, _commit(commit), made, parent, compensates)
    return tuple(row)


def _commit(data: Any) -> Commit | None:
    return Commit.model_validate(data) if data is not None else None


def _short(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A message's row; its end is left out where the message is its own source and answers nothing."""
    return row[:3] if row[0] == row[3] and row[4] is None and row[5] is None else row


def _message(row: list[Any]) -> tuple[Any, ...]:
    if len(row) == 3:
        return (row[0], row[1], row[2], row[0], None, None)
    return (row[0], row[1], row[2], row[3], row[4], row[5] and tuple(row[5]))


def restored(data: dict[str, Any]) -> RunState:
    """The state that `plain` gave. Raises ValueError, KeyError or TypeError on anything else."""
    if set(data) != set(RunState.__dataclass_fields__):
        raise ValueError("other fields than a state has")
    over = [_call(row) for row in data["over"]]
    live = [Call._make(_call(row)) for row in data["live"]]
    data = {
        **data,
        "owner": Holder.model_validate(data["owner"]) if data["owner"] else None,
        "tools": tuple(Declared(name=name, digest=digest) for name, digest in data["tools"]),
        "commit": _commit(data["commit"]),
        "usage": Tokens._make(data["usage"]),
        "watched": Ledger(int, ((key, seq) for key, seq in data["watched"])),
        "readings": Trail(int, data["readings"]),
        "resumptions": tuple(Resumption._make(r) for r in data["resumptions"]),
        "compactions": tuple(Compaction._make(c) for c in data["compactions"]),
        "messages": FrozenDict(
            {name: Trail(Message._make, map(_message, rows)) for name, rows in data["messages"].items()}
        ),
        "trajectory": Trail(Step._make, map(tuple, data["trajectory"])),
        "over": Ledger(Call._make, ((row[0], row) for row in over)),
        "signatures": Ledger(str, ((key, row) for key, row in data["signatures"])),
        "named": Ledger(Named._make, ((key, tuple(row)) for key, row in data["named"])),
        "live": FrozenDict({call.key: call for call in live}),
        "waiting": FrozenDict({tuple(slot): Waiting(key, context) for slot, key, context in data["waiting"]}),
        "doubts": FrozenDict({row[0]: Doubt._make(row) for row in data["doubts"]}),
        "approvals": FrozenDict({row[0]: Approval._make(row) for row in data["approvals"]}),
    }
    new: RunState = object.__new__(RunState)
    new.__dict__.update(data)
    return new


def _version() -> str:
    """What a snapshot must be of to be read here."""
    return f"{SCHEMA}-{state.version()}"


class Snapshots:
    """The snapshots of one run, in a directory that may be deleted at any time. `misses` counts what did not fit.

    Beside the directories of all runs lies a file of the versions that are quarantined; without it, none is.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._banned = os.path.join(os.path.dirname(os.path.dirname(directory)), _BANNED)
        self.misses: Counter[str] = Counter()

    def save(self, of: RunState, total: str, offset: int) -> None:
        """Keep a state, which is that at digest `total` and the log's own `offset`. Raises `NoSpace`, `Failed`."""
        body: dict[str, Any] = {"schema": SCHEMA, "fold": state.version(), "run": of.run, "seq": of.seq, "sum": total}
        body.update(offset=offset, state=plain(of))
        data = _dumps(body)
        with disk.plain_errors("a snapshot"):
            if not os.path.isdir(self._directory):
                disk.make_directory(self._directory)
            path = os.path.join(self._directory, f"{of.seq}.json")
            disk.replace(path, sha256(data).hexdigest().encode() + b"\n" + data + b"\n")

    def tally(self) -> dict[str, float]:
        """What was counted by whoever wrote snapshots here, and is not forgotten with its process."""
        try:
            with open(os.path.join(self._directory, _TALLY), "rb") as f:
                found = from_json(f.read(4096))
            return {str(name): float(n) for name, n in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def count(self, **more: float) -> None:
        """Add to the tally. Best effort: two that count at once may lose one's figures."""
        known = self.tally()
        total = {**known, **{name: known.get(name, 0) + n for name, n in more.items()}}
        with contextlib.suppress(OSError, CheckpointerError):
            path = os.path.join(self._directory, _TALLY)
            disk.replace(path, canon.dumps(canon.freeze(total)) + b"\n", durable=False)

    @property
    def quarantined(self) -> bool:
        """Did a snapshot of today's version once lead elsewhere than its log?"""
        try:
            with open(self._banned, encoding="ascii", errors="replace") as f:
                return _version() in f.read().split()
        except OSError:
            return False

    def seqs(self) -> list[int]:
        """Where there are snapshots, newest first."""
        try:
            names = os.listdir(self._directory)
        except OSError:
            return []
        return sorted((int(m[1]) for name in names if (m := _NAME.fullmatch(name))), reverse=True)

    def load(self, fits: Callable[[int, str, int], bool | None]) -> tuple[RunState, str, int] | None:
        """The newest that fits: state, digest, offset; or None.

        `fits(seq, sum, offset)` says whether the log has that place: None if it is not that long.
        """
        seqs = self.seqs()
        if seqs and self.quarantined:
            self.misses["quarantined"] += len(seqs)
            return None
        for seq in seqs:
            with uncollected():
                found = self._read(seq)
            if isinstance(found, str):
                self.misses[found] += 1
                continue
            _, total, offset = found
            here = fits(seq, total, offset)
            if here:
                return found
            self.misses["ahead" if here is None else "foreign"] += 1
        return None

    def every(self, fits: Callable[[int, str, int], bool | None]) -> Iterator[tuple[RunState, str, int]]:
        """All that fit, oldest first: to compare them with their log. As `load` otherwise; misses are not counted."""
        for seq in reversed(self.seqs()) if not self.quarantined else ():
            found = self._read(seq)
            if not isinstance(found, str) and fits(seq, found[1], found[2]):
                yield found

    def _read(self, seq: int) -> tuple[RunState, str, int] | str:
        """A snapshot, or the name of why it is none."""
        try:
            with open(os.path.join(self._directory, f"{seq}.json"), "rb") as f:
                digest, _, data = f.read().partition(b"\n")
            data = data.removesuffix(b"\n")
            if sha256(data).hexdigest().encode() != digest:
                return "corrupt"
            body = from_json(data)
            if (body["schema"], body["fold"]) != (SCHEMA, state.version()):
                return "version"
            if body["seq"] != seq or body["state"]["seq"] != seq:
                return "discontinuous"
            return restored(body["state"]), body["sum"], body["offset"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return "corrupt"

    def drop(self, keep: int = 0) -> None:
        """Remove all but the newest `keep`."""
        for seq in self.seqs()[keep:]:
            with contextlib.suppress(OSError, CheckpointerError):
                disk.remove(os.path.join(self._directory, f"{seq}.json"), missing_ok=True)

    def quarantine(self) -> None:
        """Trust no snapshot of today's version any more, of any run, and set those of this run aside: one of them led
        elsewhere than the log. Raises `NoSpace`, `Failed` where that cannot be written down.
        """
        if not self.quarantined:
            with disk.plain_errors("the list of quarantined snapshots"):
                known = b""
                with contextlib.suppress(FileNotFoundError), open(self._banned, "rb") as f:
                    known = f.read()
                disk.replace(self._banned, known + _version().encode() + b"\n")
        for seq in self.seqs():
            with contextlib.suppress(OSError):
                path = os.path.join(self._directory, f"{seq}.json")
                disk.rename(path, f"{path}.{state.version()}.bad")
