"""Where a text that must not be kept stands in a workspace's runs, and taking it out of them.

Found is what stands there as such: not in compressed or encoded form. What an event says in words is taken out whole,
with the event's other words, and the log says so; its facts (names, numbers, keys) cannot be: they hold the chain
together.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from checkpointer import disk, machine
from checkpointer.errors import CheckpointerError
from checkpointer.log import JsonlLog, catch_up
from checkpointer.log.rewrite import redact
from checkpointer.run import keeper
from checkpointer.run.inheriting import refuse_living
from checkpointer.workspace.workspace import Workspace


@dataclass
class Leak:
    """What one run holds of a text. `seqs` are events whose words can be taken out, `facts` those that hold it where
    nothing can be; `letters` lie in a box, `files` beside the log. `handle` is for people, `problem` why it cannot be
    read.
    """

    run: str
    handle: str
    seqs: list[int] = field(default_factory=list)
    facts: list[int] = field(default_factory=list)
    letters: list[tuple[str, str]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    problem: str = ""

    def __bool__(self) -> bool:
        return bool(self.seqs or self.facts or self.letters or self.files)


def needles(text: str) -> tuple[bytes, ...]:
    """A text as it may stand in bytes: as it is, and written as JSON once or twice."""
    once = json.dumps(text, ensure_ascii=False)[1:-1]
    twice = json.dumps(once, ensure_ascii=False)[1:-1]
    ascii_only = json.dumps(text)[1:-1]
    found = dict.fromkeys(one.encode("utf-8", "surrogatepass") for one in (text, once, twice, ascii_only))
    return tuple(found)


def look(log: JsonlLog, text: str) -> Leak:
    """Where a run holds a text. Never raises for a log that cannot be read: `problem` says so."""
    found, wanted = Leak(log.run, log.run), needles(text)
    named: set[str] = set()
    try:
        for record in log.read():
            number = getattr(record.event, "number", None) if record.seq == 1 else None
            found.handle = f"r{number}" if number is not None else found.handle
            e, _, rest = record.line.partition(b'"},"sum":"')
            if holds(e, wanted):
                found.facts.append(record.seq)
            large = [name for name, _ in record.objects().values()]
            named.update(large)
            if holds(rest, wanted) or any(_large(log, name, wanted) for name in large):
                found.seqs.append(record.seq)
    except CheckpointerError as error:
        found.problem = error.message
    for box in ("inbox", "late"):
        found.letters += [(box, name) for name, line in log.letters(box) if holds(line, wanted)]
    for where, _, names in os.walk(log.directory):
        kind = os.path.relpath(where, log.directory)
        for name in names:
            path = os.path.join(where, name)
            left = kind == "objects" and name not in named and not found.problem  # by a purge that was cut short
            aside = left or kind in ("snapshots", "torn") or name.endswith((".old.jsonl", ".tmp"))
            if aside and holds(_bytes(path), wanted):
                found.files.append(path)
    return found


def in_checkpoints(workspace: Workspace, text: str) -> dict[bytes, list[int]]:
    """The paths whose content holds a text, with the numbers of the checkpoints in which it does. Reads every content
    once.
    """
    store, wanted = workspace.store, needles(text)[:1]
    known: dict[bytes, bool] = {}
    found: dict[bytes, list[int]] = {}
    for checkpoint in {c.number: c for c in (*store.kept(), *store.checkpoints())}.values():
        for path, entry in store.tree(checkpoint).walk():
            if entry.oid and entry.oid not in known:
                known[entry.oid] = _streamed(workspace, entry.oid, wanted)
            if entry.oid and known[entry.oid]:
                found.setdefault(path, []).append(checkpoint.number)
    return found


_TELLING = 8
"""A line of fewer characters than this stands in many places that have nothing to do with each other."""
_MOST_LINES = 200
_MOST_BYTES = 1 << 20


def told_lines(workspace: Workspace, paths: Sequence[bytes]) -> list[str]:
    """Lines by which the contents that checkpoints hold at these paths would be known where they were written down,
    the longest first. Not all of a long file, and none of what is no text.
    """
    store, seen, found = workspace.store, set[bytes](), set[str]()
    for checkpoint in (*store.kept(), *store.checkpoints()):
        tree = store.tree(checkpoint)
        for path in paths:
            for _, entry in tree.walk(path):
                if entry.oid and entry.oid not in seen:
                    seen.add(entry.oid)
                    with contextlib.suppress(CheckpointerError, UnicodeDecodeError):
                        chunk = next(iter(store.objects.stream(entry.oid)), b"")[:_MOST_BYTES]
                        found.update(line.strip() for line in chunk.decode().splitlines())
    return sorted((line for line in found if len(line) >= _TELLING), key=lambda line: (-len(line), line))[:_MOST_LINES]


def _streamed(workspace: Workspace, oid: bytes, wanted: Sequence[bytes]) -> bool:
    tail, most = b"", max(map(len, wanted))
    with contextlib.suppress(CheckpointerError):
        for chunk in workspace.store.objects.stream(oid):
            if holds(data := tail + chunk, wanted):
                return True
            tail = data[-most:]
    return False


def elsewhere(workspace: Workspace, text: str) -> list[str]:
    """Files of the store, beside checkpoints and runs' logs, that hold a text: what a purge does not reach."""
    return written_down(workspace, (text,))


def written_down(workspace: Workspace, texts: Sequence[str]) -> list[str]:
    """Files of the store, beside checkpoints, that hold one of these texts, runs' logs among them."""
    wanted, found = [needle for text in texts for needle in needles(text)], []
    for where, directories, names in os.walk(workspace.directory):
        directories[:] = [d for d in directories if d != "shadow.git"]
        found += [path for path in (os.path.join(where, n) for n in names) if holds(_bytes(path), wanted)]
    return sorted(found)


def holds(data: bytes, wanted: Sequence[bytes]) -> bool:
    return any(needle in data for needle in wanted)


def _large(log: JsonlLog, name: str, wanted: Sequence[bytes]) -> bool:
    with contextlib.suppress(CheckpointerError):
        return holds(log.fetch(name), wanted)
    return False


def _bytes(path: str) -> bytes:
    with contextlib.suppress(OSError), open(path, "rb") as f:
        return f.read()
    return b""


def take_out(log: JsonlLog, leak: Leak, why: str) -> None:
    """Take what was found out of a run for good, as far as it can be. Safe to be killed anywhere, and done again.

    Raises `Busy` while the run's owner lives or may live, `Behind` if somebody wrote meanwhile, what writing raises.
    """
    refuse_living(log, catch_up(log).state, f"nothing can be taken out of {leak.handle} yet")
    if leak.seqs:
        redact(log, leak.seqs, why, world=machine.World())
    for box, name in leak.letters:
        log.discard(box, name)
    with disk.plain_errors(f"run {log.run}"):
        for path in leak.files:
            disk.remove(path, missing_ok=True)
    keeper.of(log).drop()
