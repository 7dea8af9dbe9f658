"""Making a checkpoint on somebody's word: the store if there is none, the checkpoint, what is said of it.

`ckpt save` is called often, also by agents: nothing here loads the parser of the command line.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from checkpointer import home
from checkpointer.cli import phrase
from checkpointer.cli.naming import named_paths
from checkpointer.errors import NeedsPerson, Usage
from checkpointer.workspace import guard
from checkpointer.workspace.entry import to_json

if TYPE_CHECKING:
    from checkpointer.cli.call import Call
    from checkpointer.cli.progress import Bar
    from checkpointer.workspace.checkpoint import By
    from checkpointer.workspace.outcome import Saved
    from checkpointer.workspace.workspace import Progress, Workspace

REASONS = {
    "too-large": "too large",
    "unreadable": "cannot be read",
    "socket": "socket",
    "device": "device",
    "other-filesystem": "another file system",
}


def checked_label(label: str | None) -> str | None:
    """A label as it may stand. Raises Usage for one that would read as something else."""
    if label is None:
        return None
    from checkpointer.cli.handle import reads_as_handle

    if not label.strip():
        raise Usage("an empty label names nothing")
    if reads_as_handle(label) or label.startswith("-"):
        raise Usage(f"{label!r} would read as a handle, not as a label", next=("choose a word",))
    return label


def save(call: Call, label: str | None, *, force_root: bool) -> int:
    """Make a checkpoint of the files as they are now, and tell; the exit status."""
    name = checked_label(label)
    workspace = open_or_make(call, force_root=force_root)
    tip = workspace.store.tip()
    with call.progress() as bar:
        progress: Progress = bar if tip is not None else Weighing(call, workspace, bar)
        by: By = "agent" if call.inside_agent() else "person"
        saved = workspace.save(kind="save", label=name, by=by, progress=progress)
    call.notices(workspace)
    note_prompt(workspace)
    if call.out.json:
        call.out.document(document(saved))
        return 0
    call.out.line(_words(saved, name))
    was = tip.meta.label if tip is not None and not saved.created else None
    if name and was and was != name:
        call.out.line(f"it is still found as {phrase.quoted(was)} too")
    if not saved.present.files:
        say_if_nothing(call, workspace)
    print_uncovered(call, workspace, saved.uncovered)
    for path in sorted(saved.torn):
        call.out.note(f"note: {phrase.shell(path)} was being written; it is kept as last read")
    return _settled_status(saved)


def say_if_nothing(call: Call, workspace: Workspace) -> None:
    """Say loudly that no file is covered, where rules are the reason."""
    from checkpointer.cli import emptiness

    why = emptiness.why_nothing(workspace)
    if why:
        call.out.error(f"NOTHING IS PROTECTED: {why}")
        call.out.error(f"next: {emptiness.WAY}")


def _words(saved: Saved, name: str | None) -> str:
    label = f" {phrase.quoted(name)}" if name else ""
    if not saved.created:
        return f"nothing changed since checkpoint {saved.checkpoint.number}{label and f', which is called{label} now'}"
    if saved.before is None:
        return f"checkpoint {saved.checkpoint.number}{label}: {phrase.count(saved.present.files, 'file')}"
    changed = phrase.count(len(named_paths(saved.changed)), "file")
    return f"checkpoint {saved.checkpoint.number}{label}: {changed} changed"


def _settled_status(saved: Saved) -> int:
    """3 where an undo or restore that was cut short is finished now but for paths that somebody changed since."""
    return NeedsPerson.exit if saved.settled is not None and saved.settled.left else 0


def open_or_make(call: Call, *, force_root: bool = False) -> Workspace:
    """The workspace of this call, made if there is none; a first look at a heavy tree says so."""
    place = home.locate(call.directory)
    if place is not None and place.state == "gone":
        raise Usage(
            f"{phrase.directory(place.root)} is gone",
            kept="its checkpoints are kept",
            next=("ckpt undo", "ckpt restore P"),
        )
    if place is not None:
        workspace = call.workspace(write=True)
        if place.state == "remade":
            call.out.note(
                f"note: {phrase.directory(place.root)} was made anew; older checkpoints are of the one before"
            )
            home.accept(workspace)
        return workspace
    return call.opened(home.make(call.directory, force_root=force_root))


class Weighing:
    """Passes progress on; says once, as soon as a first checkpoint turns out to be heavy, how heavy and where."""

    def __init__(self, call: Call, workspace: Workspace, bar: Bar) -> None:
        self._call = call
        self._workspace = workspace
        self._bar = bar
        self._limit = call.config.integer("capture.heavy")
        self._said = False

    def __call__(self, phase: str, done: int, total: int | None, count: int) -> None:
        if done > self._limit and not self._said:
            self._said = True
            self._bar.close()
            self._say()
        self._bar(phase, done, total, count)

    def _say(self) -> None:
        found = guard.survey(self._workspace.root, self._workspace.ignores(), stop=self._limit)
        largest = ", ".join(f"{phrase.shell(p)} ({n:,}+)" for p, n in found.largest)
        self._call.out.note(f"note: more than {self._limit:,} files to read; the most are in {largest}")
        self._call.out.note("note: what need not be covered can be listed in .ckptignore, as in a .gitignore")


def note_prompt(workspace: Workspace) -> None:
    """Keep what a shell prompt shows."""
    from checkpointer.cli import prompt

    tip = workspace.store.tip()
    prompt.note(workspace.directory, {"protected": True, "checkpoint": tip.number if tip else None})


def uncovered_document(uncovered: Any) -> list[dict[str, Any]]:
    return [{"path": to_json(p), "reason": reason} for p, reason in sorted(uncovered.items())]


def print_uncovered(call: Call, workspace: Workspace, uncovered: Any) -> None:
    """One line that names what is not covered, with sizes; nothing where all is."""
    if uncovered:
        call.out.line("not covered: " + uncovered_words(workspace, uncovered))


def uncovered_words(workspace: Workspace, uncovered: Any, most: int = 6) -> str:
    words = []
    for path in sorted(uncovered)[:most]:
        reason = REASONS.get(uncovered[path], uncovered[path])
        if uncovered[path] == "too-large":
            with contextlib.suppress(OSError):
                reason = f"{phrase.size(os.lstat(os.path.join(workspace.root, path)).st_size)}, {reason}"
        words.append(f"{phrase.shell(path)} ({reason})")
    more = len(uncovered) - most
    return " ".join(words) + (f" and {more:,} more" if more > 0 else "")


def document(saved: Saved) -> dict[str, Any]:
    return {
        "schema": 1,
        "checkpoint": saved.checkpoint.number,
        "commit": saved.checkpoint.id,
        "created": saved.created,
        "changed": [to_json(p) for p in named_paths(saved.changed)],
        "uncovered": uncovered_document(saved.uncovered),
        "torn": [to_json(p) for p in sorted(saved.torn)],
    }
