"""The real fold, selection and resolution, driven over files that are only dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from checkpointer.workspace.checkpoint import Checkpoint, Meta, Operation
from checkpointer.workspace.entry import Entry, below, parents
from checkpointer.workspace.undoing.merge import Merged
from checkpointer.workspace.undoing.obstacle import Mode
from checkpointer.workspace.undoing.resolution import Resolution, resolve
from checkpointer.workspace.undoing.selection import Selection, Selector, select_redo, select_undo
from checkpointer.workspace.undoing.timeline import OpenTurn, Timeline, fold

Files = Mapping[bytes, Entry]
Merge = Callable[[Entry | None, Entry | None, Entry | None], Merged]
START = datetime(2026, 12, 1, 14, 0, tzinfo=UTC)


class PlainWorld:
    """A workspace, its timeline, and what an agent, a person and `ckpt` do to it.

    An operation that is refused leaves nothing behind, not even a capture.
    """

    fold = staticmethod(fold)
    resolve = staticmethod(resolve)

    def __init__(self, merge: Merge, files: Files | None = None) -> None:
        self.merge = merge
        self.files: dict[bytes, Entry] = dict(files or {})
        self.checkpoints: list[Checkpoint] = []
        self.trees: dict[int, dict[bytes, Entry]] = {}
        self.had_run = False
        self.head: str | None = None
        self.open_turns: tuple[OpenTurn, ...] = ()
        self.append(Meta("base", START))

    def copy(self) -> PlainWorld:
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out.files, out.checkpoints, out.trees = dict(self.files), list(self.checkpoints), dict(self.trees)
        return out

    # Checkpoints.

    def made(self, meta: Meta) -> Checkpoint:
        number = self.checkpoints[-1].number + 1 if self.checkpoints else 1
        parent = self.checkpoints[-1].id if self.checkpoints else None
        return Checkpoint(number, f"{number:040x}", "0" * 40, parent, meta)

    def append(self, meta: Meta) -> Checkpoint:
        checkpoint = self.made(meta)
        self.checkpoints.append(checkpoint)
        self.trees[checkpoint.number] = dict(self.files)
        return checkpoint

    def meta(self, kind: str, **rest: object) -> Meta:
        at = START + timedelta(minutes=len(self.checkpoints))
        return Meta(kind, at, head=self.head, **rest)  # type: ignore[arg-type]

    def capture(self, kind: str, *, steps: tuple[str, ...] = (), runs: tuple[str, ...] = ()) -> int:
        if self.trees[self.checkpoints[-1].number] != self.files:
            self.append(self.meta(kind, steps=steps, runs=runs))
        return self.checkpoints[-1].number

    def diff(self, a: int, b: int) -> dict[bytes, tuple[Entry | None, Entry | None]]:
        one, two = self.trees[a], self.trees[b]
        return {p: (one.get(p), two.get(p)) for p in one.keys() | two.keys() if one.get(p) != two.get(p)}

    def timeline(self, **facts: object) -> Timeline:
        """With the present files as the newest checkpoint, though nothing is captured."""
        checkpoints = list(self.checkpoints)
        tip = checkpoints[-1].number
        steps = tuple(h for turn in self.open_turns for h in turn.steps)
        runs = tuple(turn.run for turn in self.open_turns if turn.steps)
        if self.trees[tip] != self.files:
            present = self.made(self.meta("before-restore", steps=steps, runs=runs))
            self.trees[present.number] = dict(self.files)
            checkpoints.append(present)
        facts.setdefault("had_run", self.had_run)
        return type(self).fold(checkpoints, self.diff, **facts)  # type: ignore[arg-type]

    # What happens.

    def step(self, handles: str | tuple[str, ...], runs: str | tuple[str, ...], files: Files) -> None:
        self.capture("outside")
        self.files = dict(files)
        steps = (handles,) if isinstance(handles, str) else handles
        self.capture("step", steps=steps, runs=(runs,) if isinstance(runs, str) else runs)

    def select_undo(self, selector: Selector, mode: Mode = "plain", **rest: object) -> Selection:
        return select_undo(
            self.timeline(),
            selector,
            mode=mode,
            open_turns=self.open_turns,
            head=self.head,
            **rest,  # type: ignore[arg-type]
        )

    def select_redo(self, selector: Selector, mode: Mode = "plain") -> Selection:
        return select_redo(self.timeline(), selector, mode=mode, head=self.head)

    def resolution(self, selection: Selection, mode: Mode) -> Resolution:
        return type(self).resolve(selection, self.files.get, self.merge, mode=mode, inside=self.inside)

    def inside(self, directory: bytes) -> Iterable[bytes]:
        return [path for path in self.files if path != directory and below(path, directory)]

    def carry_out(self, kind: str, resolution: Resolution) -> Resolution:
        """Raises `Conflict` as the command does."""
        if resolution.conflicts:
            raise resolution.refusal()
        steps = tuple(h for turn in self.open_turns for h in turn.steps)
        self.capture("before-restore", steps=steps, runs=tuple(t.run for t in self.open_turns if t.steps))
        for path, entry in resolution.result.items():
            if entry is None:
                del self.files[path]
            else:
                self.files[path] = entry
        self.append(self.meta(kind, operation=resolution.operation))
        return resolution

    def undo(self, mode: Mode = "plain", selector: Selector | None = None) -> Resolution:
        selection = self.select_undo(selector or Selector(), mode)
        return self.carry_out("undo", self.resolution(selection, mode))

    def redo(self, mode: Mode = "plain", selector: Selector | None = None) -> Resolution:
        selection = self.select_redo(selector or Selector(), mode)
        return self.carry_out("redo", self.resolution(selection, mode))

    def restore(self, number: int, paths: Iterable[bytes] | None = None, runs: tuple[str, ...] = ()) -> None:
        target = self.trees[number]
        if paths is not None:
            kept = {p: e for p, e in self.files.items() if not any(below(p, top) for top in paths)}
            target = {**kept, **{p: e for p, e in target.items() if any(below(p, top) for top in paths)}}
        self.capture("before-restore")
        if target == self.files:
            return
        self.files = dict(target)
        self.append(self.meta("restore", operation=Operation(f"restore {number}", number), runs=runs))


def no_text(base: Entry | None, ours: Entry | None, theirs: Entry | None) -> Merged:
    if ours == base:
        return Merged(theirs)
    if theirs == base or ours == theirs:
        return Merged(ours)
    return Merged(None, "it was changed since", ((3, 4),))


def f(text: str, mode: int = 0o644) -> Entry:
    return Entry("file", text.encode(), mode)


class Walk(PlainWorld):
    """Files are named by words: `a=1 b=2`; their directories come and go with them."""

    def __init__(self, files: str = "") -> None:
        super().__init__(no_text)
        self.files = self.with_directories(self.read(files))
        self.trees[1] = dict(self.files)

    def read(self, text: str) -> dict[bytes, Entry]:
        return {p.encode(): f(v) for p, _, v in (word.partition("=") for word in text.split())}

    @staticmethod
    def with_directories(files: Files) -> dict[bytes, Entry]:
        out = {path: entry for path, entry in files.items() if entry.kind != "dir"}
        return out | {top: Entry("dir", b"", 0o755) for path in out for top in parents(path)}

    def put(self, text: str) -> dict[bytes, Entry]:
        out = self.files | self.read(text)
        return self.with_directories({p: e for p, e in out.items() if e.oid != b"-"})

    def edit(self, text: str) -> None:
        self.files = self.put(text)

    def did(self, handles: str, text: str, runs: str = "r1") -> None:
        self.step(tuple(handles.split()), tuple(runs.split()), self.put(text))

    @property
    def now(self) -> str:
        return " ".join(f"{p.decode()}={e.oid.decode()}" for p, e in sorted(self.files.items()) if e.oid)

    def units(self) -> list[str]:
        return [unit.handle for unit in self.timeline().units]


def t(first: int, last: int | None = -1, step: int | None = None, *paths: bytes, **rest: object) -> Selector:
    return Selector(first, first if last == -1 else last, step, paths=tuple(paths), **rest)  # type: ignore[arg-type]


def three_turns() -> Walk:
    walk = Walk("a=0")
    for number in (1, 2, 3):
        walk.did(f"t{number}.1", f"a={number} f{number}=x")
        walk.did(f"t{number}.2", f"g{number}=x")
    return walk
