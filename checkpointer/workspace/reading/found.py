"""What a scan found: counts, records that changed or are gone, directories that were not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from checkpointer.workspace.reading.table import Record, Stat


class Tally:
    """Counts of a scan: files looked at and bytes read so far, and how often each mode was seen; blobs not read."""

    def __init__(self) -> None:
        self.files = 0
        self.bytes = 0
        self.modes: Counter[tuple[str, int]] = Counter()
        self.lent: set[bytes] = set()


class Unread(NamedTuple):
    """A directory that was not read. `tree` is what the checkpoint before holds for it, None where it holds none."""

    stat: Stat
    reason: str
    tree: bytes | None


class Found:
    """What a scan found that the table does not say: records by directory, those that are gone, what was not read."""

    def __init__(self) -> None:
        self.changed: dict[str, Record] = {}
        self.removed: set[str] = set()
        self.unread: dict[str, Unread] = {}
        self.tally = Tally()

    def add(self, other: Found) -> None:
        """Take over what another scan found in other directories."""
        self.changed.update(other.changed)
        self.removed |= other.removed
        self.unread.update(other.unread)
        self.tally.files += other.tally.files
        self.tally.bytes += other.tally.bytes
        self.tally.modes.update(other.tally.modes)
        self.tally.lent |= other.tally.lent

    def drop(self, records: Mapping[str, Record], path: str) -> None:
        """The directory and all below it are gone; `records` are the table's."""
        stack = [path]
        while stack:
            here = stack.pop()
            old, new = records.get(here), self.changed.pop(here, None)
            subs = set(Record(*old).subs if old is not None else ()).union(new.subs if new is not None else ())
            stack.extend(f"{here}/{name}" for name in subs)
            if old is not None:
                self.removed.add(here)
            self.unread.pop(here, None)
