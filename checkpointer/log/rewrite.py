"""The two reasons to write a log file anew: contents that must go, and a meaning that changed.

Both work on a copy, which takes the old one's place in one step while the log is held. A redaction keeps the chain, so
that every digest others hold (snapshots, forks, pens) still fits. A migration makes a new chain and keeps the old
file beside it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

from checkpointer import canon, lease, machine, record, upcasters
from checkpointer.errors import Damaged, Failed, IllegalEvent, NothingToDo, Usage
from checkpointer.events import TYPES, AnyEvent, LogRedacted
from checkpointer.line import NO_SUM, Raw
from checkpointer.log.jsonl import JsonlLog
from checkpointer.log.pen import catch_up, seal
from checkpointer.state import RunState, apply, fold


def redact(log: JsonlLog, seqs: Collection[int], why: str, *, by: str = "person", world: machine.World) -> LogRedacted:
    """Take the contents of these events out of the log, and append an event that says so; also in a finished run.

    Large contents go with them, unless another event holds the same, and so do the bytes of all torn writes. Facts,
    digests and the chain stay: what is left verifies as "redacted". A pen that is in use finds itself behind. A copy on
    another disk, a backup or a snapshot of the file system is not reached, nor are letters. Raises `Usage` for an event
    that is not there, `Behind` if somebody wrote meanwhile.
    """
    known = catch_up(log)
    missing = sorted(set(seqs) - set(range(1, known.position.seq + 1)))
    if missing or not seqs:
        raise Usage(f"run {log.run} has no event {missing[0] if missing else 'to redact'}")
    place = {"seq": known.state.seq + 1, "w": known.state.seq + 1, "epoch": known.state.epoch, "at": world.at()}
    event = LogRedacted(seqs=tuple(sorted(seqs)), by=by, why=why).model_copy(update={**place, "id": world.event_id()})
    apply(known.state, event)
    kept: set[str] = set()
    gone: set[str] = set()
    lines = []
    for one in log.read():
        held = {name for name, _ in one.objects().values()}
        if one.seq in seqs:
            gone |= held
            lines.append(record.redact(one.line) + b"\n")
        else:
            kept |= held
            lines.append(one.line + b"\n")
    lines += [sealed.line for sealed in seal(log, [event], known.position.sum, world)]
    log.swap(b"".join(lines), known.position)
    for name in gone - kept:
        log.forget(name)
    log.forget_torn()
    return event


class Migration(NamedTuple):
    """What writing a log in today's words comes to. `changed` counts the events that stand in older ones, by type;
    `kept` is the path under which the old log is kept, empty where nothing was written.
    """

    events: int
    changed: dict[str, int]
    kept: str = ""


def migrate(log: JsonlLog, *, world: machine.World, take_over: bool = False, dry: bool = False) -> Migration:
    """Write the log in today's words, and keep the old one beside it; with `dry` only say what that would come to.

    Events keep their seqs, ids and times. Their digests are new: snapshots no longer fit, and a run that inherits from
    this one names a digest that is in the old file only. Raises `NothingToDo`, `Busy` while an owner lives or, without
    `take_over`, may live, `NewerFormat` for words that this program does not know yet, `Failed` where the events do not
    make sense, `Behind` if somebody wrote meanwhile, `LogDamaged`, `NoStore`.
    """
    lines: list[bytes] = []
    before: list[dict[str, Any]] = []
    made: list[AnyEvent] = []
    objects: list[tuple[str, bytes]] = []
    total, changed = NO_SUM, Counter[str]()
    whole = log.raw()
    for one in whole:
        if one.event.v != getattr(TYPES.get(one.event.type), "version", one.event.v):
            changed[one.event.type] += 1
        event, facts = _translated(log, one, before)
        sealed = (
            record.encode(event, total, world.salt())
            if one.d is not None
            else record.encode_redacted(event, total, one.e["dd"])
        )
        objects += sealed.objects
        total = sealed.sum
        before.append(facts)
        made.append(event)
        lines.append(sealed.line)
    if not changed:
        raise NothingToDo(f"run {log.run} is written in today's words already", kept="nothing was written")
    try:
        state = fold(made)
    except IllegalEvent as e:
        raise Failed(f"run {log.run} cannot be migrated: {e.message}", kept="the log is as it was") from e
    _refuse_living(log, state, world, take_over)
    if dry:
        return Migration(len(made), dict(changed))
    log.keep(objects)
    name = f"events.{world.event_id()[:8]}.old.jsonl"
    log.swap(b"".join(lines), whole.position, name)
    return Migration(len(made), dict(changed), os.path.join(log.directory, name))


def _refuse_living(log: JsonlLog, state: RunState, world: machine.World, take_over: bool) -> None:
    """Raises `Busy` while somebody owns the run who may still write in the old words."""
    if state.status == "owned" and state.owner is not None:
        alive = lease.liveness(state.owner, world.here(), world.started(state.owner.pid))
        late = lease.expired(log.lease(), state.epoch, world.now())
        lease.claim(lease.Owner(state.owner, state.epoch, False), lease.Witness(alive, late), take_over=take_over)


def _translated(log: JsonlLog, one: Raw, before: list[dict[str, Any]]) -> tuple[AnyEvent, dict[str, Any]]:
    d = dict(one.d or {})
    for name, held in dict(d.pop(record.OBJECTS, {})).items():
        d[name] = canon.loads(log.fetch(held["sha256"]))
    facts, contents = upcasters.migrate(dict(one.e), d if one.d is not None else None, before)
    try:
        event: Any = TYPES[facts["type"]].model_validate({**facts, **(contents or {})}, extra="ignore")
    except ValueError as e:
        raise Damaged(f"event {one.seq} of run {log.run} does not fit {facts['type']}: {e}") from e
    return event, facts
