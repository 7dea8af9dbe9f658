"""What an undo, redo or restore did, in words and as a document."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from checkpointer.cli import phrase
from checkpointer.cli.failure import path_of
from checkpointer.cli.saving import REASONS, uncovered_document
from checkpointer.workspace.entry import show, to_json

if TYPE_CHECKING:
    from checkpointer.cli.call import Call
    from checkpointer.workspace.outcome import Outcome
    from checkpointer.workspace.undoing.timeline import Timeline
    from checkpointer.workspace.workspace import Workspace


def document(outcome: Outcome) -> dict[str, Any]:
    """The answer of undo, redo and restore for programs; with `-n` there is no checkpoint."""
    c = outcome.checkpoint
    return {
        "schema": 1,
        "checkpoint": c.number if c is not None else None,
        "commit": c.id if c is not None else None,
        "before": outcome.before,
        "unit": outcome.unit,
        "written": [to_json(p) for p in outcome.written],
        "removed": [to_json(p) for p in outcome.removed],
        "merged": [to_json(p) for p in outcome.merged],
        "skipped": [to_json(p) for p in outcome.skipped],
        "kept": [to_json(p) for p in outcome.kept],
        "conflicts": [
            {**conflict, "path": to_json(conflict["path"]) if isinstance(conflict["path"], bytes) else conflict["path"]}
            for conflict in outcome.conflicts
        ],
        "uncovered": uncovered_document(outcome.uncovered),
        "notes": list(outcome.notes),
        "dry_run": outcome.dry_run,
    }


class Tense(NamedTuple):
    """How a verb is said: `undid` and `would undo`."""

    past: str
    would: str
    same: str
    back: str
    gone: str


UNDO = Tense("undid", "would undo", "as before", "deleted file", "new file")
REDO = Tense("redid", "would redo", "changed again", "file", "file")
RESTORE = Tense("restored", "would restore", "as then", "deleted file", "later file")


def report(
    call: Call, workspace: Workspace, outcome: Outcome, tense: Tense, title: str, fresh: frozenset[bytes]
) -> None:
    """Print what was done. `fresh` are the written paths that were not there before."""
    verb = tense.would if outcome.dry_run else tense.past
    call.out.line(f"{call.out.style(verb, 'bold')} {outcome.unit}{title}: {_summary(outcome, fresh, tense)}")
    merged = set(outcome.merged)
    written = [p for p in outcome.written if p not in merged]
    most = 10**9 if outcome.dry_run or call.verbose else 8
    done = ("written", "removed", "merged", "left")
    would = ("would write", "would remove", "would merge", "would leave")
    wrote, took, joined, leaves = would if outcome.dry_run else done
    for word, paths in ((wrote, written), (took, outcome.removed), (joined, outcome.merged)):
        if paths:
            call.out.line(f"{word}: {phrase.paths(paths, most)}")
    left = [_left(c) for c in outcome.conflicts]
    said = {path_of(c) for c in outcome.conflicts}
    told = "\n".join(outcome.notes)
    left += [phrase.shell(p) for p in outcome.skipped if p not in said and f"{show(p)} is left" not in told]
    for text in left:
        call.out.line(f"{leaves}: {text}")
    carried = {*outcome.written, *outcome.removed}
    if uncovered := {p: r for p, r in outcome.uncovered.items() if p not in carried}:
        words = [f"{phrase.shell(p)} ({REASONS.get(r, r)})" for p, r in sorted(uncovered.items())]
        more = f" and {len(words) - 4:,} more" if len(words) > 4 else ""
        call.out.line(f"not covered, not touched: {' '.join(words[:4])}{more}")
    for text in outcome.notes:
        call.out.line(text)


def _left(conflict: Any) -> str:
    lines = phrase.lines(conflict.get("lines"))
    return (
        f"{phrase.shell(path_of(conflict))} ({', '.join(w for w in ('conflict', lines or conflict.get('why')) if w)})"
    )


def _summary(outcome: Outcome, fresh: frozenset[bytes], tense: Tense) -> str:
    merged = set(outcome.merged)
    written = [p for p in outcome.written if p not in merged]
    back = [p for p in written if p in fresh]
    same = len(written) - len(back)
    parts = []
    if same:
        parts.append(f"{phrase.count(same, 'file')} {tense.same}")
    if back:
        parts.append(f"{phrase.count(len(back), tense.back)} {'is' if len(back) == 1 else 'are'} back")
    if outcome.removed:
        parts.append(f"{phrase.count(len(outcome.removed), tense.gone)} removed")
    if merged:
        parts.append(f"{phrase.count(len(merged), 'file')} merged with later edits")
    if not parts:
        parts.append("no file had to change")
    return ", ".join(parts)


def untouched(timeline: Timeline, outcome: Outcome) -> list[bytes]:
    """What others changed after the unit and this left alone."""
    from checkpointer.cli.naming import named_paths

    unit = next((u for u in timeline.units if u.handle == outcome.unit), None)
    numbers = {c.number for c in timeline.checkpoints}
    if unit is None or outcome.before is None or outcome.before not in numbers or unit.last >= outcome.before:
        return []
    touched = {*outcome.written, *outcome.removed, *outcome.skipped}
    return [p for p in named_paths(timeline.diff(unit.last, outcome.before)) if p not in touched]


def git_words(root: bytes, timeline: Timeline, handle: str, started: datetime | None = None) -> str:
    """What git did during a turn and keeps; empty where its refs did not move. Read from git's own log of HEAD.

    `started` is when the turn began, where a log tells it: the checkpoint before it may be much older.
    """
    unit = next((u for u in timeline.units if u.handle == handle), None)
    if unit is None:
        return ""
    at = {c.number: c.meta.at for c in timeline.checkpoints}
    start, end = started or at.get(unit.first), at.get(unit.last)
    if start is None or end is None:
        return ""
    from checkpointer.workspace.project.headlog import moved

    move = moved(root, start, end)
    if move is None:
        return ""
    new, branch, certain = move
    if not certain:  # git's clock has whole seconds: it may have moved right before
        return f"git left alone: {branch} stays at {new[:7]}"
    return f"git left alone: {branch} moved to {new[:7]} during {handle} and still points there"
