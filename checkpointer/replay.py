"""Newest valid snapshot plus the events after it, or the whole log: the same state either way.

The counters tell what it cost: `events_replayed`, `replay_duration_ms`, `snapshot_load_ms`, `snapshot_write_ms`,
`snapshot_seq_gap` (events between the snapshot and the end), `full_replay_equivalence_failures`. Of the two that
others counted (what writing snapshots cost the runs' owners, and failures that a verification found) each run keeps a
tally beside its snapshots.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field

from checkpointer.log import Folded, Position, Writable, catch_up
from checkpointer.snapshot import Snapshots
from checkpointer.state import EMPTY


@dataclass
class Counters:
    """Of one replay, or summed over several. Milliseconds are of the monotonic clock."""

    events_replayed: int = 0
    replay_duration_ms: float = 0.0
    snapshot_load_ms: float = 0.0
    snapshot_write_ms: float = 0.0
    snapshot_seq_gap: int = 0
    full_replay_equivalence_failures: int = 0
    snapshot_misses: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def _ms(since: int) -> float:
    return (time.monotonic_ns() - since) / 1e6


def replay(log: Writable, snapshots: Snapshots | None = None, counters: Counters | None = None) -> Folded:
    """The state of a log, and the place it is the state of. Raises what reading the log raises."""
    counters = counters if counters is not None else Counters()
    known = _newest(log, snapshots, counters) if snapshots is not None else Folded()
    began = time.monotonic_ns()
    found = catch_up(log, known)
    counters.replay_duration_ms += _ms(began)
    counters.events_replayed += found.position.seq - known.position.seq
    if known.position.seq:
        counters.snapshot_seq_gap = found.position.seq - known.position.seq
    return found


def _newest(log: Writable, snapshots: Snapshots, counters: Counters) -> Folded:
    began = time.monotonic_ns()
    found = snapshots.load(lambda seq, total, offset: _fits(log, seq, total, offset))
    counters.snapshot_load_ms += _ms(began)
    for name, count in snapshots.misses.items():
        counters.snapshot_misses[name] = counters.snapshot_misses.get(name, 0) + count
    tally = snapshots.tally()
    counters.snapshot_write_ms += tally.get("snapshot_write_ms", 0.0)
    counters.full_replay_equivalence_failures += int(tally.get("full_replay_equivalence_failures", 0))
    if found is None:
        return Folded()
    state, total, offset = found
    return Folded(state, Position(state.seq, total, offset))


def _fits(log: Writable, seq: int, total: str, offset: int) -> bool | None:
    if log.find(seq, total, offset) is not None:
        return True
    try:
        log.at([seq])
    except KeyError:
        return None
    return False


def save(snapshots: Snapshots, known: Folded, counters: Counters | None = None) -> None:
    """Keep a snapshot of a state. Raises `NoSpace`, `Failed`; nothing depends on it."""
    began = time.monotonic_ns()
    snapshots.save(known.state, known.position.sum, known.position.offset)
    took = _ms(began)
    snapshots.count(snapshot_write_ms=took, snapshots_written=1)
    if counters is not None:
        counters.snapshot_write_ms += took


def check(log: Writable, snapshots: Snapshots, counters: Counters) -> bool:
    """Does the newest snapshot lead to the state that the whole log leads to? If not, its version is quarantined."""
    known = _newest(log, snapshots, counters)
    if known.state == EMPTY:
        return True
    if catch_up(log, known) == catch_up(log):
        return True
    counters.full_replay_equivalence_failures += 1
    snapshots.count(full_replay_equivalence_failures=1)
    snapshots.quarantine()
    return False
