"""A call that is sent again while nobody knows what the first time came to: an answer ends the doubt, nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from crashing import Crash, living_in, perhaps_die, writer
from harness.world import World

from checkpointer import NeedsPerson, NoEffect, Unknown, decide, open_run, tool
from checkpointer.recovery import word
from checkpointer.run.branching import unknown_outcomes
from checkpointer.run.desk import Ask, Deny
from checkpointer.tools import Tool

KEPT = timedelta(hours=1)


def payer(one: list[Crash], then: Callable[[], None] = lambda: None, kept: timedelta = KEPT, **terms: Any) -> Tool:
    """Pays, and dies with its process the first time; `then` is what happens to later ones before they pay."""

    @tool(effect="external", keys_kept=kept, touches_files=False, **terms)
    def pay(order: int, *, key: str) -> str:
        if one[0].ledger():
            then()
        one[0].enter(order=order, key=key)
        perhaps_die()
        return "paid"

    return pay


@pytest.fixture
def held(world: World) -> list[Crash]:
    """A payment that happened, and whose answer was lost."""
    one: list[Crash] = []
    one.append(Crash(world, payer(one), order=7))
    one[0].die()
    return one


def refused() -> None:
    raise NoEffect("connection refused")


def refused_again() -> None:
    raise NoEffect("connection refused", again=True)


def declined() -> None:
    raise NoEffect("declined", every_attempt=True)


def in_question(one: Crash) -> None:
    """The call is where it was: nobody knows, and everybody who asks is told so."""
    state = one.state()
    (call,) = state.unsettled
    assert (call.tool, call.status, call.generation) == ("pay", "uncertain", 0)
    assert state.doubts[call.key].earlier
    assert [c.key for c in unknown_outcomes(state)] == [call.key]
    (item,) = one.world.ckpt("uncertain", "--json").json["uncertain"]
    assert item["handle"] == "u1"


@pytest.mark.parametrize("then", [refused, refused_again])
def test_that_a_later_attempt_came_to_nothing_says_nothing_of_the_first(
    held: list[Crash], then: Callable[[], None]
) -> None:
    one = held[0]
    with pytest.raises(NeedsPerson):
        one.again(payer(held, then))
    in_question(one)
    assert one.again(payer(held)) == "paid"
    first, second = one.ledger()
    assert first == second, "the same key, so its receiver pays once"


def test_what_the_receiver_says_of_the_key_ends_the_doubt(held: list[Crash]) -> None:
    one = held[0]
    assert "declined" in one.again(payer(held, declined))
    state = one.state()
    assert not state.doubts
    assert [c.status for c in state.over.values()] == ["failed"]


def test_a_policy_that_allows_no_further_attempt_ends_no_doubt(held: list[Crash]) -> None:
    one = held[0]
    for _ in range(2):
        with pytest.raises(NeedsPerson, match="nobody knows whether"):
            one.again(payer(held), policy=lambda call, tool: Deny("not today"))
        in_question(one)
    assert len(one.ledger()) == 1
    word.give(one.log(), one.state().unsettled[0].key, "retry anyway")
    assert one.again(payer(held)) == "paid"


def test_a_person_who_allows_no_further_attempt_ends_no_doubt(held: list[Crash]) -> None:
    one = held[0]
    with pytest.raises(NeedsPerson, match="waits for approval"):
        one.again(payer(held), policy=lambda call, tool: Ask("again?"))
    with living_in(one.world):
        decide(".", "one", one.state().unsettled[0].key, "denied", reason="enough")
    with pytest.raises(NeedsPerson, match="nobody knows whether"):
        one.again(payer(held), policy=lambda call, tool: Ask("again?"))
    in_question(one)
    assert len(one.ledger()) == 1
    word.give(one.log(), one.state().unsettled[0].key, "happened", result="paid after all")
    assert one.again(payer(held)) == "paid after all"


def opened(one: Crash, tool: Tool, **options: Any) -> None:
    with living_in(one.world), open_run(".", run_id="one", tools=[tool], **options):
        pass


def test_a_key_that_grew_too_old_since_it_was_judged_is_not_sent(world: World) -> None:
    held: list[Crash] = []
    short = timedelta(seconds=2)
    held.append(Crash(world, payer(held, kept=short), order=7))
    one = held[0]
    one.die()
    opened(one, payer(held, kept=short))
    assert one.verdicts() == [("retry", "policy")]
    (item,) = world.ckpt("uncertain", "--json").json["uncertain"]
    assert item["retry"] == "policy"
    assert "the same key is sent again" in world.ckpt("uncertain").out
    time.sleep(short.total_seconds())
    with pytest.raises(NeedsPerson):
        one.again(payer(held, kept=short))
    assert one.verdicts()[-1][0] == "escalate"
    assert len(one.ledger()) == 1


def test_a_run_is_not_over_and_not_forked_before_it_was_sent_again(held: list[Crash]) -> None:
    one = held[0]
    opened(one, payer(held))
    assert one.verdicts() == [("retry", "policy")]
    with living_in(one.world), open_run(".", run_id="one", tools=[payer(held)]) as run, pytest.raises(NeedsPerson):
        run.finish("done")
    refusal = one.world.ckpt("fork", "one", str(one.world.base / "fork"), ok=3)
    assert "pay" in refusal.err
    assert one.again(payer(held)) == "paid"


def test_a_persons_word_comes_before_the_next_attempt(held: list[Crash]) -> None:
    one = held[0]
    opened(one, payer(held))
    word.give(one.log(), one.state().unsettled[0].key, "happened", result="it did")
    assert one.again(payer(held)) == "it did"
    assert len(one.ledger()) == 1


def test_a_model_that_was_told_of_the_doubt_is_told_of_its_end(world: World) -> None:
    held: list[Crash] = []
    lost: dict[str, Any] = {"policy": "person"}
    held.append(Crash(world, payer(held, **lost), order=7))
    one = held[0]
    one.die(on_uncertain="tell")
    assert "Do not repeat it" in one.again(payer(held, **lost), on_uncertain="tell")
    word.give(one.log(), one.state().unsettled[0].key, "happened", result={"receipt": 12})
    with living_in(world), open_run(".", run_id="one", tools=[payer(held, **lost)], on_uncertain="tell") as run:
        last = run.context()[-1]
    assert last["role"] == "user"
    assert last["content"].endswith('pay, which nobody knew: it happened: {"receipt":12}')


def test_what_was_cut_off_and_not_looked_into_is_listed(held: list[Crash]) -> None:
    world = held[0].world
    said = world.ckpt("uncertain")
    assert "pay(order=7)" in said.out
    assert "cut off, and not looked into yet" in said.out
    assert "ckpt resume one looks into that" in said.err or "ckpt resume r1 looks into that" in said.err
    (item,) = world.ckpt("uncertain", "--json").json["cut_off"]
    assert item["tool"] == "pay"


def test_a_result_that_cannot_be_shown_is_a_result(world: World) -> None:
    class Shy:
        def __repr__(self) -> str:
            raise ValueError("no")

    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]

    @tool(effect="external", policy="person", touches_files=False)
    def pay(order: int) -> Any:
        return Shy() if order == 1 else deep

    with living_in(world), open_run(".", run_id="one", tools=[pay]) as run:
        for order in (1, 2):
            answer = run.call(pay, {"order": order}, slot=f"pay {order}")
            assert answer.status == "completed"
            assert "cannot be shown" in answer.result


def test_files_that_are_put_back_are_named_with_what_stood_there(world: World) -> None:
    write = writer()
    world.write("a", "one\n")
    one = Crash(world, write, text="two\n")
    one.die()
    world.write("a", "one\ntwo\nmine\n")
    with living_in(world), open_run(".", run_id="one", tools=[write]) as run:
        (said,) = [text for text in run.notices if "write was cut off" in text]
    assert "a as at its start" in said
    number = said.rpartition(" ")[2]
    assert world.ckpt("cat", number, "a").out == "one\ntwo\nmine\n"


def test_a_compensation_that_was_cut_off_is_not_called_failed(world: World) -> None:
    one: list[Crash] = []

    def take_back(arguments: dict[str, Any], key: str | None) -> None:
        one[0].enter(back=arguments["order"])
        perhaps_die()

    @tool(effect="external", reconcile=lambda a, key: Unknown("?"), compensate=take_back, touches_files=False)
    def pay(order: int) -> str:
        one[0].enter(order=order)
        perhaps_die()
        return "paid"

    one.append(Crash(world, pay, order=7))
    one[0].die()
    assert one[0].dies_again() == 9
    with pytest.raises(NeedsPerson, match="nobody knows whether it was taken back"):
        one[0].again()
    assert len(one[0].ledger()) == 2
