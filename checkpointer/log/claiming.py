"""Becoming the one who may write: a claim, or acting under somebody's."""

from __future__ import annotations

from checkpointer import lease, machine, release
from checkpointer.errors import Behind, Busy, Fenced, Finished, NoStore
from checkpointer.events import RunResumed, RunStarted
from checkpointer.log.pen import Folded, Pen, catch_up, seal
from checkpointer.log.place import Writable
from checkpointer.state import RunState, apply, version

_TRIES = 20
_SAME = (
    "owner", "writer", "fold", "durability", "tools", "prompt", "agent", "session", "ttl_ms", "command", "directory",
    "environment",
)  # fmt: skip


def claim(
    log: Writable,
    begin: RunStarted,
    *,
    take_over: bool = False,
    shared: bool = False,
    known: Folded = Folded(),  # noqa: B008 - immutable
    world: machine.World | None = None,
) -> Pen:
    """Own a run: begin it with `begin`, or resume it with what `begin` says of the owner.

    The claim is an event under the next epoch, on disk when this returns; from then on every pen of an older epoch is
    fenced. Raises `Busy` while an owner lives or, without `take_over`, may live; `Finished`; `LogDamaged`; what
    `append` raises.
    """
    world = world or machine.World()
    begin = begin.model_copy(
        update={"fold": begin.fold or version(), "writer": begin.writer or f"checkpointer {release.VERSION}"}
    )
    for _ in range(_TRIES):
        try:
            known = catch_up(log, known)
        except NoStore:
            known = Folded()
        state = known.state
        if state.status == "finished":
            raise Finished(f"run {log.run} is finished")
        event = begin if state.status == "new" else _resumed(log, state, begin, take_over, world)
        place = {"seq": state.seq + 1, "w": state.seq + 1, "n": 1, "epoch": state.epoch + 1, "at": world.at()}
        event = event.model_copy(update={**place, "id": event.id or world.event_id(), "v": event.version})
        after = apply(state, event)
        lines = seal(log, [event], known.position.sum, world)
        now = world.now()
        try:
            position = log.append(known.position, event.epoch, lines, lease=lease.grant(event.epoch, now, begin.ttl_ms))
        except (Behind, Fenced):
            continue  # somebody was faster: look at the log again, and at who owns it now
        return Pen(
            log,
            Folded(after, position),
            event.epoch,
            shared=shared,
            world=world,
            until_ms=now.monotonic_ms + begin.ttl_ms,
            durability=begin.durability,
        )
    raise Busy(f"others claimed run {log.run} {_TRIES} times in a row", kept="nothing was written")


def _resumed(log: Writable, state: RunState, begin: RunStarted, take_over: bool, world: machine.World) -> RunResumed:
    assert state.owner is not None
    owner = lease.Owner(state.owner, state.epoch, state.status == "released")
    alive = lease.liveness(state.owner, world.here(), world.started(state.owner.pid))
    late = lease.expired(log.lease(), state.epoch, world.now())
    after = lease.claim(owner, lease.Witness(alive, late), take_over=take_over)
    return RunResumed(
        after=after,
        previous=state.owner,
        previous_epoch=state.epoch,
        last_at=state.at,
        **{name: getattr(begin, name) for name in _SAME},
    )


def delegate(
    log: Writable,
    epoch: int,
    *,
    known: Folded = Folded(),  # noqa: B008 - immutable
    world: machine.World | None = None,
) -> Pen:
    """A shared pen under an epoch that somebody else claimed and told us (`CKPT_EPOCH`).

    Raises `Fenced` if the run is in another epoch by now, `Finished`, `NoStore`.
    """
    known = catch_up(log, known)
    if known.state.status == "finished":
        raise Finished(f"run {log.run} is finished")
    if known.state.epoch != epoch:
        raise Fenced(f"run {log.run} is in epoch {known.state.epoch}, not {epoch}", epoch=known.state.epoch)
    return Pen(log, known, epoch, shared=True, world=world or machine.World())
