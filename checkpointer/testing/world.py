"""A world in which nothing is left to chance: clocks that tick, names that are counted, processes that are told."""

from __future__ import annotations

from hashlib import sha256

from checkpointer.events import Holder
from checkpointer.lease import Now
from checkpointer.machine import World


class FixedWorld(World):
    """Time moves by `step_ms` with each event, and by `pass_time`. `dead` holds the numbers of processes that ended."""

    def __init__(self, pid: int = 100, *, start_ms: int = 1_795_000_000_000, step_ms: int = 1_000) -> None:
        self.pid = pid
        self.boot = "boot-1"
        self.namespace = "ns-1"
        self.host = "host-1"
        self.ms = start_ms
        self.step_ms = step_ms
        self.dead: set[int] = set()
        self._count = 0

    def pass_time(self, ms: int) -> None:
        self.ms += ms

    def now(self) -> Now:
        return Now(self.boot, self.ms % 10**9, self.ms)

    def at(self) -> str:
        self.ms += self.step_ms
        return stamp(self.ms)

    def here(self) -> Holder:
        return self.holder(self.pid)

    def holder(self, pid: int) -> Holder:
        return Holder(host=self.host, boot=self.boot, namespace=self.namespace, pid=pid, started=f"start-{pid}")

    def started(self, pid: int) -> str | None:
        return "" if pid in self.dead else f"start-{pid}"

    def event_id(self) -> str:
        self._count += 1
        return sha256(b"event %d %d" % (self.pid, self._count)).hexdigest()[:32]

    def salt(self) -> str:
        self._count += 1
        return sha256(b"salt %d %d" % (self.pid, self._count)).hexdigest()[:32]


def stamp(ms: int) -> str:
    """Milliseconds since 1970 as events carry them."""
    days, rest = divmod(ms, 86_400_000)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    year, month, day = _date(days)
    return f"{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{rest // 1000:02}.{rest % 1000:03}000Z"


def _date(days: int) -> tuple[int, int, int]:
    from datetime import date

    found = date.fromordinal(days + 719_163)
    return found.year, found.month, found.day
