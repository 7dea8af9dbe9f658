"""A settling that is killed at every durable verb; an owner that was stopped, taken for dead, and goes on."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta

import pytest
from crashing import Crash, living_in, perhaps_die, writer
from harness.world import World

from checkpointer import Match, NeedsPerson, disk, open_run, tool
from checkpointer.errors import Busy


def killed_at(one: Crash, nth: int, after: str = "") -> bool:
    """Open the run in a child that dies at its n-th durable verb, or the n-th once verb `after` came. False if there
    was no such one.
    """
    pid = os.fork()
    if pid == 0:
        left, counts = nth, not after

        def probe(verb: str, path: object) -> None:
            nonlocal left, counts
            if not counts:
                counts = (
                    after == f"{verb} {os.path.basename(os.fsdecode(path)) if isinstance(path, str | bytes) else ''}"
                )
                return
            left -= 1
            if left == 0:
                os._exit(9)

        status = 3
        try:
            disk.probe = probe
            with living_in(one.world), open_run(".", run_id="one", tools=[one.tool]):
                status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def test_settling_files_may_be_killed_anywhere(world: World) -> None:
    write = writer(exclusive=True)
    world.write("a", "one\n")
    one = Crash(world, write, text="two\n")
    one.die()
    nth = 1
    while one.state().open or one.state().uncertain:
        if not killed_at(one, nth):
            break
        assert world.read("a") in (b"one\n", b"one\ntwo\n")
        nth += 1
        assert nth < 200
    assert nth > 5
    assert one.again() == "written"
    assert world.read("a") == b"one\ntwo\n"


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_settling_that_emptied_the_workspace_goes_on(world: World, nth: int) -> None:
    """What it had put back is finished before an empty workspace is taken for one that somebody wiped."""

    write = writer()
    one = Crash(world, write, text="two\n")
    one.die()
    assert killed_at(one, nth, after="remove a")
    assert not os.listdir(world.root)
    assert one.again() == "written"
    assert world.read("a") == b"two\n"


def test_settling_by_a_receiver_may_be_killed_anywhere(world: World) -> None:
    held: list[Crash] = []

    @tool(effect="external", reconcile=lambda a, key: Match(a, "there"), effect_fields=["order"], touches_files=False)
    def pay(order: int) -> str:
        held[0].enter(order=order)
        perhaps_die()
        return "paid"

    one = Crash(world, pay, order=7)
    held.append(one)
    one.die()
    nth = 1
    while one.state().open or one.state().uncertain:
        if not killed_at(one, nth):
            break
        nth += 1
        assert nth < 200
    assert one.again() == "there"
    assert len(one.ledger()) == 1


def test_an_owner_taken_for_dead_leaves_its_answer_as_evidence(world: World) -> None:
    held: list[Crash] = []

    @tool(effect="external", policy="person", touches_files=False)
    def pay(order: int) -> str:
        held[0].enter(order=order)
        os.kill(os.getpid(), signal.SIGSTOP)
        return "paid"

    one = Crash(world, pay, order=7)
    held.append(one)
    ttl = timedelta(milliseconds=300)
    pid = os.fork()
    if pid == 0:
        try:
            with living_in(world), open_run(".", run_id="one", tools=[pay], ttl=ttl) as run:
                run.call(run.model_turn("go", [{"name": "pay", "arguments": {"order": 7}}]).tool_calls[0])
        finally:
            os._exit(3)
    os.waitpid(pid, os.WUNTRACED)
    try:
        time.sleep(0.5)
        with pytest.raises(Busy):
            one.again()
        with pytest.raises(NeedsPerson):
            one.again(take_over=True)
    finally:
        os.kill(pid, signal.SIGCONT)
        os.waitpid(pid, 0)
    assert [e.epoch for e in one.events("tool_call_completed")] == []
    assert one.again() == "paid"
    assert one.verdicts()[-1] == ("complete", "late")
    assert len(one.ledger()) == 1
