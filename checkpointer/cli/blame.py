"""`ckpt blame`: each line of a file with the turn that wrote it, and what that turn was asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Command, paths_of
from checkpointer.cli.call import Call
from checkpointer.cli.difference import points_of
from checkpointer.cli.patch import BIG
from checkpointer.cli.titles import Title, titles
from checkpointer.errors import NothingToDo, Usage
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.directories import Directories
from checkpointer.workspace.entry import Entry, show, to_json

if TYPE_CHECKING:
    from checkpointer.viewer.blame import Version
    from checkpointer.workspace.workspace import Workspace

FIRST = "first"
NOW = "now"


class Origin(NamedTuple):
    """Where a version came from: the checkpoint that has it first, None for what no checkpoint holds yet. `known` is
    false for the oldest checkpoint there is: its lines may be older.
    """

    checkpoint: Checkpoint | None
    known: bool = True

    @property
    def handle(self) -> str:
        """`t3.2`, `t3`, `17`, or `now`."""
        if self.checkpoint is None:
            return NOW
        steps = self.checkpoint.meta.steps
        if steps:
            return steps[0] if len(steps) == 1 else "+".join(steps)
        return str(self.checkpoint.number)

    @property
    def turn(self) -> str | None:
        steps = self.checkpoint.meta.steps if self.checkpoint is not None else ()
        return steps[0].split(".")[0] if steps else None


@click.command(cls=Command)
@click.option("-L", "lines", metavar="N[,M]", help="Only line N, or lines N to M.")
@click.option("--at", "point", metavar="P", help="The file as of P instead of now.")
@click.argument("words", nargs=-1, metavar="PATH")
@click.pass_context
def blame(ctx: click.Context, lines: str | None, point: str | None, words: tuple[str, ...]) -> int:
    """Which turn wrote each line of a file, and what it was asked.

    A line that an undo brought back is of the turn that wrote it first. What nobody's turn wrote is named by its
    checkpoint: a person's, or another program's.
    """
    call: Call = ctx.find_object(Call)  # type: ignore[assignment]
    typed = [*words, *(paths_of(ctx) or ())]
    if len(typed) != 1:
        raise Usage("blame takes one path", next=("ckpt blame PATH", "ckpt blame --at t3- PATH"))
    (path,) = call.relative(typed)
    workspace = call.workspace()
    end = points_of(workspace).resolve(point) if point is not None else None
    versions = list(_versions(workspace, path, end))
    from checkpointer.viewer.blame import blame as blamed

    told = blamed(versions)
    first, last = _range(lines, len(told))
    names = titles(workspace)
    with call.out.paged(str(call.config["ui.pager"])):
        if call.out.json:
            for number, (origin, line) in enumerate(told, 1):
                if first <= number <= last:
                    call.out.document(_document(path, number, origin, line, names))
        else:
            _print(call, told, first, last, names)
    return 0


def _range(lines: str | None, count: int) -> tuple[int, int]:
    if lines is None:
        return 1, count
    first, comma, last = lines.partition(",")
    try:
        found = int(first), int(last) if comma else int(first)
    except ValueError:
        raise Usage(f"-L takes N or N,M, not {lines!r}") from None
    if not 1 <= found[0] <= found[1]:
        raise Usage(f"-L {lines}: lines are counted from 1, the first one first")
    if found[0] > count:
        raise Usage(f"there are only {phrase.count(count, 'line')}")
    return found


def _versions(workspace: Workspace, path: bytes, end: Checkpoint | None) -> Iterator[Version[Origin]]:
    """What stood at the path, each time it changed, oldest first. Raises `NothingToDo` where nothing stands there,
    `Usage` where that is no text file.
    """
    from checkpointer.viewer.blame import Version

    store = workspace.store
    before: tuple[str, bytes] | None = None
    last = b""
    checkpoints = [c for c in store.checkpoints() if end is None or c.number <= end.number]
    if end is not None and end not in checkpoints:
        checkpoints.append(end)  # a pinned one, older than the timeline
    for i, checkpoint in enumerate(checkpoints):
        entry = store.tree(checkpoint).entry(path)
        now = (entry.kind, entry.oid) if entry is not None and entry.kind == "file" else None
        if now != before:
            last = b"" if entry is None or now is None else _text(store.objects.get(entry.oid)[1], path)
            yield Version(Origin(checkpoint, known=i > 0), last)
        before = now
    if end is not None:
        if before is None:
            raise NothingToDo(f"there is no file {show(path)} at {end.number}", next=(f"ckpt log -- {show(path)}",))
        return
    content = _on_disk(workspace.root, path)
    if content is None and os.path.isdir(os.path.join(workspace.root, path)):
        raise Usage(f"{show(path) or '.'} is a directory: blame takes one file", next=("ckpt log -- PATH",))
    if content is None:
        at = next((c.number for c in reversed(checkpoints) if _is_file(store.tree(c).entry(path))), None)
        following = (f"ckpt blame --at {at} -- {show(path)}",) if at is not None else ("ckpt log",)
        raise NothingToDo(f"there is no file {show(path)} now", next=following)
    if before is None or content != last:
        yield Version(Origin(None), _text(content, path))


def _is_file(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == "file"


def _on_disk(root: bytes, path: bytes) -> bytes | None:
    """The file's bytes as they are now; None where no regular file stands there."""
    import stat

    try:
        with Directories(root) as directories:
            fd = directories.open_file(path)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    return None
                with open(fd, "rb", closefd=False) as f:
                    return f.read(BIG + 1)
            finally:
                os.close(fd)
    except OSError:
        return None


def _text(content: bytes, path: bytes) -> bytes:
    if len(content) > BIG:
        raise Usage(f"{show(path)} is too large to be told apart by line")
    return content


def _print(call: Call, told: list[tuple[Origin, bytes]], first: int, last: int, names: dict[str, Title]) -> None:
    shown = told[first - 1 : last]
    if any(b"\0" in line for _, line in shown):
        raise Usage("it is no text: its lines cannot be told apart", next=("ckpt log -- PATH",))
    if not shown:
        call.out.note("it is empty")
        return
    width = max(len(o.handle) for o, _ in shown)
    number_width = len(str(first + len(shown) - 1))
    who_width = max(len(_who(o, names)) for o, _ in shown)
    number = first
    for origin, group in groupby(shown, key=lambda item: item[0]):
        for i, (_, line) in enumerate(group):
            age = phrase.age(origin.checkpoint.meta.at) if origin.checkpoint is not None else ""
            left = f"{origin.handle:{width}}  {_who(origin, names):{who_width}}  {age:>7}"
            left = call.out.style(left, "yellow") if i == 0 else " " * len(left)
            call.out.line(f"{left}  {number:{number_width}}  {_printable(line)}")
            number += 1
    asked = {o.turn: names.get(o.turn, Title()) for o, _ in shown if o.turn is not None}
    told_of = [(turn, title) for turn, title in asked.items() if title.prompt]
    if told_of:
        call.out.line()
    for turn, title in told_of:
        call.out.line(f"{turn}  {phrase.quoted(title.prompt, 80)}   ckpt show {turn}")


def _printable(line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace").rstrip("\r\n")
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in text)


def _who(origin: Origin, names: dict[str, Title]) -> str:
    if origin.checkpoint is None:
        return "not kept yet"
    if not origin.known:
        return FIRST
    if origin.turn is not None:
        return names.get(origin.turn, Title()).agent or "agent"
    operation = origin.checkpoint.meta.operation
    if operation is not None:
        return f"{origin.checkpoint.kind} of {operation.unit}"
    return "agent or you" if origin.checkpoint.meta.unprotected else "you"


def _document(path: bytes, number: int, origin: Origin, line: bytes, names: dict[str, Title]) -> dict[str, Any]:
    c = origin.checkpoint
    title = names.get(origin.turn or "", Title())
    return {
        "schema": 1,
        "path": to_json(path),
        "line": number,
        "text": to_json(line.rstrip(b"\r\n")),
        "checkpoint": c.number if c is not None else None,
        "commit": c.id if c is not None else None,
        "at": phrase.stamp(c.meta.at) if c is not None else None,
        "turn": origin.turn,
        "step": origin.handle if origin.turn is not None else None,
        "run": c.meta.runs[0] if c is not None and c.meta.runs else None,
        "agent": title.agent or None,
        "prompt": title.prompt or None,
        "oldest": not origin.known,
    }
