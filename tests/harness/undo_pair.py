"""The model and the real thing walked side by side, at random or by a given sequence of acts."""

from __future__ import annotations

import random
from collections.abc import Callable

from checkpointer.errors import Conflict, NothingToDo
from checkpointer.workspace.entry import Entry
from checkpointer.workspace.undoing.merge import Merged
from checkpointer.workspace.undoing.selection import Selector
from checkpointer.workspace.undoing.timeline import Timeline
from harness.timelines import PlainWorld
from harness.undo_oracle import CLASH, Atom, Conflicting, Files, Nothing, Oracle, Slots, merge_slots, put

PATHS = "ab"
RUNS = {"A": "r1", "B": "r2"}


def entry(value: Slots) -> Entry | None:
    return None if value is None else Entry("file", ",".join(map(str, value)).encode(), 0o644)


def slots(at: Entry | None) -> Slots:
    return None if at is None else tuple(int(part) for part in at.oid.split(b","))


def merge_entries(base: Entry | None, ours: Entry | None, theirs: Entry | None) -> Merged:
    merged = merge_slots(slots(base), slots(ours), slots(theirs))
    if merged is CLASH:
        return Merged(None, "the same slot")
    return Merged(entry(merged))  # type: ignore[arg-type]


class Pair:
    """The model and the real thing, walked side by side; every act must end alike in both."""

    world_type: type[PlainWorld] = PlainWorld

    def __init__(self) -> None:
        self.oracle = Oracle()
        self.world = self.world_type(merge_entries)
        self.world.had_run = True  # a person's edits are no units in the model
        self.serial = 0
        self.turns: list[int | None] = []  # of the model's units: the turn's number, None for a restore

    def copy(self) -> Pair:
        out = object.__new__(type(self))
        out.oracle, out.world = self.oracle.copy(), self.world.copy()
        out.serial, out.turns = self.serial, list(self.turns)
        return out

    # What happens to the files.

    def edited(self, files: Files, path: str, slot: int, delete: bool) -> Files:
        if delete:
            return put(files, path, None)
        self.serial += 1
        old = files.get(path) or (0, 0, 0)
        return put(files, path, tuple(self.serial if i == slot else v for i, v in enumerate(old)))

    def edit(self, path: str, slot: int = 0, delete: bool = False) -> None:
        self.oracle.files = self.edited(self.oracle.files, path, slot, delete)
        self.world.files = self.real(self.oracle.files)

    def step(self, run: str, new_turn: bool, *edits: tuple[str, int, bool]) -> None:
        files = self.oracle.files
        for one in edits:
            files = self.edited(files, *one)
        self.oracle.step(run, new_turn, files)
        if len(self.turns) < len(self.oracle.units):
            self.turns.append(1 + max((t for t in self.turns if t is not None), default=0))
        number = len(self.oracle.units[-1].steps)
        self.world.step(f"t{self.turns[-1]}.{number}", RUNS[run], self.real(files))

    def real(self, files: Files) -> dict[bytes, Entry]:
        found = {path.encode(): entry(value) for path, value in files.items()}
        return {path: at for path, at in found.items() if at is not None}

    # What is asked of ckpt. True: it was done; false: refused.

    def undo(
        self, mode: str = "plain", *, turn: int | None = None, step: bool = False, paths: str = "", run: str = ""
    ) -> bool:
        unit = self.turns.index(turn) if turn is not None else None
        selector = Selector(
            first=turn,
            last=turn,
            newest_step=step,
            paths=tuple(p.encode() for p in paths),
            runs=frozenset((RUNS[run],)) if run else None,
        )
        return self.both(
            lambda: self.oracle.undo(mode, unit=unit, step=step, paths=paths or None, run=run or None),
            lambda: self.world.undo(mode, selector),  # type: ignore[arg-type]
        )

    def redo(self, mode: str = "plain") -> bool:
        return self.both(lambda: self.oracle.redo(mode), lambda: self.world.redo(mode))  # type: ignore[arg-type]

    def restore(self, back: int, paths: str = "") -> bool:
        number = max(0, len(self.oracle.captures) - 1 - back)
        units = len(self.oracle.units)
        done = self.both(
            lambda: self.oracle.restore(number, paths or None),
            lambda: self.world.restore(number + 1, [p.encode() for p in paths] or None),
        )
        if len(self.oracle.units) > units:
            self.turns.append(None)
        return done

    def both(self, model: Callable[[], object], real: Callable[[], object]) -> bool:
        expected, found = "done", "done"
        before = self.state()
        try:
            model()
        except Nothing:
            expected = "nothing"
        except Conflicting as clash:
            expected = f"conflict {''.join(clash.args[0])}"
        try:
            real()
        except NothingToDo:
            found = "nothing"
        except Conflict as clash:
            found = f"conflict {''.join(c['path'] for c in clash.details['conflicts'])}"
        assert found == expected
        if expected != "done":
            assert self.state() == before, "a refusal changed something"
        self.agree()
        return expected == "done"

    def agree(self) -> None:
        assert self.world.files == self.real(self.oracle.files)
        timeline = self.world.timeline()
        assert self.states(timeline, "back") == self.oracle.back
        assert self.states(timeline, "left") == self.oracle.left - self.oracle.back
        assert [u.number for u in timeline.redo_list()] == [
            u.after + 1 for u in self.oracle.undos if self.listed(u.taken)
        ]

    def listed(self, taken: list[Atom]) -> bool:
        return not taken or any(atom in self.oracle.back for atom in taken)

    def state(self) -> object:
        oracle = self.oracle
        return oracle.files, set(oracle.back), set(oracle.left), list(oracle.undos), dict(self.world.files)

    def states(self, timeline: Timeline, wanted: str) -> set[Atom]:
        segments = {
            (before + 1, after + 1): (unit, step)
            for unit, of in enumerate(self.oracle.units)
            for step, (before, after) in enumerate(of.steps)
        }
        return {
            (*segments[change.segment], change.path.decode())
            for unit in timeline.units
            for change in timeline.changes(unit)
            if timeline.state_of(change) == wanted
        }

    # What must hold wherever a walk has led.

    def undone_and_redone(self) -> None:
        """Undo to the end, then redo as often: every state on the way comes back."""
        pair = self.copy()
        seen = [pair.state()[:3]]  # type: ignore[index]
        while pair.undo():
            seen.append(pair.state()[:3])  # type: ignore[index]
        for state in reversed(seen[:-1]):
            assert pair.redo(), "redo refused"
            assert pair.state()[:3] == state  # type: ignore[index]

    def skipping_ends(self) -> None:
        pair = self.copy()
        for _ in range(100):
            if not pair.undo("skip"):
                return
        raise AssertionError("--skip sticks")


ACTS = (
    *("turn", "turn", "turn 2", "step", "edit", "undo", "undo", "skip", "force", "newest step", "path"),
    *("redo", "redo", "redo skip", "redo force", "named", "named skip", "restore", "restore path", "run B"),
)


def walk(pair: Pair, choose: random.Random, length: int) -> None:
    for _ in range(length):
        act = choose.choice(ACTS)
        path, slot, delete = choose.choice(PATHS), choose.randrange(3), choose.random() < 0.2
        run, back = choose.choice("AB"), choose.randrange(6)
        turn = choose.choice([t for t in pair.turns if t] or [None])
        before = pair.state()[:4]  # type: ignore[index]
        undone = do(pair, act, path, slot, delete, run, back, turn)
        if undone:
            again = pair.copy()
            assert again.redo(), "redo straight after an undo refused"
            assert again.state()[:4] == before, "redo is not the inverse"  # type: ignore[index]


def do(pair: Pair, act: str, path: str, slot: int, delete: bool, run: str, back: int, turn: int | None) -> bool:
    """Do one thing; true if it was an undo that was done."""
    undos: dict[str, dict[str, object]] = {
        "undo": {},
        "skip": {"mode": "skip"},
        "force": {"mode": "force"},
        "newest step": {"step": True},
        "path": {"paths": path},
        "run B": {"run": "B"},
    }
    if turn is not None:
        undos |= {"named": {"turn": turn}, "named skip": {"turn": turn, "mode": "skip"}}
    if act in undos:
        return pair.undo(**undos[act])  # type: ignore[arg-type]
    if act == "turn":
        pair.step(run, True, (path, slot, delete))
    elif act == "turn 2":
        pair.step(run, True, (path, slot, delete), (PATHS[1 - PATHS.index(path)], slot, False))
    elif act == "step":
        pair.step(run, False, (path, slot, delete))
    elif act == "edit":
        pair.edit(path, slot, delete)
    elif act.startswith("redo"):
        pair.redo(act[5:] or "plain")
    elif act.startswith("restore"):
        pair.restore(back, path if act == "restore path" else "")
    return False
