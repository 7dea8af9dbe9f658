"""Places in a log, and what a log is asked: the protocol of every backend.

A backend keeps lines and knows nothing of what they mean, but for the numbers in their heads. It offers one way to
write: `append` at an expected position, under an epoch, as one conditional step. No lock or transaction is held
between calls. The tenant (the directory of runs) and the run are the partition key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from checkpointer.lease import Lease
    from checkpointer.record import Encoded, Record


class Position(NamedTuple):
    """A place between two events: after event `seq`, where the log's digest is `sum`.

    `offset` is the backend's own way to find it again; it is a hint, and another backend's means nothing.
    """

    seq: int = 0
    sum: str = ""
    offset: int = 0


START = Position()


class Cut(NamedTuple):
    """What `follow` yields where events that it had given are in the log no more: those after `seq`."""

    seq: int


class Reading(Protocol):
    """Records, to iterate once; then `position` is the end of the last whole write."""

    @property
    def position(self) -> Position: ...

    def __iter__(self) -> Iterator[Record]: ...


class EventLog(Protocol):
    """One run's log, to read. What appends is a `Pen`, and a pen comes from a claim.

    Reading never writes and takes no lock. It ends before a torn tail and raises `LogDamaged` at damage before that,
    `NewerFormat` and `NeedsMigration` as `record.decode` does, `NoStore` where there is no log.
    """

    @property
    def run(self) -> str: ...

    def read(self, after: Position = START) -> Reading:
        """The records after a position of this log, verified. Raises `LogDamaged` where the position is not in it."""
        ...

    def head(self, after: Position = START) -> Position:
        """The end of the last whole write, looked for from `after`."""
        ...

    def find(self, seq: int, sum: str, offset: int) -> Position | None:
        """That place, if the log has it: `offset` is tried, nothing is searched."""
        ...

    def at(self, seqs: Sequence[int]) -> list[Record]:
        """Single records, in order of their seqs, each whole in itself; the chain is not verified. `KeyError` for
        those that are not there.
        """
        ...

    def follow(self, after: Position = START, *, wait: Callable[[], bool]) -> Iterator[Record | Cut]:
        """Records as they come. `wait` is called when there is none; it returns False to end. A `Cut` says that
        events given before are gone.
        """
        ...

    def resolve(self, event_id: str) -> int | None:
        """The seq of the event with this id, or None: what became of an append whose answer was lost."""
        ...

    def lease(self) -> Lease | None: ...

    def fetch(self, sha256: str) -> bytes:
        """Large contents. Raises `MissingObject` or `Damaged`, naming it."""
        ...

    def letters(self, box: str) -> list[tuple[str, bytes]]:
        """What lies in `inbox` or `late`: (event id, line), oldest first."""
        ...

    def fenced(self) -> int:
        """How many appends were refused because the run was another's by then."""
        ...

    def post(self, box: str, event_id: str, line: bytes) -> None:
        """Leave a line in `inbox` or `late`, durably and whole; one that lies there stays."""
        ...


class Writable(EventLog, Protocol):
    """The writing side of a backend: for pens alone."""

    def append(
        self,
        expected: Position,
        epoch: int,
        lines: Sequence[Encoded],
        *,
        durable: bool = True,
        lease: Lease | None = None,
    ) -> Position:
        """Write all lines or none, if the log still ends at `expected`; then the lease. Gives the new end.

        In one hold of the log: what lies after `expected` and is no whole write is set aside and cut; whole records
        there raise `Fenced` if one has a higher epoch, else `Finished` if the run is, else `Behind`. On any other error
        nothing was written: `NoSpace`, `ReadOnlyStore`, `Failed`. `OutcomeUnknown` where even that is not known.
        Large contents of the lines must be kept before.
        """
        ...

    def keep(self, objects: Sequence[tuple[str, bytes]]) -> None:
        """Keep large contents, durably, by their sha256."""
        ...

    def renew(self, expected: Position, epoch: int, lease: Lease) -> None:
        """Write the lease, if the log holds no higher epoch. Raises `Fenced`."""
        ...

    def discard(self, box: str, event_id: str) -> None:
        """Take a letter out; without effect if it is gone."""
        ...

    def count_fenced(self) -> None:
        """One more append was refused because the run is another's now. A figure: never raises, and may get lost."""
        ...


class Runs(Protocol):
    """Where runs live."""

    def runs(self) -> list[str]: ...

    def log(self, run: str) -> Writable: ...

    def delete(self, run: str) -> None:
        """Forget a run with its contents, snapshots and letters. Raises `Busy` where somebody holds it."""
        ...
