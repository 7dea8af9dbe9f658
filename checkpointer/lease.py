"""Who may write: `claim(current, witness, take_over)`, and what counts as dead; pure.

The epoch of the log's last whole record says who owns a run. A lease is only a hint about whether that owner lives:
losing it, or reading an old one, changes no answer from "no" to "yes" that the epoch would not take back.

    dead      the same machine, and either its boot is another, or the process counts in our namespace and is gone
    alive     the same machine, boot and namespace, and the process with this number and start time is there
    unknown   anything else

Only `dead` is evidence. A dead owner's run may be claimed at once, an expired lease only when told to take over.
"""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

from checkpointer.errors import Busy
from checkpointer.events import Holder

Liveness = Literal["alive", "dead", "unknown"]
After = Literal["released", "crash", "takeover"]


class Now(NamedTuple):
    """The clocks: `monotonic_ms` since boot `boot`, and `wall_ms` since 1970, which may be set at will."""

    boot: str
    monotonic_ms: int
    wall_ms: int


class Lease(NamedTuple):
    """`lease.json`: until when the owner of `epoch` means to renew it, on both clocks."""

    epoch: int
    boot: str
    until_ms: int
    until_wall_ms: int
    ttl_ms: int

    def encode(self) -> bytes:
        return json.dumps(self._asdict()).encode() + b"\n"


def grant(epoch: int, now: Now, ttl_ms: int) -> Lease:
    """The lease that a claim or a renewal writes."""
    return Lease(epoch, now.boot, now.monotonic_ms + ttl_ms, now.wall_ms + ttl_ms, ttl_ms)


def decode(data: bytes) -> Lease | None:
    """A lease as written, or None: damaged ones are like missing ones."""
    try:
        fields = json.loads(data)
        lease = Lease(**fields)
        numbers = (lease.epoch, lease.until_ms, lease.until_wall_ms, lease.ttl_ms)
        return lease if all(type(n) is int for n in numbers) and isinstance(lease.boot, str) else None
    except (ValueError, TypeError, RecursionError):
        return None


def liveness(owner: Holder, here: Holder, started: str | None) -> Liveness:
    """Does `owner` live? `here` is the asking process; `started` when the process with the owner's number in our
    namespace started, empty if there is none, None if nobody can say.
    """
    if owner.host != here.host or not owner.boot or not here.boot:
        return "unknown"
    if owner.boot != here.boot:
        return "dead"
    if owner.namespace != here.namespace or started is None or not owner.started:
        return "unknown"
    return "alive" if started == owner.started else "dead"


def expired(lease: Lease | None, epoch: int, now: Now) -> bool:
    """Is the owner of `epoch` overdue? A missing, damaged or older lease promises nothing. The wall clock is asked
    only about leases of another boot.
    """
    if lease is None or lease.epoch != epoch:
        return True
    if lease.boot and lease.boot == now.boot:
        return now.monotonic_ms >= lease.until_ms
    return now.wall_ms >= lease.until_wall_ms


class Owner(NamedTuple):
    """Who the log says owns the run, and whether they let go."""

    holder: Holder
    epoch: int
    released: bool


class Witness(NamedTuple):
    """What the claimer saw: the owner's liveness, and whether its lease has passed."""

    liveness: Liveness
    expired: bool


def claim(current: Owner, witness: Witness, *, take_over: bool) -> After:
    """How the run may be claimed. Raises `Busy` if it may not."""
    if current.released:
        return "released"
    if witness.liveness == "dead":
        return "crash"
    who = f"process {current.holder.pid}"
    if not witness.expired:
        raise Busy(
            f"{who} owns this run",
            kept="nothing was written",
            next=(f"once {who} has ended, the same again",),
            liveness=witness.liveness,
        )
    if not take_over:
        raise Busy(
            f"{who} owned this run and has not been heard of; nobody can say that it is dead",
            kept="nothing was written",
            next=("the same with --take-over",),
            liveness=witness.liveness,
        )
    return "takeover"
