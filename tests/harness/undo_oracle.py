"""A small model of undo, redo and restore, written apart from the real one, that says what must come out.

Files are `{path: three slots}`; a slot stands for a line far from the others, so that a three-way merge is one per
slot. A change is (unit, step, path). Not modelled: modes, directories, overlapping steps, branches, retention.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Slots = tuple[int, ...] | None
Files = dict[str, tuple[int, ...]]
Atom = tuple[int, int, str]


class Nothing(Exception):
    """There is nothing to do."""


class Conflicting(Exception):
    """The same slot was changed again later."""


class _Clash:
    pass


CLASH = _Clash()


def merge_slots(base: Slots, ours: Slots, theirs: Slots) -> Slots | _Clash:
    if ours == base:
        return theirs
    if theirs in (base, ours):
        return ours
    if base is None or ours is None or theirs is None:
        return CLASH
    out = []
    for b, o, t in zip(base, ours, theirs, strict=True):
        if o == b:
            out.append(t)
        elif t in (b, o):
            out.append(o)
        else:
            return CLASH
    return tuple(out)


def put(files: Files, path: str, value: Slots) -> Files:
    out = {p: v for p, v in files.items() if p != path}
    if value is not None:
        out[path] = value
    return out


@dataclass
class ModelUnit:
    kind: str
    run: str
    steps: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Undo:
    taken: list[Atom]
    newly_left: list[Atom]
    before: int
    after: int


class Oracle:
    """The model's state. `undo`, `redo` and `restore` raise `Nothing` or `Conflicting` and then change nothing."""

    later_change_keeps_open = True  # rule 7
    skipping_leaves = True  # rule 6
    new_step_empties_redo = True  # rule 10

    def __init__(self) -> None:
        self.files: Files = {}
        self.captures: list[Files] = [{}]
        self.units: list[ModelUnit] = []
        self.back: set[Atom] = set()
        self.left: set[Atom] = set()
        self.undos: list[Undo] = []

    def copy(self) -> Oracle:
        out = type(self)()
        out.files = self.files
        out.captures = list(self.captures)
        out.units = [ModelUnit(u.kind, u.run, list(u.steps)) for u in self.units]
        out.back, out.left, out.undos = set(self.back), set(self.left), list(self.undos)
        return out

    def capture(self, always: bool = False) -> int:
        if always or self.captures[-1] != self.files:
            self.captures.append(self.files)
        return len(self.captures) - 1

    def step(self, run: str, new_turn: bool, after: Files) -> None:
        before = self.capture()
        if new_turn or not self.units or self.units[-1].kind != "turn" or self.units[-1].run != run:
            self.units.append(ModelUnit("turn", run))
        self.files = after
        self.units[-1].steps.append((before, self.capture()))
        self._emptied(before)

    def _emptied(self, before: int) -> None:
        if self.new_step_empties_redo and self.captures[before] != self.captures[-1]:
            self.undos = []

    def values(self, atom: Atom) -> tuple[Slots, Slots]:
        unit, step, path = atom
        before, after = self.units[unit].steps[step]
        return self.captures[before].get(path), self.captures[after].get(path)

    def atoms(self, unit: int) -> list[Atom]:
        paths = sorted({p for c in self.captures for p in c})
        every = [(unit, step, path) for step in range(len(self.units[unit].steps)) for path in paths]
        return [atom for atom in every if self.values(atom)[0] != self.values(atom)[1]]

    def open(self, unit: int, *, left_too: bool = False) -> list[Atom]:
        return [a for a in self.atoms(unit) if a not in self.back and (left_too or a not in self.left)]

    def _chosen(self, unit: int | None, step: bool, paths: Iterable[str] | None, run: str | None) -> list[Atom]:
        def fits(atom: Atom) -> bool:
            return paths is None or atom[2] in paths

        if unit is not None:
            atoms = [a for a in self.open(unit, left_too=True) if fits(a)]
        else:
            within = [i for i, u in enumerate(self.units) if run in (None, u.run)]
            atoms = next((found for i in reversed(within) if (found := list(filter(fits, self.open(i))))), [])
        if step and atoms:
            newest = max(atom[1] for atom in atoms)
            atoms = [atom for atom in atoms if atom[1] == newest]
        if not atoms:
            raise Nothing
        return atoms

    def _back_to(self, path: str, atoms: list[Atom]) -> tuple[Slots | _Clash, Slots]:
        """What taking these back comes to, and what force makes of it."""
        joined: list[tuple[Slots, Slots]] = []
        for before, after in (self.values(atom) for atom in sorted(atoms)):
            if joined and joined[-1][1] == before:
                joined[-1] = (joined[-1][0], after)
            else:
                joined.append((before, after))
        value: Slots | _Clash = self.files.get(path)
        for before, after in reversed(joined):
            if not isinstance(value, _Clash):
                value = merge_slots(after, value, before)
        return value, joined[0][0]

    def undo(
        self,
        mode: str = "plain",
        *,
        unit: int | None = None,
        step: bool = False,
        paths: Iterable[str] | None = None,
        run: str | None = None,
    ) -> None:
        atoms = self._chosen(unit, step, paths, run)
        files, clashes = self.files, []
        for path in sorted({atom[2] for atom in atoms}):
            value, forced = self._back_to(path, [atom for atom in atoms if atom[2] == path])
            if isinstance(value, _Clash):
                clashes.append(path)
                value = forced if mode == "force" else self.files.get(path)
            files = put(files, path, value)
        if clashes and mode == "plain":
            raise Conflicting(clashes)
        skipped = [atom for atom in atoms if atom[2] in clashes and mode == "skip"]
        taken = [atom for atom in atoms if atom not in skipped]
        stays = [atom for atom in taken if self._stands_by_later(atom, taken, files)]
        if stays and len(stays) == len(taken) and files == self.files:
            raise Nothing
        taken = [atom for atom in taken if atom not in stays]
        newly_left = [a for a in skipped if a not in self.left] if self.skipping_leaves else []
        before = self.capture()
        self.files = files
        self.undos = [*self.undos, Undo(taken, newly_left, before, self.capture(always=True))]
        self.back |= set(taken)
        self.left |= set(newly_left)

    def _stands_by_later(self, atom: Atom, taken: list[Atom], files: Files) -> bool:
        if not self.later_change_keeps_open or files.get(atom[2]) != self.files.get(atom[2]):
            return False
        later = [a for unit in range(atom[0], len(self.units)) for a in self.open(unit)]
        return any(a[2] == atom[2] and a[:2] > atom[:2] and a not in taken for a in later)

    def redo(self, mode: str = "plain") -> None:
        if not self.undos:
            raise Nothing
        undo = self.undos[-1]
        before, after = self.captures[undo.before], self.captures[undo.after]
        files, clashes = self.files, []
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) == after.get(path):
                continue
            value = merge_slots(after.get(path), self.files.get(path), before.get(path))
            if isinstance(value, _Clash):
                clashes.append(path)
                value = before.get(path) if mode == "force" else self.files.get(path)
            files = put(files, path, value)
        if clashes and mode == "plain":
            raise Conflicting(clashes)
        self.capture()
        self.files = files
        self.capture(always=True)
        self.back -= set(undo.taken)
        self.left -= set(undo.newly_left)
        self.undos = self.undos[:-1]

    def restore(self, number: int, paths: Iterable[str] | None = None) -> None:
        before = self.capture()
        target = self.captures[number]
        if paths is not None:
            kept = {p: v for p, v in self.files.items() if p not in paths}
            target = {**kept, **{p: v for p, v in target.items() if p in paths}}
        if target == self.files:
            return
        self.files = target
        self.units.append(ModelUnit("restore", "me", [(before, self.capture())]))
        self._emptied(before)
