"""A fork: a new run from a point of another, with its own copy of the files in a directory of its own.

Its store holds the checkpoints from the parent's first to the one it begins with, under their numbers, so that turns
of the parent can be looked at, compared and undone there too. It is made apart and gets its name in one step; the files
get theirs in the next. A kill before the first leaves nothing; one between the two leaves a fork whose directory is
gone: the same call again brings it, and so does opening the run.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkpointer import disk, home, machine, record
from checkpointer.errors import Damaged, Failed, IllegalEvent, NeedsPerson, NothingToDo, Usage
from checkpointer.events import AnyEvent, LogRef, RunReleased, RunStarted, WorkspaceChanged
from checkpointer.log import JsonlLog, JsonlRuns, claim
from checkpointer.places import Place, imported
from checkpointer.recovery import queue, word
from checkpointer.replay import replay
from checkpointer.run import inheriting, keeper
from checkpointer.run.branching import Branch, Brancher, Cut, Stop, cut, unknown_outcomes
from checkpointer.run.copying import Copy, must_be_free
from checkpointer.run.files import commit_of
from checkpointer.run.identity import Identity, adopt
from checkpointer.state import RunState
from checkpointer.workspace import guard
from checkpointer.workspace.checkpoint import Checkpoint
from checkpointer.workspace.entry import show
from checkpointer.workspace.facts import Facts
from checkpointer.workspace.shadow import pins, stretch
from checkpointer.workspace.workspace import Workspace

_HANDLE = re.compile(r"r[0-9]+")
_ALONG = ("rewritten", "purged")
"""Files beside the checkpoints that say what purges did to them."""


@dataclass(frozen=True)
class Effect:
    """What the parent did outside after the point: it is in the world, and the fork does not do it again."""

    key: str
    tool: str
    arguments: Any
    status: str
    at: str


@dataclass
class Forked:
    """`checkpoint` is what the files are as of, `seq` the parent's event after which the fork goes its own way.

    `since` is in the order of its doing. `unknown` counts calls whose arguments were purged, which nobody can tell
    from a new one. `finished`: it was cut short before, and is whole now.
    """

    root: bytes
    run: str
    handle: str
    parent: str
    checkpoint: int
    seq: int
    store: Path
    since: list[Effect] = field(default_factory=list)
    unknown: int = 0
    uncovered: Mapping[bytes, str] = field(default_factory=dict)
    finished: bool = False


def fork(
    source: Workspace, log: JsonlLog, root: bytes, *, stop: Stop = lambda event: False, wanted: Checkpoint | None = None
) -> Forked:
    """Begin a run in the directory `root`, which must not be there or be empty, from the place in `log` before the
    first event at which `stop` says so. Its files are those of `wanted`, else of the newest checkpoint at that place.

    Nothing is written in the parent's store or directory. Raises `Usage` for a directory that cannot be taken, a run
    that was only watched, or a checkpoint in the middle of a call; `NeedsPerson` while the outcome of a call of the
    parent is unknown; `Busy` while its owner lives or may live; `TooOld`, `Damaged`, `NoSpace`, `Failed`.
    """
    root = guard.real(root)
    now = replay(log, keeper.of(log)).state
    parent = f"r{now.number}" if now.number is not None else now.run
    _check(source, log, now, parent)
    at = cut(log, now, stop)
    checkpoint = _checkpoint(source, at, wanted, parent)
    there = home.exactly(root)
    if there is not None:
        return _finish(there, root, log, at, checkpoint, parent)
    must_be_free(root, source)
    with Copy(root) as copy, home.planting(root) as directory:
        outcome = source.restore_to(checkpoint.number, os.fsencode(copy.path))
        made = _plant(source, log, at, checkpoint, directory, root, copy.path)
        made.uncovered = outcome.uncovered
        made.parent = parent
        made.store = home.planted(directory, root)
        copy.put()
    return made


def _check(source: Workspace, log: JsonlLog, now: RunState, parent: str) -> None:
    """May this run be forked at all?"""
    if now.mode != "driven":
        raise Usage(
            f"{parent} was only watched: its conversation is its agent's, and cannot be gone on with from here",
            kept="nothing was written",
            next=("ckpt restore P --to DIR (its files alone)",),
        )
    known = imported(source.directory)
    if known is None:
        inheriting.refuse_living(log, now, f"{parent} cannot be forked: what it does meanwhile could not be told")
    unknown = {call.key for call in unknown_outcomes(now)}
    if unknown:
        items = {item.key: item for item in queue.items(log, now) if item.key in unknown}
        cut = [item for item in queue.cut_off(log, now) if item.key in unknown]
        items.update((item.key, item) for item in cut)
        words = ", ".join(f"{one.name} {one.words}" for one in items.values()) or ", ".join(sorted(unknown))
        names = [one.name for one in items.values()]
        ways: tuple[str, ...] = ()
        if known is None:
            asked = [one.name for one in items.values() if one not in cut]
            ways = tuple(f"ckpt settle {name} --happened|--did-not-happen" for name in asked)
            ways = (f"ckpt resume {parent}", *ways) if cut or not ways else ways
        raise NeedsPerson(
            f"nobody knows whether {parent} did this: {words}; a fork would not know whether it is in the world",
            kept="nothing was written",
            next=ways or (f"settle it where {parent} came from, or resume it there, and fork then",),
            uncertain=names,
        )


def _checkpoint(source: Workspace, at: Cut, wanted: Checkpoint | None, parent: str) -> Checkpoint:
    known = at.then.commit
    if wanted is not None:
        if at.moved and (known is None or known.number != wanted.number):
            raise Usage(
                f"a call of {parent} was under way at checkpoint {wanted.number}: its files may be half-done",
                kept="nothing was written",
                next=("ckpt fork RUN @t3.2- DIR (before a call)", "ckpt fork RUN @t3.2 DIR (after it)"),
            )
        return wanted
    if known is None or known.number is None:
        raise Usage(f"{parent} has no checkpoint there: it was not protected", kept="nothing was written")
    return source.store.by_number(known.number)


def _finish(there: Place, root: bytes, log: JsonlLog, at: Cut, checkpoint: Checkpoint, parent: str) -> Forked:
    """The fork that stands here already, if it is this one and its files did not get their place."""
    runs = JsonlRuns(os.fspath(there.directory / "runs"))
    for name in runs.runs():
        first = next(iter(runs.log(name).read()), None)
        begun = first.event if first is not None else None
        same = isinstance(begun, RunStarted) and begun.fork_of == LogRef(run=log.run, seq=at.seq, sum=at.sum)
        empty = not os.path.lexists(root) or (os.path.isdir(root) and not os.listdir(root))
        if not same or not isinstance(begun, RunStarted):
            continue
        if not empty:
            raise NothingToDo(
                f"{show(root)} is this fork already: {name}, from checkpoint {checkpoint.number}",
                next=(f"ckpt -C {show(root)} resume {name}",),
            )
        workspace = home.open_place(there)
        with Copy(root) as copy:
            tip = workspace.store.tip()
            workspace.restore_to((tip or checkpoint).number, os.fsencode(copy.path))
            copy.put()
        home.accept(workspace)
        return Forked(root, name, f"r{begun.number}", parent, checkpoint.number, at.seq, there.directory, finished=True)
    raise Usage(
        f"{show(root)} has a store already, which holds something else",
        kept="nothing was written",
        next=("a directory that has none",),
    )


# The store


def _plant(
    source: Workspace, log: JsonlLog, at: Cut, checkpoint: Checkpoint, directory: Path, root: bytes, copy: str
) -> Forked:
    store = source.store
    base = log.at([1])[0].event.commit
    first = base.number if base is not None and base.number is not None else checkpoint.number
    piece = stretch.named(store, {min(first, checkpoint.number), checkpoint.number})
    if not piece.chain or piece.chain[-1].number != checkpoint.number:  # one that is kept without its neighbours
        piece = stretch.Stretch((checkpoint,))
    st = os.stat(copy)
    facts = Facts(root, st.st_dev, st.st_ino, guard.born(os.fsencode(copy)), had_run=True)
    facts.last_turn, facts.last_uncertain = source.facts.last_turn, source.facts.last_uncertain
    facts.last_run = max(source.facts.last_run, at.now.number or 0) + 1
    history = stretch.begin(os.fspath(directory), lambda into: _pack(source, piece, os.path.dirname(into)))
    labels = {n: names for n, names in pins.load(store.directory).items() if any(c.number == n for c in piece.all)}
    stretch.lead_to(history, facts, piece, stretch.cut_at(store.objects, piece), labels)
    for name in _ALONG:
        with suppress(FileNotFoundError):
            disk.replace(directory / name, Path(store.directory, name).read_bytes())
    run = at.now.run if not _HANDLE.fullmatch(at.now.run) else f"r{facts.last_run}"
    branch = _write(log, at, checkpoint, JsonlRuns(os.fspath(directory / "runs")).log(run), facts.last_run, root)
    return Forked(
        root,
        run,
        f"r{facts.last_run}",
        "",
        checkpoint.number,
        at.seq,
        directory,
        since=[_effect(log, at, branch, key) for key in (c.key for c in branch.since)],
        unknown=branch.unknown,
    )


def _pack(source: Workspace, piece: stretch.Stretch, objects: str) -> None:
    if stretch.write_pack(source.store, piece.all, objects) is None:
        raise Damaged("there is nothing to fork")


def _effect(log: JsonlLog, at: Cut, branch: Branch, key: str) -> Effect:
    call = at.now.over[key]
    held = branch.results.get(key) or {}
    started = log.at([call.started])[0].event.at if call.started else ""
    status = "done" if call.status == "completed" else "unknown"
    return Effect(key, call.tool, held.get("arguments"), status, started)


# The log


def _write(log: JsonlLog, at: Cut, checkpoint: Checkpoint, mine: JsonlLog, number: int, root: bytes) -> Branch:
    """The log of the fork, let go and ready to be opened."""
    world = machine.World()
    secret = secrets.token_bytes(32)
    adopt(mine.directory, secret)
    branch = Brancher(log, at, Identity(secret, at.now.tenant, mine.run), mine.run).run()
    begun = word.newest_claim(log, at.now)
    commit = commit_of(checkpoint, captured=False)
    first = RunStarted(
        run=mine.run,
        number=number,
        tenant=at.now.tenant,
        mode="driven",
        owner=machine.holder(),
        fork_of=LogRef(run=log.run, seq=at.seq, sum=at.sum),
        inherits=_began_with(log),
        carried=tuple(branch.carried),
        carried_results=branch.results or None,
        on_uncertain="tell" if at.now.on_uncertain == "tell" else "pause",
        agent=at.now.agent,
        ttl_ms=at.now.ttl_ms,
        tools=at.now.tools,
        prompt=at.now.prompt,
        command=begun.command if begun is not None else None,
        environment=begun.environment if begun is not None else None,
        directory=os.fsencode(root).decode("utf-8", "backslashreplace"),
        commit=commit,
    )
    pen = claim(mine, first, world=world)
    last: list[AnyEvent] = []
    if at.then.commit is None or at.then.commit.number != checkpoint.number:
        before = at.then.commit.number if at.then.commit is not None else None
        last.append(
            WorkspaceChanged(cause="restore", by="person", checkpoint=checkpoint.number, before=before, commit=commit)
        )
    last.append(RunReleased(how="paused"))
    lines = _lines(branch, last, pen.folded.position.sum, mine, world)
    try:
        mine.append(pen.folded.position, 1, lines)
        state = replay(mine).state
    except (IllegalEvent, Damaged) as e:
        raise Failed(f"{log.run} cannot be forked there: {e.message}", kept="nothing was written") from e
    finally:
        mine.close()
    if state.seq != len(lines) + 1:
        raise Failed(f"{log.run} cannot be forked there: its log came out shorter", kept="nothing was written")
    return branch


def _began_with(log: JsonlLog) -> tuple[LogRef, ...]:
    """The runs that the parent continues: the same program names them in the fork too."""
    first = log.at([1])[0].event
    return first.inherits if isinstance(first, RunStarted) else ()


def _lines(
    branch: Branch, last: list[AnyEvent], total: str, log: JsonlLog, world: machine.World
) -> list[record.Encoded]:
    lines = []
    events = [*branch.events]
    for event in last:
        seq = len(events) + 2
        place: dict[str, Any] = {"seq": seq, "w": seq, "epoch": 1, "at": world.at()}
        events.append(event.model_copy(update=place))
    for event in events:
        named = event.model_copy(update={"id": world.event_id()})
        gone = branch.bare.get(event.seq)
        line = record.encode_redacted(named, total, gone) if gone else record.encode(named, total, world.salt())
        total = line.sum
        lines.append(line)
    log.keep([one for line in lines for one in line.objects])
    return lines
