"""A turn as it was talked through: what was asked, each call with what it changed, what was answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from checkpointer.cli import listing, phrase
from checkpointer.cli.listing import lines_of
from checkpointer.cli.naming import named_paths
from checkpointer.cli.patch import Changes, Read, Stat, deltas, stat
from checkpointer.cli.titles import Call, Title
from checkpointer.workspace.undoing.units import Step

if TYPE_CHECKING:
    from checkpointer.cli.listing import Row
    from checkpointer.workspace.undoing.timeline import Timeline
    from checkpointer.workspace.workspace import Workspace

_ANSWER = 100


def lines(workspace: Workspace, timeline: Timeline, row: Row) -> Iterator[str]:
    """The calls of a turn and its answer, a line each."""
    steps = list(row.unit.steps) if row.unit is not None else []
    found = [(step, listing.changes_of(timeline, step.segments)) for step in steps]
    yield from told(row.title, found, listing.reader(workspace))


def told(title: Title, steps: Sequence[tuple[Step, Changes]], read: Read) -> Iterator[str]:
    """The same, of steps whose changes are known; a call that changed nothing has no step."""
    calls: Mapping[str, Call] = title.calls or {}
    rest = dict(calls)
    placed: list[tuple[tuple[int, int], str]] = []
    for step, changes in steps:
        handles = sorted(step.handles)
        own = [(str(handle), calls[str(handle)]) for handle in handles if str(handle) in calls]
        for name, _ in own:
            rest.pop(name)
        first = handles[0] if handles else None
        place = (first.turn, first.step or 0) if first is not None else (0, 0)
        placed.append((place, step_line(step.handle, [call for _, call in own], changes, read)))
    for name, call in rest.items():
        turn, _, number = name[1:].partition(".")
        placed.append(((int(turn), int(number)), _words(name, call, "", "no files")))
    for _, text in sorted(placed):
        yield text
    if title.answer:
        yield f"answer: {phrase.quoted(title.answer, _ANSWER)}"


def _words(handle: str, call: Call, *more: str) -> str:
    return "  ".join(w for w in (f"{handle:6}", call.tool, call.about, *more, call.end) if w).rstrip()


def step_line(handle: str, calls: Sequence[Call], changes: Changes, read: Read) -> str:
    """`t3.1  Edit  src/checkout.py  +80 -40`; of calls that overlapped, all of them."""
    names = named_paths(changes)
    gone = [p for p in names if changes[p][1] is None]
    stayed = [p for p in names if changes[p][1] is not None]
    counts = [stat(d, read) for d in deltas(changes)] if len(names) <= listing.MANY else []
    counted = lines_of(Stat(sum(c.added for c in counts), sum(c.removed for c in counts)))
    deleted = f"{phrase.count(len(gone), 'file')} deleted" if gone else ""
    about = ["  ".join(w for w in (call.tool, call.about) if w) for call in calls]
    plain = len(calls) == 1 and stayed == [calls[0].about.encode("utf-8", "surrogateescape")]
    listed = "" if plain else phrase.paths(stayed, 5)
    end = " ".join(dict.fromkeys(call.end for call in calls if call.end))
    words = (f"{handle:6}", " | ".join(about), f"{counted:8}", listed, deleted, end)
    return "  ".join(w for w in words if w).rstrip()
