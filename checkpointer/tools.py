"""What a tool declares: its effect, who it is known to by key, how an unknown outcome can be settled.

    @tool(effect="external", keys_kept=timedelta(hours=24), reconcile=find_payment, effect_fields=("order", "cents"))
    def pay(order: int, cents: int, *, key: str) -> dict: ...

The effect decides what a crash between start and end means. `read`: nothing happened, it may be repeated. `workspace`:
every effect is on covered paths of this workspace, so the files tell. `external`: anything else, and then the tool
must say how a person need not be asked (`keys_kept`, `reconcile`), or that one must (`policy="person"`).
Declarations only: nothing here calls a tool.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, Literal

from checkpointer import canon
from checkpointer.errors import Usage
from checkpointer.events import Effect, Risk, Terms

_EFFECTS: Final = ("read", "workspace", "external")
_RISKS: Final = ("low", "normal", "high")


class NoEffect(Exception):
    """Raised by a tool that is certain: this attempt had no effect. Only this makes a failure a proven one.

    The model is told, and may ask again. With `again` it is not told: the call is tried again at once, a few times.

    Where an earlier attempt under the same key is in question, this one's failure says nothing of that: the call stays
    uncertain, and keeps its key. `every_attempt`: the receiver itself said so of the key, as with an error that it
    stores and repeats; then no attempt under this key had an effect.
    """

    def __init__(self, message: str = "", *, again: bool = False, every_attempt: bool = False) -> None:
        super().__init__(message)
        self.again = again
        self.every_attempt = every_attempt


class Partial(Exception):
    """Raised by a tool that knows it went halfway. The call goes to recovery. `detail` is kept as evidence."""

    def __init__(self, message: str = "", detail: Any = None) -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Match:
    """A reconciler found the effect. `fields` must equal the call's in every `effect_field`; `result` completes it."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """A reconciler found another effect under this key: a person must look, at both."""

    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Absent:
    """A reconciler found nothing. `final` promises that no earlier attempt can still take effect; `why` says how that
    is known: the receiver refuses or has expired each of them. Not finding one is no such promise.
    """

    final: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A reconciler could not find out."""

    error: str = ""


Finding = Match | Conflict | Absent | Unknown


@dataclass(frozen=True, slots=True)
class Tool:
    """A declared tool: called like the function it stands for, and looked at by whoever runs it.

    `reconcile(arguments, key)` gives a `Finding`; `compensate(arguments, result)` takes an effect back; `recheck` says
    whether an old observation still holds. They may be coroutine functions, as `function` may. `touches_files` is false
    for an effect outside that leaves this workspace alone: then no checkpoints are made around it, and such calls run
    side by side.
    """

    function: Callable[..., Any]
    name: str
    effect: Effect
    risk: Risk = "normal"
    keys_kept: timedelta | None = None
    reconcile: Callable[..., Any] | None = None
    compensate: Callable[..., Any] | None = None
    recheck: Callable[..., Any] | None = None
    effect_fields: tuple[str, ...] = ()
    deadline: timedelta | None = None
    recovery_deadline: timedelta | None = None
    fresh_for: timedelta | None = None
    exclusive: bool = False
    touches_files: bool = True
    repeats: Literal["join", "new"] = "join"
    after_failure: Literal["new_key", "same_key"] = "new_key"
    policy: Literal["declared", "person"] = "declared"

    def __call__(self, *args: Any, **kw: Any) -> Any:
        return self.function(*args, **kw)

    @property
    def takes_key(self) -> bool:
        """Does the function want the action's key, as a keyword `key`?"""
        return "key" in inspect.signature(self.function).parameters

    @property
    def writes(self) -> bool:
        """May it change files of the workspace?"""
        return self.effect == "workspace" or (self.effect == "external" and self.touches_files)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def terms(self) -> Terms:
        """The declaration as an event keeps it."""
        offers = {"keys": self.keys_kept, "reconcile": self.reconcile, "compensate": self.compensate}
        offers["recheck"] = self.recheck
        return Terms(
            keys_kept_s=_seconds(self.keys_kept),
            deadline_s=_seconds(self.deadline),
            recovery_s=_seconds(self.recovery_deadline),
            fresh_for_s=_seconds(self.fresh_for),
            exclusive=self.exclusive,
            after_failure=self.after_failure,
            policy=self.policy,
            offers=tuple(name for name, offer in offers.items() if offer is not None),  # type: ignore[misc]
            declared=self.digest(),
        )

    def digest(self) -> str:
        """A digest of what is declared, the signature included; not of the code."""
        said = {
            "canon": 1,
            "name": self.name,
            "effect": self.effect,
            "risk": self.risk,
            "keys_kept_s": _seconds(self.keys_kept),
            "deadline_s": _seconds(self.deadline),
            "recovery_s": _seconds(self.recovery_deadline),
            "fresh_for_s": _seconds(self.fresh_for),
            "effect_fields": self.effect_fields,
            "offers": [f is not None for f in (self.reconcile, self.compensate, self.recheck)],
            "flags": [self.exclusive, self.touches_files, self.repeats, self.after_failure, self.policy],
            "signature": str(inspect.signature(self.function)),
        }
        return sha256(canon.dumps(canon.freeze(said))).hexdigest()[:32]


def _seconds(span: timedelta | None) -> int | None:
    return None if span is None else int(span.total_seconds())


def tool(
    *,
    effect: Effect,
    name: str | None = None,
    risk: Risk = "normal",
    keys_kept: timedelta | None = None,
    reconcile: Callable[..., Any] | None = None,
    compensate: Callable[..., Any] | None = None,
    recheck: Callable[..., Any] | None = None,
    effect_fields: Sequence[str] = (),
    deadline: timedelta | None = None,
    recovery_deadline: timedelta | None = None,
    fresh_for: timedelta | None = None,
    exclusive: bool = False,
    touches_files: bool = True,
    repeats: Literal["join", "new"] = "join",
    after_failure: Literal["new_key", "same_key"] = "new_key",
    policy: Literal["declared", "person"] = "declared",
) -> Callable[[Callable[..., Any]], Tool]:
    """Declare a tool; see `Tool` for the words. Raises `Usage` where the declaration contradicts itself, or leaves no
    way to settle a call whose outcome is unknown.
    """

    def declare(function: Callable[..., Any]) -> Tool:
        made = Tool(
            function=function,
            name=name or function.__name__,
            effect=effect,
            risk=risk,
            keys_kept=keys_kept,
            reconcile=reconcile,
            compensate=compensate,
            recheck=recheck,
            effect_fields=tuple(effect_fields),
            deadline=deadline,
            recovery_deadline=recovery_deadline,
            fresh_for=fresh_for,
            exclusive=exclusive,
            touches_files=touches_files,
            repeats=repeats,
            after_failure=after_failure,
            policy=policy,
        )
        check(made)
        return made

    return declare


def check(made: Tool) -> None:
    """Is the declaration one that recovery can work with? Raises `Usage` naming what is wrong."""
    problems = list(_problems(made))
    if problems:
        raise Usage(f"tool {made.name}: {'; '.join(problems)}", next=("docs/tools.md",))


def _problems(made: Tool) -> Sequence[str]:
    found = []
    if made.effect not in _EFFECTS:
        return [f"effect must be one of {', '.join(_EFFECTS)}"]
    if made.risk not in _RISKS:
        found.append(f"risk must be one of {', '.join(_RISKS)}")
    if made.effect != "external":
        for name in ("keys_kept", "reconcile", "compensate", "deadline"):
            if getattr(made, name) is not None:
                found.append(f'{name} is for effects outside: declare effect="external"')
        if not made.touches_files:
            found.append("touches_files is about effects outside")
        return found
    if made.keys_kept is not None and not made.takes_key:
        found.append("keys_kept says that its receiver knows keys, but the function takes no `key`")
    if made.keys_kept is not None and made.keys_kept <= timedelta():
        found.append("keys_kept must be longer than nothing")
    if made.effect_fields and made.reconcile is None:
        found.append("effect_fields are what reconcile is held against, and there is none")
    if made.exclusive:
        found.append("exclusive is about workspaces")
    strategies = made.keys_kept is not None or made.reconcile is not None
    if not strategies and made.policy != "person":
        found.append(
            'nothing can settle a call whose outcome is unknown: give keys_kept or reconcile, or say policy="person"'
        )
    return found


def stricter(recorded: Terms | None, current: Tool) -> Terms:
    """What counts for a call that was started under `recorded` and is settled with today's declaration."""
    now = current.terms()
    if recorded is None:
        return now
    person = "person" in (recorded.policy, now.policy)
    return Terms(
        keys_kept_s=_least(recorded.keys_kept_s, now.keys_kept_s, both=True),
        deadline_s=_most(recorded.deadline_s, now.deadline_s),
        recovery_s=_least(recorded.recovery_s, now.recovery_s),
        fresh_for_s=_least(recorded.fresh_for_s, now.fresh_for_s),
        exclusive=recorded.exclusive and now.exclusive,
        after_failure=recorded.after_failure,
        policy="person" if person else "declared",
        offers=tuple(o for o in now.offers if o in recorded.offers or o == "reconcile"),
        declared=now.declared,
    )


def _least(a: int | None, b: int | None, *, both: bool = False) -> int | None:
    """The smaller; with `both`, nothing is promised unless both promise it."""
    given = [n for n in (a, b) if n is not None]
    if both and len(given) < 2:
        return None
    return min(given, default=None)


def _most(a: int | None, b: int | None) -> int | None:
    """The longer of two deadlines; None, that there is none, is longest."""
    return None if a is None or b is None else max(a, b)


def riskier(a: Risk, b: Risk) -> Risk:
    return a if _RISKS.index(a) >= _RISKS.index(b) else b


def broader(a: Effect, b: Effect) -> Effect:
    return a if _EFFECTS.index(a) >= _EFFECTS.index(b) else b
