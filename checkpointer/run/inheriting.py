"""A run that continues others: the actions of one operation are told apart by one secret, whichever run made them.

What it brings over are the effects outside that were completed or are uncertain: a call that would do the same joins
them. Reads and files are each run's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from checkpointer import lease, machine
from checkpointer.errors import Busy, CheckpointerError, NoStore, Usage
from checkpointer.events import ABSENT, CarriedCall, LogRef, RunStarted, ToolCallCompleted, ToolCallStarted
from checkpointer.log import Folded, JsonlLog, JsonlRuns, Writable
from checkpointer.replay import replay
from checkpointer.run import identity, keeper
from checkpointer.state import Call, RunState

Status = Literal["completed", "uncertain", "world"]


@dataclass(frozen=True)
class Inheritance:
    """What a run begins with. `results` are by key: `{"arguments", "result", "failed"}`, as far as they are known."""

    refs: tuple[LogRef, ...] = ()
    operation: str | None = None
    secret: bytes = b""
    carried: tuple[CarriedCall, ...] = ()
    results: dict[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """What `run_started` says of it."""
        if not self.refs:
            return {}
        return {
            "inherits": self.refs,
            "operation": self.operation,
            "carried": self.carried,
            "carried_results": self.results,
        }


def of(runs: JsonlRuns, names: Sequence[str], *, take_over: bool = False) -> Inheritance:
    """What a new run gets of the runs `names`, each given by its own name or its handle (`r7`).

    Raises `Busy` while one of them has an owner that lives or, without `take_over`, may live, `NoStore` for one that is
    not there, `Usage` for one that was only watched or belongs to another operation, `Damaged`.
    """
    refs: list[LogRef] = []
    secrets: dict[bytes, str] = {}
    operations: dict[str, str] = {}
    carried: dict[str, CarriedCall] = {}
    results: dict[str, Any] = {}
    for name in names:
        log = found(runs, name)
        try:
            known = replay(log, keeper.of(log))
            refuse_living(log, known.state, f"run {name} cannot be continued yet", take_over=take_over)
            if known.state.mode != "driven":
                raise Usage(
                    f"run {name} was only watched: its calls are not ours to continue", kept="nothing was written"
                )
            refs.append(ref(log, known))
            secrets[identity.secret(log.directory, known.state)] = name
            operations[known.state.operation] = name
            for call in outside(known.state):
                carried[call.key] = carry(call, known.state)
                results[call.key] = contents(log, known.state, call)
        finally:
            log.close()
    if len(secrets) > 1 or len(operations) > 1:
        raise Usage(
            f"the runs {', '.join(names)} belong to different operations: no call of one can be told from another's",
            kept="nothing was written",
        )
    secret = next(iter(secrets), b"")
    return Inheritance(tuple(refs), next(iter(operations), None), secret, tuple(carried.values()), results)


def found(runs: JsonlRuns, name: str) -> JsonlLog:
    """The log of a run by its own name or its handle. Raises `NoStore`."""
    names = runs.runs()
    if name in names:
        return runs.log(name)
    for one in names:
        log = runs.log(one)
        try:
            first = next(iter(log.read()), None)
        except CheckpointerError:
            continue
        if first is not None and isinstance(first.event, RunStarted) and f"r{first.event.number}" == name:
            return log
    raise NoStore(f"there is no run {name}", kept="nothing was written", next=("ckpt runs",))


def refuse_living(log: Writable, state: RunState, what: str, *, take_over: bool = False) -> None:
    """Raises `Busy` while a run's owner lives; or, without `take_over`, may live."""
    if state.status != "owned" or state.owner is None:
        return
    world = machine.World()
    alive = lease.liveness(state.owner, world.here(), world.started(state.owner.pid))
    late = lease.expired(log.lease(), state.epoch, world.now())
    if alive != "dead" and not (alive == "unknown" and late and take_over):
        raise Busy(f"{what}: process {state.owner.pid} owns it", kept="nothing was written", liveness=alive)


def ref(log: Writable, known: Folded) -> LogRef:
    return LogRef(run=log.run, seq=known.position.seq, sum=known.position.sum)


def outside(state: RunState) -> list[Call]:
    """The calls with effects outside that were completed, or of which nobody knows the outcome, oldest first."""
    over = [c for c in state.over.values() if c.status in ("completed", "abandoned")]
    return sorted((c for c in (*over, *state.unsettled) if c.effect == "external"), key=lambda c: c.started)


def carry(call: Call, state: RunState, status: Status | None = None) -> CarriedCall:
    """A call as the run that continues this one begins with it. One that a person gave up is uncertain again."""
    run, seq = call.origin if call.origin is not None and not call.started else (state.run, call.started)
    said: Status = "completed" if call.status == "completed" else "uncertain"
    return CarriedCall(
        key=call.key,
        tool=call.tool,
        effect=call.effect,
        signature=call.signature,
        occurrence=call.occurrence,
        status=status or said,
        risk=call.risk if call.risk != "normal" else None,
        run=run,
        seq=seq,
    )


def contents(log: Writable, state: RunState, call: Call) -> dict[str, Any]:
    """What a log says of a call: its arguments, and how it ended. What was redacted or is gone is left out."""
    if call.origin is not None and not call.started:
        return dict(inherited(log).get(call.key) or {})
    out: dict[str, Any] = {}
    for seq in (call.started, call.ended):
        try:
            event = log.at([seq])[0].load(log.fetch) if seq else None
        except CheckpointerError:
            continue
        if isinstance(event, ToolCallStarted) and event.arguments is not ABSENT:
            out["arguments"] = event.arguments
        elif isinstance(event, ToolCallCompleted) and event.result is not ABSENT:
            out.update(result=event.result, failed=event.failed)
    return out


def inherited(log: Writable) -> dict[str, Any]:
    """What a run's first event says of the calls that it began with, by key; empty where that is gone."""
    try:
        first = log.at([1])[0].load(log.fetch)
    except (CheckpointerError, KeyError):
        return {}
    held = first.carried_results if isinstance(first, RunStarted) else None
    return dict(held) if isinstance(held, dict) else {}


def check(runs: JsonlRuns, log: Writable, names: Sequence[str]) -> None:
    """Is the run in this log one that continues these? Raises `Usage` if it began otherwise."""
    first = log.at([1])[0].event
    began = {one.run for one in first.inherits} if isinstance(first, RunStarted) else set()
    if {_own_name(runs, name, began) for name in names} != began:
        said = ", ".join(sorted(began)) or "no other"
        raise Usage(f"run {log.run} began as one that continues {said}: that stays so", kept="nothing was written")


def _own_name(runs: JsonlRuns, name: str, known: set[str]) -> str:
    if name in known:
        return name
    try:
        return found(runs, name).run
    except NoStore:
        return name
