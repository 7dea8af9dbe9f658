"""Walks on real files, in a real store, beside the model: the same walks as over dictionaries."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from desk import Desk
from harness.undo_oracle import Atom, Oracle
from harness.undo_pair import ACTS, Pair, do

from checkpointer.workspace import facts
from checkpointer.workspace.entry import Entry
from checkpointer.workspace.undoing.obstacle import Mode
from checkpointer.workspace.undoing.selection import Selector
from checkpointer.workspace.undoing.timeline import Timeline

FAR = "".join(f"line {n}\n" for n in range(5))


def text_of(entry: Entry) -> str:
    return FAR.join(f"slot {value}\n" for value in entry.oid.decode().split(","))


def entry_of(text: str) -> Entry:
    values = [line.removeprefix("slot ") for line in text.split("\n") if line.startswith("slot ")]
    assert text == FAR.join(f"slot {value}\n" for value in values)
    return Entry("file", ",".join(values).encode(), 0o644)


class DiskWorld:
    """What `PlainWorld` does, with a workspace and a store."""

    base: Path
    oracle: Oracle

    def __init__(self, merge: object) -> None:
        self.desk = Desk(self.base)
        self.desk.save()
        known = facts.load(self.desk.state)
        known.had_run = True
        facts.save(self.desk.state, known)
        self.numbers: dict[tuple[tuple[bytes, Entry], ...], int] = {}
        self._note()

    def _note(self) -> None:
        tip = self.desk.workspace().store.tip()
        assert tip is not None
        self.numbers[tuple(sorted(self.files.items()))] = tip.number

    @property
    def files(self) -> dict[bytes, Entry]:
        return {path.name.encode(): entry_of(path.read_text()) for path in self.desk.root.iterdir()}

    @files.setter
    def files(self, files: dict[bytes, Entry]) -> None:
        now = self.files
        for path in now.keys() - files.keys():
            (self.desk.root / path.decode()).unlink()
        for path, entry in files.items():
            if now.get(path) != entry:
                self.desk.write(path.decode(), text_of(entry), mode=0o644)

    def timeline(self) -> Timeline:
        return self.desk.workspace().timeline()

    def step(self, handle: str, run: str, files: dict[bytes, Entry]) -> None:
        self.desk.save(kind="outside")
        self._note()
        self.files = files
        self.desk.save(kind="step", runs=(run,), steps=(handle,))
        self._note()

    def undo(self, mode: Mode, selector: Selector) -> None:
        self.desk.save(kind="outside")
        self._note()
        self.desk.undo(selector, mode=mode)
        self._note()

    def redo(self, mode: Mode) -> None:
        self.desk.save(kind="outside")
        self._note()
        self.desk.redo(mode=mode)
        self._note()

    def restore(self, number: int, paths: Iterable[bytes] | None) -> None:
        self.desk.save(kind="outside")
        self._note()
        self.desk.restore(number, tuple(paths or ()))
        self._note()


class DiskPair(Pair):
    """States are compared by handle: on the disk even what is refused leaves a capture, so numbers differ."""

    world: DiskWorld  # type: ignore[assignment]

    def restore(self, back: int, paths: str = "") -> bool:
        number = max(0, len(self.oracle.captures) - 1 - back)
        if self.captured(number) not in self.world.numbers:
            return False
        before = self.oracle.copy()
        before.restore(number, paths or None)
        if before.files == self.oracle.files:
            return False  # the workspace says that there is nothing to restore
        units = len(self.oracle.units)
        real = self.world.numbers[self.captured(number)]
        self.oracle.restore(number, paths or None)
        self.world.restore(real, [p.encode() for p in paths] or None)
        if len(self.oracle.units) > units:
            self.turns.append(None)
        self.agree()
        return True

    def captured(self, number: int) -> tuple[tuple[bytes, Entry], ...]:
        return tuple(sorted(self.real(self.oracle.captures[number]).items()))

    def agree(self) -> None:
        assert self.world.files == self.real(self.oracle.files)
        timeline = self.world.timeline()
        assert self.real_states(timeline) == self.model_states()
        listed = [undo for undo in self.oracle.undos if self.listed(undo.taken)]
        assert len(timeline.redo_list()) == len(listed)

    def model_states(self) -> dict[tuple[str, int, str], str]:
        names: list[str] = []
        for turn in self.turns:
            names.append(f"t{turn}" if turn is not None else f"restore {sum('r' in name for name in names)}")

        def state(atom: Atom) -> str:
            return "back" if atom in self.oracle.back else "left" if atom in self.oracle.left else "open"

        atoms = [atom for unit in range(len(names)) for atom in self.oracle.atoms(unit)]
        return {(names[unit], step, path): state((unit, step, path)) for unit, step, path in atoms}

    def real_states(self, timeline: Timeline) -> dict[tuple[str, int, str], str]:
        out, restores = {}, 0
        for unit in timeline.units:
            name = unit.handle if unit.turn is not None else f"restore {restores}"
            restores += unit.turn is None
            for step in unit.steps:
                number = int(step.handle.rpartition(".")[2]) - 1 if unit.turn is not None else 0
                for change in timeline.changes(step):
                    out[name, number, change.path.decode()] = timeline.state_of(change)
        return out


@pytest.mark.parametrize("seed", range(5))
def test_walks_on_real_files_end_as_the_model_says(seed: int, tmp_path: Path) -> None:
    pair_type = type("Here", (DiskPair,), {"world_type": type("World", (DiskWorld,), {"base": tmp_path})})
    pair, choose = pair_type(), random.Random(seed)
    for _ in range(9):
        path, slot, delete = choose.choice("ab"), choose.randrange(3), choose.random() < 0.2
        turn = choose.choice([t for t in pair.turns if t] or [None])
        before = pair.state()[:4]  # type: ignore[index]
        act = choose.choice(ACTS)
        if do(pair, act, path, slot, delete, choose.choice("AB"), choose.randrange(6), turn) and choose.random() < 0.3:
            assert pair.redo(), "redo straight after an undo refused"
            assert pair.state()[:4] == before  # type: ignore[index]
    seen = [dict(pair.world.files)]
    while pair.undo():
        seen.append(dict(pair.world.files))
    for files in reversed(seen[:-1]):
        assert pair.redo()
        assert pair.world.files == files
