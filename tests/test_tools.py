"""A declaration that recovery cannot work with is refused, and the stricter of two counts."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from checkpointer.errors import Usage
from checkpointer.events import Terms
from checkpointer.tools import Absent, Match, Tool, broader, riskier, stricter, tool

DAY = timedelta(days=1)


def keyed(order: int, cents: int = 0, *, key: str = "") -> str:
    return f"{order} {cents} {key}"


def plain(path: str) -> str:
    return path


def find(arguments: Any, key: str) -> Match | Absent:
    return Absent()


def test_a_tool_is_called_like_its_function() -> None:
    made = tool(effect="external", keys_kept=DAY)(keyed)
    assert isinstance(made, Tool)
    assert made(3, key="k") == "3 0 k"
    assert (made.name, made.takes_key, made.is_async) == ("keyed", True, False)
    named = tool(effect="read", name="look")(plain)
    assert (named.name, named("x"), named.takes_key) == ("look", "x", False)

    async def later(path: str) -> str:
        return path

    slow = tool(effect="read")(later)
    assert slow.is_async
    assert asyncio.run(slow("x")) == "x"


@pytest.mark.parametrize(
    ("function", "declared", "why"),
    [
        (plain, {"effect": "external"}, "nothing can settle"),
        (plain, {"effect": "somewhere"}, "effect must be one of"),
        (plain, {"effect": "read", "risk": "none"}, "risk must be one of"),
        (plain, {"effect": "external", "keys_kept": DAY}, "takes no `key`"),
        (keyed, {"effect": "external", "keys_kept": timedelta()}, "longer than nothing"),
        (keyed, {"effect": "external", "keys_kept": DAY, "effect_fields": ("a",)}, "reconcile is held against"),
        (keyed, {"effect": "external", "keys_kept": DAY, "exclusive": True}, "about workspaces"),
        (plain, {"effect": "workspace", "reconcile": find}, "effects outside"),
        (plain, {"effect": "read", "keys_kept": DAY}, "effects outside"),
        (plain, {"effect": "external", "compensate": find}, "nothing can settle"),
    ],
)
def test_what_is_refused(function: Any, declared: dict[str, Any], why: str) -> None:
    with pytest.raises(Usage, match=why):
        tool(**declared)(function)


@pytest.mark.parametrize(
    "declared",
    [
        {"effect": "read"},
        {"effect": "workspace", "exclusive": True},
        {"effect": "external", "policy": "person"},
        {"effect": "external", "reconcile": find, "effect_fields": ("order",)},
        {"effect": "external", "keys_kept": DAY, "deadline": timedelta(seconds=30), "after_failure": "same_key"},
    ],
)
def test_what_is_accepted_has_terms(declared: dict[str, Any]) -> None:
    made = tool(**declared)(keyed)
    terms = made.terms()
    assert terms.declared == made.digest()
    assert terms.policy == made.policy
    assert ("keys" in terms.offers) == (made.keys_kept is not None)


def test_the_digest_is_of_what_is_declared() -> None:
    def body_one(order: int) -> int:
        return order

    def body_two(order: int) -> int:
        return order + 1

    one, two = (tool(effect="read", name="t")(f) for f in (body_one, body_two))
    assert one.digest() == two.digest()
    others = [
        tool(effect="workspace", name="t")(body_one),
        tool(effect="read", name="u")(body_one),
        tool(effect="read", name="t", fresh_for=DAY)(body_one),
        tool(effect="read", name="t")(plain),
    ]
    assert len({one.digest(), *(t.digest() for t in others)}) == 5


def test_the_stricter_counts() -> None:
    now = tool(effect="external", keys_kept=DAY, reconcile=find, deadline=timedelta(seconds=60))(keyed)
    assert stricter(None, now) == now.terms()
    longer = Terms(keys_kept_s=10 * 86_400, deadline_s=5, recovery_s=60, offers=("keys",), policy="person")
    found = stricter(longer, now)
    assert (found.keys_kept_s, found.deadline_s, found.recovery_s, found.policy) == (86_400, 60, 60, "person")
    assert "reconcile" in found.offers
    keyless = stricter(Terms(), now)
    assert keyless.keys_kept_s is None  # the receiver that was asked then did not know keys
    assert keyless.deadline_s is None
    assert "keys" not in keyless.offers
    assert (riskier("low", "high"), riskier("high", "normal")) == ("high", "high")
    assert (broader("read", "workspace"), broader("external", "read")) == ("workspace", "external")
