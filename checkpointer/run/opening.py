"""`open_run`: claim a run, replay it, make files and log agree, settle what was cut off; then let it go on.

Leaving the block lets the run go, and anybody may resume it at once; only `finish` ends it. A process that dies lets go
too. The order on opening: claim, letters of others, files, uncertain calls; only then may a model be asked.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterable
from datetime import timedelta
from hashlib import sha256
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from checkpointer import home, machine
from checkpointer.errors import CheckpointerError, Fenced, NeedsPerson, NoStore, Usage
from checkpointer.events import Declared, Durability, RunStarted
from checkpointer.log import Folded, JsonlLog, JsonlRuns, Pen, claim
from checkpointer.replay import Counters, replay
from checkpointer.run import declared, drift, retirement, roster, settling, telemetry
from checkpointer.run.contents import Contents
from checkpointer.run.desk import Desk, Policy
from checkpointer.run.driven import Run
from checkpointer.run.files import Files
from checkpointer.run.identity import Identity, adopt, secret
from checkpointer.run.keeper import Keeper, of
from checkpointer.run.turnstile import Turnstile
from checkpointer.tools import Tool
from checkpointer.workspace.workspace import Workspace

if TYPE_CHECKING:
    from checkpointer.run.asynchronous import AsyncRun
    from checkpointer.run.inheriting import Inheritance

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HANDLE = re.compile(r"r[0-9]+")


class Wanted(NamedTuple):
    """What `open_run` was asked for."""

    directory: str | bytes | os.PathLike[str]
    run_id: str | None
    tools: tuple[Tool, ...]
    on_uncertain: Literal["pause", "tell"]
    files: drift.Choice
    take_over: bool
    ttl: timedelta
    prompt: str | None
    agent: str | None
    policy: Policy | None
    durability: Durability
    snapshot_every: int
    inherits: tuple[str, ...]
    force_root: bool


def open_run(
    directory: str | bytes | os.PathLike[str] = ".",
    *,
    run_id: str | None = None,
    tools: Iterable[Tool] = (),
    on_uncertain: Literal["pause", "tell"] = "pause",
    files: drift.Choice = "ask",
    take_over: bool = False,
    ttl: timedelta = timedelta(seconds=30),
    prompt: str | None = None,
    agent: str | None = None,
    policy: Policy | None = None,
    durability: Durability = Durability(),  # noqa: B008 - immutable
    snapshot_every: int | None = None,
    inherits: Iterable[str] = (),
    force_root: bool = False,
) -> Opening:
    """A run in the workspace at `directory`: started, or resumed if there is one called `run_id`. Use it as a block:
    `with open_run(...) as run` gives a `Run`, `async with` an `AsyncRun`.

    `run_id` is letters, digits, `.`, `_` and `-`; without one a new run begins. `on_uncertain="tell"` lets the model go
    on while the outcome of a call is unknown, telling it so. `files` says what to do where somebody changed the files
    since: `ask` raises `Drift`, `keep` takes them as they are, `restore` puts those of the run back (the present stays
    in a checkpoint). `take_over` claims a run whose owner has not been heard of for longer than its `ttl` and of which
    nobody can say that it is dead. `prompt`, of which only a digest is kept, lets a resume name that it changed.
    `policy` is asked before each call. `snapshot_every` writes a snapshot of the run's state after so many events, 0
    only when a long run is let go (None: what `ckpt config run.snapshot_every` says). A new run `inherits` from others
    what they did outside: a call that would do the same joins theirs, and what is uncertain there is so here.

    Entering raises `Busy` while another process owns the run, or one that it inherits from, `NeedsPerson` where the
    outcome of a call must be settled first, `Drift`, `Damaged`, `RefusedRoot`. A finished run can be entered, and
    looked at.

    Not promised: an effect that happened exactly once without a receiver that knows keys, or can be asked.
    """
    named = declared.checked(tools)
    if run_id is not None and not _NAME.fullmatch(run_id):
        raise Usage(f"not a name for a run: {run_id!r}")
    config = home.configuration()
    if snapshot_every is None:
        snapshot_every = config.integer("run.snapshot_every")
    wanted = Wanted(
        directory, run_id, named, on_uncertain, files, take_over, ttl, prompt, agent, policy, durability,
        snapshot_every, (inherits,) if isinstance(inherits, str) else tuple(inherits), force_root,
    )  # fmt: skip
    return Opening(wanted)


class Opening:
    """A run about to be opened; see `open_run`."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._held: _Held | None = None

    def __enter__(self) -> Run:
        self._held = _open(self._wanted)
        return self._held.run

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.leave(error)

    async def __aenter__(self) -> AsyncRun:
        import asyncio

        from checkpointer.run.asynchronous import AsyncRun

        self._held = held = await asyncio.to_thread(_open, self._wanted)
        return AsyncRun(held.run, held.desk, held.gate)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        held, self._held = self._held, None
        if held is not None:
            import asyncio

            await asyncio.shield(asyncio.to_thread(held.leave, error))


class _Held:
    """An open run, and what must end with it."""

    def __init__(self, desk: Desk, gate: Turnstile, log: JsonlLog) -> None:
        self.desk = desk
        self.gate = gate
        self.run = Run(desk, gate)
        self._log = log
        self._stop = threading.Event()

    def keep_alive(self) -> None:
        """Renew the lease until the run is left, or lost."""
        threading.Thread(target=self._renew, name=f"lease of {self.run.id}", daemon=True).start()

    def _renew(self) -> None:
        pen = self.desk.pen
        while not self._stop.wait(pen.state.ttl_ms / 3000):
            try:
                pen.renew()
            except Fenced:
                return
            except CheckpointerError:
                continue  # a full disk may have room again; who waits for us sees the lease pass

    def leave(self, error: BaseException | None) -> None:
        """Let the run go. Never raises: one that cannot be released is nobody's once its owner is gone."""
        self._stop.set()
        how: Literal["ended", "paused", "interrupted"] = "ended" if error is None else "interrupted"
        with contextlib.suppress(CheckpointerError):
            if self.desk.state.status == "owned":
                self.desk.pen.release("paused" if isinstance(error, NeedsPerson) else how)
                if self.desk.keeper is not None:
                    self.desk.keeper.let_go(self.desk.pen.folded)
        _close(self.desk.files.workspace, self._log)


def _close(workspace: Workspace, log: JsonlLog) -> None:
    """No descriptor is kept for a run that nobody is in; who looks at it again opens them again."""
    log.close()
    workspace.store.objects.close()


def _open(wanted: Wanted) -> _Held:
    with telemetry.span("ckpt.open_run", {"gen_ai.agent.name": wanted.agent}) as mark:
        held = _opened(wanted)
        state = held.desk.state
        mark.tell({telemetry.RUN: state.run, "ckpt.run": held.run.handle, "ckpt.epoch": state.epoch})
        return held


def _opened(wanted: Wanted) -> _Held:
    workspace, another = _workspace(wanted)
    runs = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory)))
    if wanted.run_id is None and (again := _resumed(runs)) is not None:
        wanted = wanted._replace(run_id=again)
    if wanted.run_id is None:
        handle, known, log = "", Folded(), None
    else:
        log = runs.log(wanted.run_id)
        known = _replayed(log)
        handle = f"r{known.state.number}" if known.state.number is not None else known.state.run
    if known.state.status == "new" and wanted.run_id is not None and _HANDLE.fullmatch(wanted.run_id):
        raise NoStore(f"there is no run {wanted.run_id}", kept="nothing was written", next=("ckpt runs",))
    if known.state.status == "new" and wanted.run_id is not None:
        retirement.refuse(workspace.directory, wanted.run_id)
    files = Files(workspace, wanted.run_id or handle, handle)
    fresh = known.state.status == "new"
    heritage = _heritage(wanted, runs, log, fresh=fresh) if wanted.inherits else None
    begin = _begin(wanted, files, heritage, fresh=fresh)
    log = log or runs.log(begin.run)
    if heritage is not None:
        adopt(log.directory, heritage.secret)
    if known.state.status == "finished":
        # Nothing can be claimed any more: this pen refuses whatever it is given.
        pen = Pen(log, known, known.state.epoch, shared=False, world=machine.World())
        return _Held(_desk(wanted, pen, files, log), Turnstile(workspace.directory / "writes.lock"), log)
    try:
        pen = _claimed(wanted, log, begin, known)
    except BaseException:
        _close(workspace, log)
        raise
    files.handle = f"r{pen.state.number}" if pen.state.number is not None else pen.state.run
    held = None
    try:
        desk = _desk(wanted, pen, files, log)
        held = _Held(desk, Turnstile(workspace.directory / "writes.lock"), log)
        held.keep_alive()
        held.run.notices += declared.changed(known.state, pen.state)
        _take_up(wanted, held)
        if another:
            home.accept(workspace)
    except BaseException as e:
        (held or _Held(_bare(pen, files), Turnstile(workspace.directory / "writes.lock"), log)).leave(e)
        raise
    return held


def _claimed(wanted: Wanted, log: JsonlLog, begin: RunStarted, known: Folded) -> Pen:
    with telemetry.span("ckpt.claim", {telemetry.RUN: begin.run}) as mark:
        pen = claim(log, begin, take_over=wanted.take_over, known=known)
        telemetry.claimed(pen.state, mark)
        return pen


def _resumed(runs: JsonlRuns) -> str | None:
    """The run that `ckpt resume` started this program for, which it let go under the epoch that it told us."""
    name = os.environ.get("CKPT_RUN", "")
    if name not in runs.runs():
        return None
    log = runs.log(name)
    state = _replayed(log).state
    log.close()
    waits = state.mode == "driven" and state.status == "released"
    return name if waits and os.environ.get("CKPT_EPOCH") == str(state.epoch) else None


def _workspace(wanted: Wanted) -> tuple[Workspace, bool]:
    """The workspace of a directory, and whether another directory stands there, or none. Its store is made if there is
    none.
    """
    start = os.path.realpath(os.fsencode(wanted.directory))
    place = home.locate(start)
    if place is None:
        return home.make(start, force_root=wanted.force_root), False
    return home.open_place(place), place.state in ("gone", "remade")


def _replayed(log: JsonlLog) -> Folded:
    with telemetry.span("ckpt.replay", {telemetry.RUN: log.run}) as mark:
        counters = Counters()
        try:
            known = replay(log, of(log), counters)
        except NoStore:
            return Folded()
        telemetry.replayed(counters, known.position.seq, mark)
        return known


def _heritage(wanted: Wanted, runs: JsonlRuns, log: JsonlLog | None, *, fresh: bool) -> Inheritance | None:
    """What a run that begins continues; of one that began, only whether it is so."""
    from checkpointer.run import inheriting

    if fresh:
        return inheriting.of(runs, wanted.inherits, take_over=wanted.take_over)
    if log is not None:
        inheriting.check(runs, log, wanted.inherits)
    return None


def _begin(wanted: Wanted, files: Files, heritage: Inheritance | None, *, fresh: bool) -> RunStarted:
    """What a claim says of us. For a run that begins: its number, and a first checkpoint."""
    facts: dict[str, Any] = {}
    if fresh:
        number = files.begin_run()
        files.handle = f"r{number}"
        files.run = wanted.run_id or files.handle
        files.base()
        facts = {"number": number, **(heritage.facts() if heritage is not None else {}), **files.verified()}
    return RunStarted(
        run=files.run,
        mode="driven",
        owner=machine.holder(),
        durability=wanted.durability,
        tools=tuple(Declared(name=one.name, digest=one.digest()) for one in wanted.tools),
        prompt=sha256(wanted.prompt.encode()).hexdigest()[:32] if wanted.prompt is not None else None,
        agent=wanted.agent,
        ttl_ms=int(wanted.ttl.total_seconds() * 1000),
        on_uncertain=wanted.on_uncertain,
        command=[_text(word) for word in sys.orig_argv],
        directory=_text(os.getcwd()),
        environment=sorted(_text(name) for name in os.environ),
        **facts,
    )


def _desk(wanted: Wanted, pen: Pen, files: Files, log: JsonlLog) -> Desk:
    state = pen.state
    names = Identity(secret(log.directory, state), state.tenant, state.operation)
    tools = {one.name: one for one in wanted.tools}
    desk = Desk(pen, Contents(log), files, names, tools, settle=lambda key: None, policy=wanted.policy)
    desk.choice = wanted.files
    desk.tells = wanted.on_uncertain == "tell"
    desk.settle = lambda key: settling.settle(desk, key)
    desk.keeper = Keeper(log, wanted.snapshot_every)
    desk.take_up()
    return desk


def _bare(pen: Pen, files: Files) -> Desk:
    """Enough of a desk to let a run go that could not be opened."""
    return Desk(pen, Contents(pen.log), files, Identity(b"", "", ""), {}, settle=lambda key: None)


def _take_up(wanted: Wanted, held: _Held) -> None:
    """Before the model is asked: letters, files, uncertain calls."""
    desk, run = held.desk, held.run
    desk.hear()
    run.notices += drift.settle(desk.files.workspace)
    resumed = bool(desk.state.resumptions)
    if resumed:
        events, notes = drift.look(desk.files, desk.state, wanted.files)
        if events:
            desk.append(*events)
        run.notices += notes
    desk.take_up()
    run.notices += [words for one in settling.settle(desk) if (words := settling.put_back(one))]
    desk.take_up()
    if resumed and (desk.state.readings or desk.state.watched.entries()):
        from checkpointer.run import freshness

        run.stale = freshness.look(desk.pen.log, desk.state, desk.files.workspace, run.handle, desk.tools)
        run.notices += [one.words for one in run.stale]


def _text(word: str) -> str:
    return os.fsencode(word).decode("utf-8", "backslashreplace")
