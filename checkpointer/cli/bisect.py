"""`ckpt bisect`: which turn broke it, by trying a command on the files of checkpoints, each in its own directory."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Verbatim
from checkpointer.cli.call import Call
from checkpointer.cli.difference import points_of
from checkpointer.cli.titles import Title, titles
from checkpointer.errors import Failed, NothingToDo, Usage
from checkpointer.workspace.checkpoint import Checkpoint

if TYPE_CHECKING:
    from checkpointer.cli.handle import Points
    from checkpointer.viewer.bisect import Found, Verdict
    from checkpointer.workspace.workspace import Workspace


@click.command(cls=Verbatim, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--good", metavar="P", help="Where it still worked; the oldest checkpoint unless said.")
@click.option("--bad", metavar="P", help="Where it is broken; the newest checkpoint unless said.")
@click.argument("command", nargs=-1, metavar="-- CMD...", type=click.UNPROCESSED)
@click.pass_obj
def bisect(call: Call, good: str | None, bad: str | None, command: tuple[str, ...]) -> int:
    """Find the turn that broke something.

    CMD is tried on the files of a checkpoint, written to a directory of its own that is removed afterwards; your files
    are not touched. It ends with 0 where all is well, with 125 where nothing can be told, else it is broken. What git
    ignores is in no checkpoint: CKPT_WORKSPACE names your directory, to take installed packages from.
    """
    if not command:
        raise Usage("bisect takes a command", next=("ckpt bisect --good t3- --bad t7 -- pytest -q",))
    workspace = call.workspace()
    candidates = _between(points_of(workspace), good, bad)
    search = _Search(call, workspace, command)
    found = search.run(candidates)
    first = candidates[found.bad]
    maybe = [candidates[i] for i in found.skipped]
    if call.out.json:
        call.out.document(_document(candidates[found.good], first, maybe, search))
        return 0
    _tell(call, candidates[found.good], first, maybe, titles(workspace))
    return 0


def _between(points: Points, good: str | None, bad: str | None) -> list[Checkpoint]:
    """The checkpoints from the good one to the bad one, without those that have the same files as the one before."""
    if not points.kept:
        raise NothingToDo("there is no checkpoint yet", next=("ckpt save",))
    first = points.resolve(good) if good is not None else points.kept[0]
    last = points.resolve(bad) if bad is not None else points.kept[-1]
    if first is None or last is None:
        raise Usage("now is no checkpoint yet", kept="nothing was tried", next=("ckpt save, then again",))
    if first.number >= last.number:
        raise Usage(
            f"--good {first.number} is not older than --bad {last.number}",
            kept="nothing was tried",
            next=("ckpt log --checkpoints",),
        )
    chain = [c for c in points.kept if first.number < c.number <= last.number]
    if not chain or chain[-1].number != last.number:
        raise Usage(f"between {first.number} and {last.number} there is no way any more", next=("ckpt log",))
    out = [first]
    out += [c for before, c in zip([first, *chain], chain, strict=False) if c.tree != before.tree]
    if len(out) < 2:
        raise NothingToDo(f"the files of {first.number} and {last.number} are the same", kept="nothing was tried")
    return out


class _Search:
    """Tries candidates, and says so on stderr."""

    def __init__(self, call: Call, workspace: Workspace, command: tuple[str, ...]) -> None:
        self.call = call
        self.workspace = workspace
        self.command = command
        self.verdicts: dict[int, Verdict] = {}
        self.names = titles(workspace)

    def run(self, candidates: list[Checkpoint]) -> Found:
        from checkpointer.viewer.bisect import search

        ends = (("good", candidates[0]), ("bad", candidates[-1]))
        for wanted, checkpoint in ends:
            verdict = self.ask(checkpoint)
            if verdict != wanted:
                was = {"good": "works", "bad": "is broken", "skip": "tells nothing"}[verdict]
                raise Failed(
                    f"at {_named(checkpoint)}, said to be {wanted}, it {was}",
                    kept="your files were not touched",
                    next=(f"ckpt bisect --{wanted} P -- ...   (another point)", "ckpt log --checkpoints"),
                )
        return search(len(candidates), lambda i: self.ask(candidates[i]))

    def ask(self, checkpoint: Checkpoint) -> Verdict:
        from checkpointer.viewer.bisect import Stopped, tried

        place = os.fsencode(tempfile.mkdtemp(prefix="ckpt-bisect-"))
        try:
            target = os.path.join(place, os.path.basename(self.workspace.root) or b"files")
            self.workspace.restore_to(checkpoint.number, target)
            environ = {
                **os.environ,
                "CKPT_WORKSPACE": os.fsdecode(self.workspace.root),
                "CKPT_CHECKPOINT": str(checkpoint.number),
                "CKPT_HOME": os.path.join(os.fsdecode(place), "state"),  # a store of the command's goes with the place
            }
            verdict = tried(self.command, target, environ, 2 if self.call.verbose else _nowhere())
        except Stopped as e:
            raise Failed(str(e), kept="your files were not touched", next=("ckpt bisect -v ... shows it",)) from e
        finally:
            _remove(place)
        self.verdicts[checkpoint.number] = verdict
        self.call.out.note(f"{verdict:4}  {_named(checkpoint)}  {phrase.age(checkpoint.meta.at)} ago")
        return verdict


_DEVNULL: list[int] = []


def _nowhere() -> int:
    if not _DEVNULL:
        _DEVNULL.append(os.open(os.devnull, os.O_WRONLY))
    return _DEVNULL[0]


def _remove(place: bytes) -> None:
    """A directory of ours, whatever modes its files have."""

    def open_up(function: Any, path: Any, info: Any) -> None:
        os.chmod(os.path.dirname(path), 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
        function(path)

    shutil.rmtree(place, onerror=open_up)


def _named(checkpoint: Checkpoint) -> str:
    steps = checkpoint.meta.steps
    label = f" {phrase.quoted(checkpoint.meta.label)}" if checkpoint.meta.label else ""
    return f"checkpoint {checkpoint.number}{f' ({steps[-1]})' if steps else ''}{label}"


def _turn(checkpoint: Checkpoint) -> str | None:
    steps = checkpoint.meta.steps
    return steps[-1].split(".")[0] if steps else None


def _tell(call: Call, good: Checkpoint, first: Checkpoint, maybe: list[Checkpoint], names: dict[str, Title]) -> None:
    turn = _turn(first)
    title = names.get(turn or "", Title())
    where = "while an agent was not protected" if first.meta.unprotected else "outside any agent"
    what = f"{first.meta.steps[-1]} broke it" if turn else f"it broke {where}, by checkpoint {first.number}"
    prompt = f" {title.agent} {phrase.quoted(title.prompt)}".rstrip() if turn and title.prompt else ""
    call.out.line(f"{what}:{prompt}" if prompt else what)
    if maybe:
        call.out.line("or one before it, where nothing could be told: " + ", ".join(_named(c) for c in maybe))
    call.out.line(f"last good: {_named(good)}")
    call.out.line(f"next: ckpt diff {good.number} {first.number}" + (f"   ckpt undo {turn}" if turn else ""))


def _document(good: Checkpoint, first: Checkpoint, maybe: list[Checkpoint], search: _Search) -> dict[str, Any]:
    turn = _turn(first)
    title = search.names.get(turn or "", Title())
    return {
        "schema": 1,
        "good": good.number,
        "bad": first.number,
        "turn": turn,
        "step": first.meta.steps[-1] if first.meta.steps else None,
        "run": first.meta.runs[0] if first.meta.runs else None,
        "prompt": title.prompt or None,
        "maybe": [c.number for c in maybe],
        "tried": [{"checkpoint": number, "verdict": verdict} for number, verdict in sorted(search.verdicts.items())],
    }
