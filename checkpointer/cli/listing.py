"""The rows of a history: turns, saves and restores with what each changed, who did it and whether it still stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from checkpointer.cli import phrase
from checkpointer.cli.naming import named_paths
from checkpointer.cli.patch import BIG, Read, Stat, deltas, stat
from checkpointer.cli.titles import Title
from checkpointer.workspace.checkpoint import Checkpoint, Segment
from checkpointer.workspace.entry import Entry
from checkpointer.workspace.undoing.timeline import OpenTurn, Timeline
from checkpointer.workspace.undoing.units import Unit

if TYPE_CHECKING:
    from checkpointer.cli.call import Call
    from checkpointer.workspace.basis import Basis
    from checkpointer.workspace.odb.objects import Objects
    from checkpointer.workspace.workspace import Workspace

MANY = 2_000
"""In a row of more files than this, lines are not counted: reading them all would take longer than anybody waits."""

STATES = {
    "back": "undone",
    "part": "partly undone",
    "left": "left by an undo",
    "kept": "older than what undo reaches",
}
"""What is said of a row that does not stand as it was done."""


class Row(NamedTuple):
    """One line of a history. `before` is the number of the checkpoint before it, None where that is no longer kept.

    `state` is `open`, one of `STATES`, or None for what undo does not know.
    """

    handle: str
    kind: str
    checkpoint: Checkpoint
    segments: tuple[Segment, ...]
    runs: tuple[str, ...]
    title: Title
    state: str | None
    unit: Unit | None = None

    @property
    def is_talk(self) -> bool:
        """Is it a turn of a conversation that changed no file?"""
        return self.kind == "turn" and self.unit is None

    @property
    def words(self) -> str:
        """The prompt or label, in quotes; empty where there is neither."""
        text = self.title.prompt or self.checkpoint.meta.label
        return phrase.quoted(text, 36) if text else ""


def at(row: Row) -> datetime:
    """When it was: a turn that changed nothing has no checkpoint of its own."""
    return row.title.started or row.checkpoint.meta.at if row.is_talk else row.checkpoint.meta.at


def net(
    found: Iterable[Mapping[bytes, tuple[Entry | None, Entry | None]]],
) -> dict[bytes, tuple[Entry | None, Entry | None]]:
    """Several differences in the order of time as one: from the first before to the last after."""
    out: dict[bytes, tuple[Entry | None, Entry | None]] = {}
    for changes in found:
        for path, (old, new) in changes.items():
            out[path] = (out[path][0] if path in out else old, new)
    return {p: c for p, c in out.items() if c[0] != c[1]}


def changes_of(timeline: Timeline, segments: Sequence[Segment]) -> dict[bytes, tuple[Entry | None, Entry | None]]:
    return net(timeline.diff(s.before, s.after) for s in sorted(segments))


def rows(timeline: Timeline, titles: Mapping[str, Title], *, every: bool = False) -> Iterator[Row]:
    """The history, newest first: turns and restores that changed something, and saves; or `every` checkpoint."""
    by_number = {c.number: c for c in timeline.checkpoints}
    before = {b.number: a.number for a, b in zip(timeline.checkpoints, timeline.checkpoints[1:], strict=False)}
    if every:
        for c in reversed(timeline.checkpoints):
            segments = (Segment(before[c.number], c.number),) if c.number in before else ()
            yield Row(str(c.number), c.kind, c, segments, c.meta.runs, Title(), None)
        return
    found: list[tuple[int, Row]] = []
    edits = {u.last: u for u in timeline.units if u.kind == "edit"}
    for unit in timeline.units:
        if unit.kind != "edit" and unit.last in by_number:
            title = titles.get(unit.handle, Title())
            row = Row(
                unit.handle, unit.kind, by_number[unit.last], unit.segments, tuple(sorted(unit.runs)), title, None, unit
            )
            found.append((unit.last, row))
    for c in timeline.checkpoints:
        if c.kind in ("save", "base") or (c.meta.label and c.kind not in ("turn", "restore", "step")):
            segments = (Segment(before[c.number], c.number),) if c.number in before else ()
            found.append((c.number, Row(str(c.number), "save", c, segments, (), Title(), None, edits.get(c.number))))
    found += _talk(timeline, titles)
    for _, row in sorted(found, key=lambda item: (item[0], at(item[1])), reverse=True):
        if row.unit is None:
            yield row
            continue
        state = state_of(timeline, row.unit)
        if state is not None or row.kind == "save":
            yield row._replace(state=state)


def kept(workspace: Workspace) -> Iterator[Row]:
    """The checkpoints older than the timeline that stay all the same, newest first: pinned, labelled, just replaced."""
    for c in reversed(workspace.store.kept()):
        yield Row(str(c.number), "kept", c, (), (), Title(), "kept")


def _talk(timeline: Timeline, titles: Mapping[str, Title]) -> Iterator[tuple[int, Row]]:
    """The turns of conversations that changed no file, each after the newest checkpoint of that time."""
    known = {unit.handle for unit in timeline.units}
    for handle, title in titles.items():
        if handle in known or not title.talk or not timeline.checkpoints:
            continue
        then = [c for c in timeline.checkpoints if title.checkpoint is not None and c.number <= title.checkpoint]
        if then:
            yield then[-1].number, Row(handle, "turn", then[-1], (), (title.run,), title, None)


def state_of(timeline: Timeline, unit: Unit) -> str | None:
    """How a unit stands: `open`, `part`, `back`, `left`; None where it changed nothing."""
    state = timeline.state_of_unit(unit)
    return "part" if state == "open" and timeline.is_partly_back(unit) else state


def counted(
    workspace: Workspace, timeline: Timeline, row: Row, objects: Objects | None = None
) -> tuple[int, Stat | None]:
    """Files changed in a row, and lines; None for the lines of a row with too many files."""
    changes = changes_of(timeline, row.segments)
    files = len(named_paths(changes))
    if files > MANY:
        return files, None
    read = reader(workspace, objects)
    added = removed = 0
    for delta in deltas(changes):
        one = stat(delta, read)
        added, removed = added + one.added, removed + one.removed
    return files, Stat(added, removed)


def looked(call: Call, workspace: Workspace, started: Sequence[OpenTurn]) -> Basis:
    """The timeline with the files as they are now as its newest point; nothing is written.

    Raises CaptureFailed, Damaged.
    """
    from checkpointer.workspace.basis import Basis

    with call.progress() as bar:
        present = workspace.look(progress=bar)
    steps = tuple(dict.fromkeys(step for turn in started for step in turn.steps))
    runs = tuple(dict.fromkeys(turn.run for turn in started))
    return Basis.looked(workspace.store, present, workspace.meta("outside", runs=runs, steps=steps))


def reader(workspace: Workspace, objects: Objects | None = None) -> Read:
    """Reads the content of an entry from a store, or from `objects` laid over it.

    Of a file too large to be compared by line it is as much as shows that.
    """
    source: Objects = objects if objects is not None else workspace.store.objects

    def read(entry: Entry) -> bytes:
        if source.size(entry.oid) <= BIG:
            return source.get(entry.oid)[1]
        start = bytearray()
        for chunk in source.stream(entry.oid):
            start += chunk
            if len(start) > BIG or b"\0" in start[:8000]:
                break
        return bytes(start)

    return read


def who(row: Row) -> str:
    """`claude r7`: agent and run; `you` for what a person did."""
    asked = "person" if row.kind == "turn" else row.checkpoint.meta.by
    by = {"person": "you", "agent": "an agent", "watch": "ckpt"}[asked]
    if row.checkpoint.meta.unprotected and row.kind != "turn":
        by = "an agent or you"
    agent = row.title.agent or ("" if row.runs else by)
    return " ".join(w for w in (agent, " ".join(row.runs)) if w)


def lines_of(one: Stat | None) -> str:
    """`+120 -131`, `+31`, or nothing."""
    if one is None:
        return ""
    return " ".join(w for w in (f"+{one.added}" if one.added else "", f"-{one.removed}" if one.removed else "") if w)


def handles(call: Call, *, points: bool, turns: bool) -> list[tuple[str, str]]:
    """Handles for completion, the newest first, each with its prompt or label."""
    from checkpointer.cli.titles import titles

    workspace = call.workspace()
    timeline = workspace.timeline()
    named = titles(workspace)
    found: list[tuple[str, str]] = []
    for row in rows(timeline, named):
        turn = row.unit is not None and row.kind == "turn"
        text = f"{phrase.age(row.checkpoint.meta.at)}  {row.words}".rstrip()
        if turn and turns:
            found.append((row.handle, text))
        elif points and not turn:
            found.append((str(row.checkpoint.number), text))
            if row.checkpoint.meta.label and " " not in row.checkpoint.meta.label:
                found.append((row.checkpoint.meta.label, f"checkpoint {row.checkpoint.number}"))
        if len(found) >= 100:
            break
    return found
