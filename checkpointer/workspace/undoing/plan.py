"""What may be carried out of a set of changes: what ignore rules protect stays, what cannot give way is in the way.

Pure: what the ignore rules say and what else stands in a directory are arguments. The order of the work is that of
`replacements`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from checkpointer.workspace.entry import Entry, parents, show

NEVER_HELD = frozenset(("socket", "device", "uncovered"))
"""Kinds that no checkpoint holds: nothing of this kind can be put back or taken away."""

_WHY = {
    "socket": "a socket: no checkpoint holds one",
    "device": "a device: no checkpoint holds one",
    "uncovered": "not covered by any checkpoint",
}


class Kept(NamedTuple):
    """A path that stays although it should go, and why, in words for people."""

    path: bytes
    why: str


class Obstruction(NamedTuple):
    """A path that cannot become what it should, why, and the path that is in the way (itself or something in it)."""

    path: bytes
    why: str
    because: bytes


class Plan(NamedTuple):
    """`changes` are to be carried out: path -> (present, wanted). `kept` and `obstructions` are sorted by path.

    With obstructions the changes are those that remain without them.
    """

    changes: Mapping[bytes, tuple[Entry | None, Entry | None]]
    kept: tuple[Kept, ...]
    obstructions: tuple[Obstruction, ...]

    @property
    def result(self) -> dict[bytes, Entry | None]:
        """What the paths become: what the new checkpoint's tree is edited by."""
        return {path: wanted for path, (_, wanted) in self.changes.items()}


def never_held(entry: Entry | None) -> str:
    """Why no checkpoint can put this there or take it away; empty where one can."""
    return _WHY.get(entry.kind, "") if entry is not None else ""


def make_plan(
    changes: Mapping[bytes, tuple[Entry | None, Entry | None]],
    *,
    protected: Callable[[bytes, bool], bool] = lambda path, is_dir: False,
    strangers: Callable[[bytes], Iterable[bytes]] = lambda directory: (),
) -> Plan:
    """Sift the changes from the present files to the wanted ones (path -> (present, wanted), directories too).

    `protected(path, is_dir)`: the present ignore rules or the target's ignore it, so that it is never removed (it may
    be rewritten). `strangers(directory)` lists what stands in a directory on the disk, at any depth, and is no covered
    path: ignored things, `.git`, what is not covered. A directory that should go but holds something that stays is
    kept; one that must give way to something else is an obstruction.
    """
    return _Sieve(changes, protected, strangers).plan()


class _Sieve:
    def __init__(
        self,
        changes: Mapping[bytes, tuple[Entry | None, Entry | None]],
        protected: Callable[[bytes, bool], bool],
        strangers: Callable[[bytes], Iterable[bytes]],
    ) -> None:
        self.changes = dict(changes)
        self.protected = protected
        self.strangers = strangers
        self.kept: dict[bytes, str] = {}
        self.obstructions: dict[bytes, Obstruction] = {}
        self.held: dict[bytes, bytes] = {}  # directory -> something in it that stays

    def plan(self) -> Plan:
        for path in sorted(self.changes, key=lambda p: (-p.count(b"/"), p)):  # what is in a directory before itself
            self._sift(path, *self.changes[path])
        for path in sorted(self.changes):
            for top in parents(path):
                if top in self.obstructions and self.changes[path][1] is not None:
                    self.obstructions.setdefault(path, Obstruction(path, self.obstructions[top].why, top))
        out = self.kept.keys() | self.obstructions.keys()
        return Plan(
            changes={path: self.changes[path] for path in sorted(self.changes.keys() - out)},
            kept=tuple(Kept(path, self.kept[path]) for path in sorted(self.kept)),
            obstructions=tuple(self.obstructions[path] for path in sorted(self.obstructions)),
        )

    def _sift(self, path: bytes, present: Entry | None, wanted: Entry | None) -> None:
        stuck = never_held(present)
        if wanted is None:
            if stuck:
                self._keep(path, stuck)
            elif present is not None and present.kind == "dir":
                self._directory_goes(path)
            elif self.protected(path, False):
                self._keep(path, "ignored")
        elif never_held(wanted):
            self._keep(path, f"the checkpoint does not hold it ({never_held(wanted)})")
        elif stuck:
            self._obstruct(path, stuck, path)
        elif present is not None and present.kind == "dir" and wanted.kind != "dir":
            held = self._held(path)
            if held is not None:
                self._obstruct(path, f"it is a directory that holds {show(held)}, which stays", held)

    def _directory_goes(self, path: bytes) -> None:
        if not path:
            self._keep(path, "the workspace itself")
            return
        held = self._held(path)
        if held is not None:
            self._keep(path, f"it holds {show(held)}")
        elif self.protected(path, True):
            self._keep(path, "ignored")

    def _held(self, directory: bytes) -> bytes | None:
        if directory in self.held:
            return self.held[directory]
        return next(iter(self.strangers(directory)), None)

    def _keep(self, path: bytes, why: str) -> None:
        self.kept[path] = why
        self._hold(path)

    def _obstruct(self, path: bytes, why: str, because: bytes) -> None:
        self.obstructions[path] = Obstruction(path, why, because)
        self._hold(path)

    def _hold(self, path: bytes) -> None:
        for top in parents(path):
            self.held.setdefault(top, path)
