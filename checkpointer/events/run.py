"""Events of the run itself: who owned it from when, what it was started with, how it ended."""

from __future__ import annotations

from typing import ClassVar, Literal

from checkpointer.events.envelope import ABSENT, Event, Fact, Note
from checkpointer.events.tools import CarriedCall

Mode = Literal["driven", "observed"]


class Holder(Fact):
    """A process that owns or owned a run.

    `host` names the machine, `boot` its current boot, `namespace` the space in which `pid` counts; `started` is when
    that process started, in the system's own units: only equality means anything. Empty where the system does not say.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: str


class Durability(Fact):
    """`sync`: every write is synced before anything acts on it. `batched`: at most `events` or `ms` later."""

    kind: Literal["sync", "batched"] = "sync"
    events: int = 1
    ms: int = 0


class LogRef(Fact):
    """A place in another run's log: `sum` is that log's digest at `seq`."""

    run: str
    seq: int
    sum: str


class Declared(Fact):
    """A tool that the owner brought along, and a digest of its declaration."""

    name: str
    digest: str


class _Owned(Event):
    """What every claim writes down: the owner, and digests of what it worked with (`writer` version, `fold`, `tools`,
    `prompt`), so that a resume can name what has changed since.
    """

    group: ClassVar[Literal["run"]] = "run"
    owner: Holder
    writer: str = ""
    fold: str = ""
    durability: Durability = Durability()
    tools: tuple[Declared, ...] = ()
    prompt: str | None = None
    agent: str | None = None
    session: str | None = None
    ttl_ms: int = 30_000
    command: Note = ABSENT
    directory: Note = ABSENT
    environment: Note = ABSENT


class RunStarted(_Owned):
    """A run begins. Contents: `command` (argv or null), `directory` (where it was started), `environment` (the names of
    the variables that were set, never values), `carried_results` (of inherited calls, by key: `arguments`, `result`,
    `failed`, as far as they are known).

    `number` is its handle (`7` for `r7`). `operation` is what keys are bound to: the run itself unless it continues
    others (`inherits`). A fork names its parent and, in `carried`, the external calls the parent made after it.
    """

    type: Literal["run_started"] = "run_started"
    run: str
    number: int | None = None
    tenant: str = "local"
    operation: str | None = None
    mode: Mode = "observed"
    inherits: tuple[LogRef, ...] = ()
    fork_of: LogRef | None = None
    carried: tuple[CarriedCall, ...] = ()
    on_uncertain: Literal["pause", "tell"] = "pause"
    carried_results: Note = ABSENT


class RunResumed(_Owned):
    """Somebody owns the run from here on. `previous` is the owner before, `last_at` the time of its last event."""

    type: Literal["run_resumed"] = "run_resumed"
    after: Literal["released", "crash", "takeover"]
    previous: Holder | None = None
    previous_epoch: int
    last_at: str | None = None


class RunReleased(Event):
    """The owner lets go; anything may follow. `status` is a command's exit status, 128+n for signal n. `dismissed`: a
    person does not mean to go on with it.
    """

    group: ClassVar[Literal["run"]] = "run"
    type: Literal["run_released"] = "run_released"
    how: Literal["ended", "paused", "interrupted"]
    status: int | None = None
    dismissed: bool | None = None


class RunFinished(Event):
    """The run is over; nothing may follow. `detail` is for people."""

    group: ClassVar[Literal["run"]] = "run"
    type: Literal["run_finished"] = "run_finished"
    outcome: str
    status: int | None = None
    detail: Note = ABSENT


class LogRedacted(Event):
    """The contents of these events were taken out of the log. `why` is for people."""

    group: ClassVar[Literal["run"]] = "run"
    type: Literal["log_redacted"] = "log_redacted"
    seqs: tuple[int, ...]
    by: str = "person"
    why: Note = ABSENT
