"""`ckpt log --html FILE`: the whole history gathered into one page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from checkpointer import canon, disk
from checkpointer.cli import listing, phrase
from checkpointer.cli.naming import named_paths
from checkpointer.cli.patch import Changes, Delta, Read, deltas, patch, stat
from checkpointer.cli.titles import Call as Called
from checkpointer.cli.titles import Title
from checkpointer.errors import CheckpointerError, Usage
from checkpointer.viewer.page import BEGINNING, LINES, File, Item, Page, Step, write
from checkpointer.workspace.entry import show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from checkpointer.cli.listing import Row
    from checkpointer.workspace.undoing.timeline import Timeline
    from checkpointer.workspace.workspace import Workspace

_FILES = 60
"""Files of one step that are listed."""
_BUDGET = 4 << 20
"""Bytes of patches in a page; beyond that files are only counted."""


def save(target: str, workspace: Workspace, timeline: Timeline, rows: Iterable[Row], names: Mapping[str, Title]) -> int:
    """Write the page of these rows; its size in bytes. A page written before is replaced in one step.

    Raises Usage where `target` is no place for it, or something else stands there: no checkpoint need hold that.
    """
    path = os.path.abspath(target)
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        raise Usage(f"--html {target}: give the name of a file in a directory that exists", kept="nothing was written")
    if os.path.lexists(path) and not _is_page(path):
        raise Usage(
            f"--html {target}: that is there already, and is no page that ckpt wrote",
            kept="nothing was written",
            next=(f"ckpt log --html {phrase.shell(os.fsencode(_free(target)))}",),
        )
    data = write(gather(workspace, timeline, list(rows), names))
    with disk.plain_errors(target):
        disk.replace(path, data, mode=0o600, durable=False)
    return len(data)


def _is_page(path: str) -> bool:
    """Is this a page that was written here before? A link to one is not: it would be replaced, not what it names."""
    wanted = BEGINNING.encode()
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as f:
            return f.read(len(wanted)) == wanted
    except OSError:
        return False


def _free(target: str) -> str:
    """A name beside `target` that nothing has."""
    stem = target.removesuffix(".html")
    names = (f"{stem}-{n}.html" if n else f"{stem}.html" for n in range(1000))
    return next((name for name in names if not os.path.lexists(name)), "FILE")


def gather(workspace: Workspace, timeline: Timeline, rows: list[Row], names: Mapping[str, Title]) -> Page:
    """What the page shows, oldest first."""
    maker = _Maker(workspace, timeline)
    items = [maker.item(row) for row in rows] + list(_events(workspace))
    items.sort(key=lambda item: item.at)
    turns = [row for row in rows if row.kind == "turn"]
    changed = {p for row in turns for p in named_paths(listing.changes_of(timeline, row.segments))}
    facts = [
        ("turns", f"{len(turns):,}"),
        ("files changed", f"{len(changed):,}"),
        ("checkpoints", f"{len(timeline.checkpoints):,}"),
        ("runs", f"{len({run for row in rows for run in row.runs}):,}"),
    ]
    undone = sum(row.state == "back" for row in turns)
    if undone:
        facts.append(("undone", f"{undone:,}"))
    root = workspace.root
    name = os.fsdecode(os.path.basename(root)) or "/"
    return Page(name, phrase.directory(root), datetime.now(UTC), facts, items)


class _Maker:
    """Turns rows into items, within the budget for patches."""

    def __init__(self, workspace: Workspace, timeline: Timeline) -> None:
        self._timeline = timeline
        self._read: Read = listing.reader(workspace)
        self._left = _BUDGET

    def item(self, row: Row) -> Item:
        if row.kind == "turn":
            return self._turn(row)
        label = row.checkpoint.meta.label
        files = self._files(listing.changes_of(self._timeline, row.segments))
        steps = [Step("", "", "", "", files)] if files else []
        at = row.checkpoint.meta.at
        who = {"person": "you", "agent": "an agent", "watch": ""}[row.checkpoint.meta.by]
        if row.kind == "restore":
            operation = row.checkpoint.meta.operation
            title = f"restored {operation.unit.removeprefix('restore ')}" if operation is not None else "restored"
            return Item("restore", str(row.checkpoint.number), at, title, who, "", _state(row), steps)
        title = f"saved “{label}”" if label else ("first checkpoint" if not row.segments else "saved")
        return Item("save", str(row.checkpoint.number), at, title, who, "", _state(row), steps)

    def _turn(self, row: Row) -> Item:
        title = row.title
        calls = dict(title.calls or {})
        steps: list[tuple[tuple[int, int], Step]] = []
        for step in row.unit.steps if row.unit is not None else ():
            handles = sorted(step.handles)
            own = [calls.pop(str(h)) for h in handles if str(h) in calls]
            files = self._files(listing.changes_of(self._timeline, step.segments))
            first = handles[0] if handles else None
            place = (first.turn, first.step or 0) if first is not None else (0, 0)
            steps.append((place, _step(step.handle, own, files)))
        for name, call in calls.items():  # they changed no file
            turn, _, number = name[1:].partition(".")
            steps.append(((int(turn), int(number or 0)), _step(name, [call], [])))
        took = phrase.span(title.seconds) if title.seconds is not None else ""
        who = " ".join(w for w in (title.agent, *sorted(row.runs)) if w)
        at = title.started or row.checkpoint.meta.at
        asked = title.prompt or "a turn that nobody told the prompt of"
        ordered = [step for _, step in sorted(steps, key=lambda pair: pair[0])]
        return Item("turn", row.handle, at, asked, who, took, _state(row), ordered, title.answer)

    def _files(self, changes: Changes) -> list[File]:
        named = set(named_paths(changes))
        listed = [d for d in deltas(changes) if d.path in named]
        out = [self._file(delta) for delta in listed[:_FILES]]
        if len(listed) > _FILES:
            out.append(File(f"and {phrase.count(len(listed) - _FILES, 'more file')}", 0, 0, "changed"))
        return out

    def _file(self, delta: Delta) -> File:
        what: Literal["new", "gone", "changed"] = (
            "new" if delta.old is None else "gone" if delta.new is None else "changed"
        )
        name = show(delta.path)
        if self._left <= 0:
            return File(name, 0, 0, what)
        try:
            counted = stat(delta, self._read)
            lines = patch(delta, self._read).decode("utf-8", "backslashreplace").split("\n")
        except CheckpointerError as e:
            return File(f"{name}: {e.message}", 0, 0, what)
        start = next((i for i, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
        body = lines[start:-1][:LINES]
        self._left -= sum(map(len, body))
        return File(name, counted.added, counted.removed, what, body, len(lines) - 1 - start <= LINES)


def _step(handle: str, calls: list[Called], files: list[File]) -> Step:
    tools = " | ".join(dict.fromkeys(c.tool for c in calls))
    about = " | ".join(c.about for c in calls if c.about)
    return Step(handle, tools, about, " ".join(dict.fromkeys(c.end for c in calls if c.end)), files)


def _state(row: Row) -> str:
    return listing.STATES.get(row.state or "", "")


def _events(workspace: Workspace) -> Iterator[Item]:
    """What people want to know beside the turns: crashes and who went on, questions and their answers."""
    from checkpointer.log import glance
    from checkpointer.log.beside import Beside

    runs = os.path.join(workspace.directory, "runs")
    for run in glance.runs(runs):
        directory = os.path.join(runs, run)
        fetch = Beside(directory).fetch
        handle = run
        tools: dict[str, str] = {}
        try:
            for seen in glance.look(directory):
                facts = seen.facts
                if facts["type"] == "run_started" and facts.get("number") is not None:
                    handle = f"r{facts['number']}"
                if "tool" in facts and "key" in facts:
                    tools[facts["key"]] = facts["tool"]
                told = _told(facts, seen.contents(fetch) if facts["type"] in _WITH_WORDS else {}, tools)
                if told is not None:
                    title, tone = told
                    at = datetime.fromisoformat(facts["at"])
                    yield Item("event", f"{handle}-{seen.seq}", at, title, handle, tone=tone)
        except (CheckpointerError, KeyError, TypeError, ValueError) as e:
            at = datetime.now(UTC)
            yield Item("event", f"{handle}-damaged", at, f"the rest of its log cannot be read: {e}", handle, tone="bad")


Tone = Literal["", "good", "warn", "bad"]
_WITH_WORDS = ("approval_requested", "approval_decided", "tool_call_uncertain", "tool_call_reconciled")


def _told(facts: Mapping[str, Any], said: Mapping[str, Any], tools: Mapping[str, str]) -> tuple[str, Tone] | None:
    kind = facts["type"]
    tool = tools.get(facts.get("key", ""), "a call")
    if kind == "run_resumed":
        how = {"crash": "went on after it died", "takeover": "was taken over", "released": "went on"}
        tone: Tone = "bad" if facts["after"] == "crash" else "warn" if facts["after"] == "takeover" else ""
        return how[facts["after"]], tone
    if kind == "run_released" and facts["how"] == "interrupted":
        return "was interrupted", "warn"
    if kind == "approval_requested":
        return f"asked whether {tool} may run" + _words(said.get("question")), "warn"
    if kind == "approval_decided":
        by = {"person": said.get("who") or "a person", "policy": "a policy", "clock": "nobody in time"}
        decided = facts["decision"]
        return (
            f"{tool}: {decided}, by {by[facts['decided_by']]}" + _words(said.get("reason")),
            "good" if decided == "approved" else "warn",
        )
    if kind == "tool_call_uncertain":
        return f"{tool}: nobody knows whether it happened", "bad"
    if kind == "tool_call_reconciled" and facts.get("verdict") not in ("unreported", None):
        verdict = {"complete": "it had happened", "retry": "it is tried again", "abandon": "it was given up"}
        return f"{tool}: {verdict.get(facts['verdict'], facts['verdict'])}", ""
    return None


def _words(value: Any) -> str:
    found = canon.thaw(value) if value is not None else None
    return f": {found}" if isinstance(found, str) and found else ""
