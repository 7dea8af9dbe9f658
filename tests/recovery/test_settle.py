"""Calls cut off by a real death, settled at the next opening: once is once, or a person is asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from crashing import SHORT, Crash, perhaps_die
from harness.world import World

from checkpointer import Absent, Match, NeedsPerson, NoEffect, Unknown, environment, machine, tool
from checkpointer.errors import Usage
from checkpointer.events import ToolCallCompleted
from checkpointer.log import letter
from checkpointer.recovery import queue, word
from checkpointer.tools import Conflict, Tool

Ledger = Callable[..., None]


def paying(crash: list[Crash], **declared: Any) -> Tool:
    """`pay`, which enters the ledger and then may die."""

    @tool(effect="external", name="pay", **declared)
    def pay(order: int, *, key: str) -> dict[str, int]:
        crash[0].enter(order=order, key=key)
        perhaps_die()
        return {"paid": order}

    return pay


def crashed(world: World, **declared: Any) -> Crash:
    held: list[Crash] = []
    held.append(Crash(world, paying(held, **declared), order=7))
    held[0].die()
    assert len(held[0].ledger()) == 1
    return held[0]


def test_a_key_that_is_known_is_sent_again(world: World) -> None:
    one = crashed(world, keys_kept=timedelta(hours=1))
    assert one.again() == {"paid": 7}
    first, second = one.ledger()
    assert first["key"] == second["key"]
    assert one.verdicts() == [("retry", "policy")]
    assert one.again() == {"paid": 7}
    assert len(one.ledger()) == 2


def test_a_key_past_its_time_is_not(world: World) -> None:
    one = crashed(world, keys_kept=SHORT)
    time.sleep(1.0)
    for _ in range(2):
        with pytest.raises(NeedsPerson, match="older than its receiver"):
            one.again()
    assert len(one.ledger()) == 1
    assert one.verdicts() == [("escalate", "policy")]  # said once: nothing new was learnt


def test_a_key_past_its_time_is_looked_up(world: World) -> None:
    one = crashed(world, keys_kept=SHORT, reconcile=lambda a, key: Match(a, {"found": key}), effect_fields=["order"])
    time.sleep(1.0)
    assert one.again() == {"found": one.ledger()[0]["key"]}
    assert len(one.ledger()) == 1
    assert one.verdicts() == [("complete", "receiver")]
    assert one.events("tool_call_completed")[0].source == "reconciliation"


async def _later(arguments: Any, key: str) -> Absent:
    return Absent()


def _broken(arguments: Any, key: str) -> Any:
    raise OSError("connection lost")


@pytest.mark.parametrize(
    ("reconcile", "verdict"),
    [
        (lambda a, key: Conflict({"order": 8}), "escalate"),
        (lambda a, key: Match({"order": 8}), "escalate"),
        (lambda a, key: Absent(), "wait"),
        (lambda a, key: Absent(final=True), "wait"),
        (lambda a, key: Unknown("503"), "wait"),
        (lambda a, key: None, "wait"),
        (_broken, "wait"),
        (_later, "wait"),
    ],
)
def test_what_proves_nothing_repeats_nothing(world: World, reconcile: Any, verdict: str) -> None:
    one = crashed(world, reconcile=reconcile, effect_fields=["order"])
    with pytest.raises(NeedsPerson):
        one.again()
    assert len(one.ledger()) == 1
    assert one.verdicts() == [(verdict, "receiver")]
    assert one.state().uncertain


def test_a_wait_ends_when_the_receiver_knows(world: World) -> None:
    answers: list[Any] = [Absent(), Match({"order": 7}, "there")]
    one = crashed(world, reconcile=lambda a, key: answers.pop(0))
    with pytest.raises(NeedsPerson):
        one.again()
    assert one.again() == "there"
    assert one.verdicts() == [("wait", "receiver"), ("complete", "receiver")]


def test_absent_for_good_is_tried_again_under_the_same_key(world: World) -> None:
    one = crashed(world, reconcile=lambda a, key: Absent(final=True, why="refused"))
    assert one.again() == {"paid": 7}
    assert len({entry["key"] for entry in one.ledger()}) == 1


def test_today_s_declaration_may_be_stricter(world: World) -> None:
    one = crashed(world, keys_kept=timedelta(hours=1))
    with pytest.raises(NeedsPerson):
        one.again(paying([one], keys_kept=timedelta(hours=1), policy="person"))
    with pytest.raises(NeedsPerson):
        one.again(paying([one], policy="person"))
    assert len(one.ledger()) == 1


def test_nor_is_a_key_known_for_longer_because_a_later_version_says_so(world: World) -> None:
    one = crashed(world, keys_kept=SHORT)
    time.sleep(1.0)
    with pytest.raises(NeedsPerson):
        one.again(paying([one], keys_kept=timedelta(hours=1)))
    assert len(one.ledger()) == 1


def test_a_late_answer_is_taken(world: World) -> None:
    one = crashed(world, policy="person")
    call = one.state().open[0]
    said = ToolCallCompleted(
        key=call.key, attempt=1, result={"paid": 7}, id="letter", context="main", unprotected="late", epoch=1
    )
    one.log().post("late", "letter", letter(said, machine.World()))
    assert one.again() == {"paid": 7}
    assert one.verdicts() == [("complete", "late")]
    assert len(one.ledger()) == 1


def test_a_late_answer_of_another_attempt_is_not(world: World) -> None:
    one = crashed(world, policy="person")
    call = one.state().open[0]
    said = ToolCallCompleted(key=call.key, attempt=2, result=1, id="letter", context="main", unprotected="late")
    one.log().post("late", "letter", letter(said, machine.World()))
    with pytest.raises(NeedsPerson):
        one.again()


def test_a_compensation_is_a_call_of_its_own(world: World) -> None:
    taken: list[Any] = []
    one = crashed(world, reconcile=_broken, compensate=lambda a, result: taken.append(a))
    assert "taken back" in one.again()
    assert taken == [{"order": 7}]
    starts = one.events("tool_call_started")
    assert [s.compensates for s in starts] == [None, starts[0].key]
    ends = one.events("tool_call_completed")
    assert [(e.key, e.effect, e.failed) for e in ends] == [
        (starts[1].key, "done", False),
        (starts[0].key, "partial", True),
    ]


@pytest.mark.parametrize("error", [NoEffect("closed"), OSError("lost")])
def test_a_compensation_may_fail_or_be_unknown_itself(world: World, error: Exception) -> None:
    def back(arguments: Any, result: Any) -> None:
        raise error

    one = crashed(world, reconcile=_broken, compensate=back)
    with pytest.raises(NeedsPerson):
        one.again()
    assert len(one.state().uncertain) == (1 if isinstance(error, NoEffect) else 2)
    with pytest.raises(NeedsPerson):
        one.again()
    assert len(one.events("tool_call_started")) == 2


# -- files


def writing(**declared: Any) -> Tool:
    @tool(effect="workspace", **declared)
    def write(text: str) -> str:
        with open("a", "a") as f:
            f.write(text)
        perhaps_die()
        return "written"

    return write


def test_what_only_the_call_can_have_changed_is_put_back(world: World) -> None:
    world.write("a", "one\n")
    one = Crash(world, writing(), text="two\n")
    one.die()
    assert world.read("a") == b"one\ntwo\n"
    assert one.again() == "written"
    assert world.read("a") == b"one\ntwo\n"
    assert one.verdicts() == [("retry", "tree")]


@pytest.mark.parametrize(("choice", "text"), [("keep", b"one\ntwo\nmine\n"), ("restore", b"one\ntwo\n")])
def test_what_somebody_may_have_changed_is_for_them(world: World, choice: str, text: bytes) -> None:
    world.write("a", "one\n")
    one = Crash(world, writing(), text="two\n")
    one.die(ttl=timedelta(milliseconds=100))
    time.sleep(1.3)
    world.write("a", "one\ntwo\nmine\n")
    with pytest.raises(NeedsPerson, match="after its owner was last heard of") as caught:
        one.again()
    assert caught.value.details["paths"] == ["a"]
    assert world.read("a") == b"one\ntwo\nmine\n"
    one.again(files=choice)
    assert world.read("a") == text
    assert one.verdicts()[-1] == ({"keep": "complete", "restore": "retry"}[choice], "person")
    held = [c for c in world.ckpt("log", "--checkpoints", "--json").lines if c["kind"] == "crash"]
    assert held
    assert world.ckpt("cat", str(held[0]["checkpoint"]), "a").stdout == b"one\ntwo\nmine\n"


def test_where_nobody_else_edits_it_is_always_put_back(world: World) -> None:
    world.write("a", "one\n")
    one = Crash(world, writing(exclusive=True), text="two\n")
    one.die(ttl=timedelta(milliseconds=100))
    time.sleep(1.3)
    world.write("a", "one\ntwo\nmine\n")
    assert one.again() == "written"
    assert world.read("a") == b"one\ntwo\n"


def test_files_as_at_the_start_mean_that_nothing_happened(world: World) -> None:
    world.write("a", "one\n")

    def put_back() -> None:
        world.write("a", "one\n")

    one = Crash(world, writing(), text="two\n")
    one.die(put_back)
    assert one.again() == "written"
    assert one.verdicts() == [("retry", "tree")]
    assert world.read("a") == b"one\ntwo\n"


def test_a_process_that_still_writes_is_waited_for(world: World) -> None:
    @tool(effect="workspace")
    def write(text: str) -> str:
        if os.environ.get("DIES"):
            script = "import time, pathlib; time.sleep(60)"
            child = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, **environment()})
            (world.base / "pid").write_text(str(child.pid))
            perhaps_die()
        return "written"

    one = Crash(world, write, text="two\n")
    one.die()
    orphan = int((world.base / "pid").read_text())
    try:
        with pytest.raises(NeedsPerson, match="its process still runs"):
            one.again(files="restore")
    finally:
        os.kill(orphan, signal.SIGKILL)
    while machine.started(orphan):
        time.sleep(0.01)
    assert one.again() == "written"


# -- a person's word, and the queue


@pytest.mark.parametrize(
    ("said", "told", "entries"),
    [
        ("happened", {"paid": 7}, 1),
        ("did not happen", word.NOT_HAPPENED, 1),
        ("retry anyway", {"paid": 7}, 2),
        ("give up", "given up", 1),
    ],
)
def test_a_person_s_word(world: World, said: word.Word, told: Any, entries: int) -> None:
    one = crashed(world, policy="person")
    with pytest.raises(NeedsPerson):
        one.again()
    key = one.state().uncertain[0].key
    assert word.give(one.log(), key, said, result={"paid": 7}, why="I asked") == "appended"
    answer = one.again()
    assert told == answer or told in answer
    assert len(one.ledger()) == entries
    assert len({e["key"] for e in one.ledger()}) == 1
    said_events = [e for e in one.events("tool_call_reconciled") if e.by == "person"]
    assert said_events[0].evidence["why"] == "I asked"
    with pytest.raises(Usage):
        word.give(one.log(), key, said)


def test_a_word_changes_nothing_but_what_it_says(world: World) -> None:
    one = crashed(world, policy="person")
    with pytest.raises(NeedsPerson):
        one.again()
    before = word.newest_claim(one.log(), one.state())
    word.give(one.log(), one.state().uncertain[0].key, "happened")
    after = word.newest_claim(one.log(), one.state())
    assert before is not None
    assert after is not None
    for name in ("tools", "command", "directory", "environment", "prompt", "ttl_ms"):
        assert getattr(before, name) == getattr(after, name)


def test_the_queue(world: World) -> None:
    one = crashed(world, policy="person", risk="high", recovery_deadline=timedelta(milliseconds=1))
    with pytest.raises(NeedsPerson):
        one.again()
    time.sleep(0.01)
    found = queue.read(str(one.runs))
    assert (found.opened, found.reconciled, found.escalated) == (1, 0, 1)
    assert list(found.oldest()) == ["high"]
    item = found.items[0]
    assert (item.name, item.words, item.reason, item.step) == ("u1", "pay(order=7)", "crash", "t1.1")
    # in whole seconds a millisecond is none: it is overdue at once
    assert found.overdue == ["u1 pay(order=7)"]
    word.give(one.log(), item.key, "give up")
    found = queue.read(str(one.runs))
    assert (found.opened, found.reconciled, found.items) == (1, 1, [])
