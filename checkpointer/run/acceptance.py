"""A model's answer becomes a `model_turn`: each call it asks for gets its identity there, once and for good."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from checkpointer import canon
from checkpointer.errors import Usage
from checkpointer.events import AcceptedCall, AnyEvent, ApprovalDecided, ModelTurn
from checkpointer.events import Usage as Tokens
from checkpointer.run.desk import Desk, ToolCall, Turn
from checkpointer.run.identity import Identity
from checkpointer.state import Call, Place, RunState
from checkpointer.tools import Tool


class _Wish(NamedTuple):
    """A call as a model asked for it. `tool` is None where there is none of that name."""

    name: str
    arguments: Any
    id: str | None
    repeat: bool
    tool: Tool | None
    problem: str


def wishes(desk: Desk, asked: Sequence[Mapping[str, Any]]) -> list[_Wish]:
    """What a model asked for. Arguments that a log cannot hold are kept as they print, and their call is denied.
    Raises `Usage` for what is no call at all.
    """
    found = []
    for one in asked:
        unknown = set(one) - {"id", "name", "arguments", "repeat"}
        if unknown or not isinstance(one.get("name"), str):
            raise Usage(f'a tool call is {{"name", "arguments", "id", "repeat"}}, not {sorted(map(str, one))}')
        tool = desk.tools.get(one["name"])
        try:
            arguments = canon.freeze(one.get("arguments") or {})
            problem = misfit(tool, arguments) if tool is not None else ""
        except (canon.NotJson, RecursionError) as e:
            arguments = canon.freeze({"unreadable": _printed(one["arguments"])})
            problem = f"its arguments are no JSON: {e}"
        problem = f"there is no tool {one['name']}" if tool is None else problem
        call_id = one.get("id")
        found.append(
            _Wish(
                one["name"],
                arguments,
                str(call_id) if call_id is not None else None,
                bool(one.get("repeat", False)),
                tool,
                problem,
            )
        )
    return found


def _printed(value: Any) -> str:
    """Something like a value, however odd it is."""
    try:
        return repr(value)[:2000]
    except Exception:
        return f"({type(value).__name__})"


def misfit(tool: Tool, arguments: Any) -> str:
    """Why these arguments cannot be given to a tool; empty if they can."""
    if not isinstance(arguments, dict):
        return "arguments are an object"
    if tool.takes_key and "key" in arguments:
        return "`key` is not a caller's to give"
    try:
        inspect.signature(tool.function).bind(**arguments, **({"key": ""} if tool.takes_key else {}))
    except TypeError as e:
        return f"the arguments do not fit: {e}"
    return ""


class Acceptance:
    """Gives identities to the calls of one model turn, which will be event `seq`."""

    def __init__(self, identity: Identity, state: RunState, seq: int) -> None:
        self._identity = identity
        self._state = state
        self._seq = seq
        self._now: dict[str, AcceptedCall] = {}

    def accept(self, wish: _Wish, index: int) -> AcceptedCall:
        tool, slot = wish.tool, (self._seq, index)
        facts: dict[str, Any] = {"tool": wish.name, "call_id": wish.id}
        facts["args_digest"] = self._identity.arguments(wish.arguments)
        if tool is None or tool.effect != "external" or wish.problem:
            key = self._identity.slot(wish.name, wish.arguments, self._state.run, slot)
            effect = tool.effect if tool is not None else "read"
            return AcceptedCall(key=key, effect=effect, risk=tool.risk if tool else "normal", **facts)
        signature = self._identity.signature(wish.name, wish.arguments)
        facts.update(effect="external", risk=tool.risk, signature=signature)
        known = self._known(signature)
        if known is not None and not wish.repeat and tool.repeats == "join":
            return AcceptedCall(key=known.key, occurrence=known.occurrence, joined=True, **facts)
        nth = 1 if known is None else known.occurrence + 1
        key = self._identity.occurrence(wish.name, wish.arguments, nth)
        made = self._now[signature] = AcceptedCall(key=key, occurrence=nth, **facts)
        return made

    def _known(self, signature: str) -> AcceptedCall | Call | None:
        """The newest action of a signature, of this turn or before it."""
        return self._now.get(signature) or newest(self._state, signature)


def newest(state: RunState, signature: str) -> Call | None:
    """The newest action of a signature."""
    key = state.signatures.get(signature)
    return state.call(key) if key is not None else None


def accept(
    desk: Desk, asked: Sequence[Mapping[str, Any]], usage: Mapping[str, int] | Tokens | None, **facts: Any
) -> Turn:
    """Record a model's answer; its calls then have identities, and those that cannot run are denied. Raises what
    `append` raises, `IllegalEvent` while calls of an earlier turn wait.
    """
    wanted = wishes(desk, asked)
    tokens = usage if isinstance(usage, Tokens) else Tokens(**{k: v for k, v in (usage or {}).items() if v is not None})

    def choose(state: RunState) -> list[AnyEvent]:
        maker = Acceptance(desk.identity, state, state.seq + 1)
        calls = tuple(maker.accept(wish, nth) for nth, wish in enumerate(wanted))
        now = desk.files.now()
        turn = ModelTurn(calls=calls, usage=tokens, arguments=[w.arguments for w in wanted], **facts, **now)
        denials = [
            ApprovalDecided(
                key=call.key,
                args_digest=call.args_digest,
                decision="denied",
                decided_by="policy",
                reason=wish.problem,
                context=facts["context"],
                **now,
            )
            for call, wish in zip(calls, wanted, strict=True)
            if wish.problem
        ]
        return [turn, *denials]

    turn = desk.decide(choose)[0]
    assert isinstance(turn, ModelTurn)
    return Turn(turn.seq, canon.thaw(turn.content), tuple(of_turn(turn, nth) for nth in range(len(turn.calls))))


def of_turn(turn: ModelTurn, index: int) -> ToolCall:
    """The call in a slot of a model turn, whose contents were loaded."""
    call = turn.calls[index]
    said = turn.arguments[index] if isinstance(turn.arguments, tuple) else None
    return ToolCall(
        slot=(turn.seq, index),
        key=call.key,
        name=call.tool,
        arguments=canon.thaw(said),
        id=call.call_id,
        context=turn.context or "main",
        digest=call.args_digest,
        signature=call.signature,
        occurrence=call.occurrence,
    )


def in_slot(desk: Desk, slot: Place) -> ToolCall:
    """The call that a model turn put into a slot. Raises `Usage` where there is none."""
    try:
        turn = desk.contents.one(slot[0])
    except KeyError:
        turn = None
    if not isinstance(turn, ModelTurn) or not 0 <= slot[1] < len(turn.calls):
        raise Usage(f"no model turn has a call at {slot}", next=("run.state.accepted",))
    return of_turn(turn, slot[1])


def named(desk: Desk, slot: str, name: str, arguments: Any, repeat: bool) -> ToolCall:
    """The call in a slot that the caller names: the one that filled it, else a new one, or the action it joins.

    Raises `Usage` where the arguments do not fit, or the slot was filled by something else.
    """
    frozen, state, tool = canon.freeze(arguments), desk.state, desk.tool(name)
    digest = desk.identity.arguments(frozen)
    filled = state.named.get(slot)
    if filled is not None:
        known = state.call(filled.key) if filled.key is not None else None
        if known is None or known.tool != name:
            raise Usage(f"the slot {slot!r} was filled by event {filled.seq}, which is no call of {name}")
        said = desk.contents.arguments(state, slot)
        given = arguments if not isinstance(said, dict) else canon.thaw(said)
        return ToolCall(slot, known.key, name, given, None, known.context, known.args_digest)
    if problem := misfit(tool, frozen):
        raise Usage(f"{name}: {problem}")
    if tool.effect != "external":
        key = desk.identity.slot(name, frozen, state.run, slot)
        return ToolCall(slot, key, name, arguments, digest=digest)
    signature = desk.identity.signature(name, frozen)
    before = newest(state, signature)
    joins = before is not None and before.status not in ("failed", "denied") and not repeat and tool.repeats == "join"
    if before is not None and joins:
        return ToolCall(
            slot, before.key, name, arguments, None, before.context, digest, signature, before.occurrence
        )  # fmt: skip
    nth = 1 if before is None else before.occurrence + 1
    key = desk.identity.occurrence(name, frozen, nth)
    return ToolCall(slot, key, name, arguments, None, "main", digest, signature, nth)
