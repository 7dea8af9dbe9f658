"""What a run asks of people, and what they say while it works: taken in between two calls, counted, shown."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from driving import call, living_in
from harness.world import World

from checkpointer import Ask, Deny, NeedsPerson, decide, open_run, tool
from checkpointer.cli.call import Call
from checkpointer.cli.completion import candidates
from checkpointer.log import JsonlLog, catch_up
from checkpointer.recovery import word
from checkpointer.run import questions
from checkpointer.run.questions import Question

done: list[int] = []


@tool(effect="external", policy="person", risk="high")
def pay(order: int) -> int:
    if order > 100:
        raise OSError("connection lost")
    done.append(order)
    return order


def policy(asked: Any, what: Any) -> Deny | Ask | None:
    if asked.arguments["order"] > 100:
        return None
    return Deny("too much") if asked.arguments["order"] > 10 else Ask("may I?")


@pytest.fixture
def place(world: World) -> Iterator[World]:
    done.clear()
    with living_in(world):
        yield world


def log_of(place: World) -> JsonlLog:
    return JsonlLog(str(place.store / "runs" / "x"))


def figures(place: World) -> questions.Figures:
    return questions.read(os.fspath(place.store / "runs"))


def opened(**more: Any) -> Any:
    return open_run(".", run_id="x", tools=[pay], **more)


def test_they_are_listed_answered_and_counted(place: World) -> None:
    with opened(policy=policy) as run:
        much, first, second = run.model_turn("", [call("pay", order=n) for n in (11, 1, 2)]).tool_calls
        assert run.call(much).status == "denied"
        for one in (first, second):
            with pytest.raises(NeedsPerson, match=r"waits for approval"):
                run.call(one)
        with pytest.raises(NeedsPerson) as waits:
            run.call(pay, {"order": 7}, slot="by name")
        assert waits.value.next[0].startswith("ckpt approvals ")
        listed = figures(place).open
        assert [(q.words, q.text, q.risk) for q in listed[:2]] == [
            ("pay(order=1)", "may I?", "high"),
            ("pay(order=2)", "may I?", "high"),
        ]
        assert listed[2].words == "pay(order=7)"  # no model turn holds its arguments
        said = place.ckpt("approvals", first.key[:8], "--approve", "--json").json
        assert (said["how"], said["decision"]) == ("posted", "approved")
        assert "has not looked yet" in place.ckpt("approvals").out
        assert "approved already" in place.ckpt("approvals", first.key[:8], "--deny", ok=4).err
        assert run.call(first).result == 1
        decide(".", "x", second.key, "denied", reason="no")
        assert run.call(second).status == "denied"
    assert done == [1]
    found = figures(place)
    assert (found.asked, found.approved, found.denied, found.by_policy, found.expired) == (3, 1, 1, 1, 0)
    assert set(found.latency) == {"median", "longest"}
    (left,) = found.open
    assert place.ckpt("status", "--json").json["approvals"][0]["name"] == left.name
    typed = Call()
    assert [c for c, _ in candidates(typed, ["approvals", ""])] == [left.name]
    assert [c for c, _ in candidates(typed, ["events", ""])] == ["r1"]
    assert [c for c, _ in candidates(typed, ["events", "--type", "approval_d"])] == ["approval_decided"]
    assert place.ckpt("approvals", left.name, "--deny", "--json").json["how"] == "appended"
    assert catch_up(log_of(place)).state.status == "released"


def test_one_whose_time_has_passed_is_refused(place: World) -> None:
    with opened() as run:
        (asked,) = run.model_turn("", [call("pay", order=1)]).tool_calls
        with pytest.raises(NeedsPerson):
            run.ask(asked, expires=timedelta(milliseconds=1))
        until = time.monotonic() + 30
        while not figures(place).open[0].expired and time.monotonic() < until:
            time.sleep(0.01)
        assert "its time has passed" in place.ckpt("approvals").out
        assert "count for nothing" in place.ckpt("approvals", asked.key[:8], "--approve", ok=2).err
        with pytest.raises(NeedsPerson):
            run.ask(asked, expires=timedelta(hours=1))
        (again,) = figures(place).open
        assert not again.expired
    assert figures(place).expired == 1


def test_a_word_on_an_unknown_outcome_reaches_a_run_that_goes_on(place: World) -> None:
    with opened(on_uncertain="tell") as run:
        turn = run.model_turn("", [call("pay", order=101)])
        assert run.call(turn.tool_calls[0]).status == "uncertain"
        assert word.give(log_of(place), turn.tool_calls[0].key, "happened", result=101) == "posted"
        assert run.state.uncertain
        run.context()
        assert not run.state.uncertain
        assert run.state.call(turn.tool_calls[0].key).status == "completed"
        assert log_of(place).letters("inbox") == []


def test_what_is_asked_is_cut_on_a_line_and_whole_when_looked_at() -> None:
    one = Question("x", "r1", "k" * 32, 1, "pay", {"text": "y" * 999}, "low", "external", "", None, None, False)
    from checkpointer.cli.approvals import line

    assert line(Call(), one).count("y") < 300
    assert one.words.count("y") > 990
