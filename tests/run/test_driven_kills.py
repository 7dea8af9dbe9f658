"""A driven run killed with SIGKILL at chosen points: what was done is not done again, what is unknown not guessed."""

from __future__ import annotations

import os
import signal
import time

import pytest
from driving import Loop, call
from harness.world import World

READS = ([call("look", path="a")], [call("look", path="a"), call("look", path="a")])
PAYS = ([call("pay", order=7, cents=100)],)


@pytest.fixture
def loop(world: World) -> Loop:
    world.write("a", "one\n")
    return Loop(world, *READS)


def test_the_script_is_the_start_and_the_resume(loop: Loop) -> None:
    first = loop.finish()
    said = ["user", "assistant", "tool", "assistant", "tool", "tool", "assistant"]
    assert [m["role"] for m in first["context"]] == said
    assert loop.finish() == first
    assert len(loop.ledger("look")) == 3
    assert loop.state().outcome == "done"


@pytest.mark.parametrize("nth", range(1, 13))
def test_killed_before_each_write_of_its_log(loop: Loop, nth: int) -> None:
    loop.die(f"append:{nth}")
    answer = loop.finish()
    assert [m["role"] for m in answer["context"]].count("user") == 1
    assert [m["content"] for m in answer["context"] if m["role"] == "tool"] == ["one\n"] * 3
    assert answer["usage"] == 30
    assert 3 <= len(loop.ledger("look")) <= 4


def test_killed_again_and_again(loop: Loop) -> None:
    for nth in (2, 3, 3, 4, 4, 5, 5):
        loop.die(f"append:{nth}")
    answer = loop.finish()
    assert [m["content"] for m in answer["context"] if m["role"] == "tool"] == ["one\n"] * 3
    assert loop.state().epoch == 8


def test_interrupted_while_the_tool_runs(world: World) -> None:
    loop = Loop(world, *PAYS)
    child = loop.popen(STOP="pay-after")
    while not loop.ledger("pay"):
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert b"KeyboardInterrupt" in err
    assert loop.types()[-2:] == ["tool_call_uncertain", "run_released"]
    (doubt,) = loop.state().doubts.values()
    assert (doubt.reason, doubt.number) == ("signal", 1)
    assert loop.state().released == "interrupted"


def test_interrupted_at_any_moment_it_goes_on(world: World) -> None:
    world.write("a", "one\n")
    loop = Loop(world, *WRITES, *READS)
    for wait in (0.02, 0.05, 0.08, 0.12, 0.16, 0.2, 0.3, 0.5):
        child = loop.popen()
        time.sleep(wait)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
    loop.finish(OPEN='{"files": "restore"}')
    assert (world.read("b"), world.read("c")) == (b"two", b"three")


def test_a_finished_call_is_answered_from_the_log(world: World) -> None:
    loop = Loop(world, *PAYS)
    loop.die("model:2")
    answer = loop.finish()
    assert answer["context"][2]["content"] == {"paid": 100}
    assert len(loop.ledger("pay")) == 1


def test_before_its_start_is_synced_a_call_did_not_happen(world: World) -> None:
    loop = Loop(world, *PAYS)
    loop.die("append:4")  # started, said, accepted; then the start
    assert loop.ledger() == []
    loop.finish()
    assert len(loop.ledger("pay")) == 1


@pytest.mark.parametrize(("place", "done"), [("pay-before", 0), ("pay-after", 1), ("append:5", 1)])
def test_between_start_and_completion_the_outcome_is_unknown(world: World, place: str, done: int) -> None:
    loop = Loop(world, *PAYS)
    loop.die(place)
    assert len(loop.ledger("pay")) == done
    for _ in range(2):
        loop.start(3)
        assert len(loop.ledger("pay")) == done
        (unknown,) = loop.state().uncertain
        assert unknown.tool == "pay"
        assert loop.state().model_turns == 1


def test_the_model_is_told_if_it_may_be(world: World) -> None:
    loop = Loop(world, *PAYS)
    loop.die("pay-after")
    loop.start(3, OPEN='{"on_uncertain": "tell"}')  # the model went on; the run cannot end
    state = loop.state()
    assert state.model_turns == 2
    assert [m.role for m in state.context()] == ["user", "model", "tool", "model"]
    assert state.outcome is None
    assert len(loop.ledger("pay")) == 1


def test_a_workspace_call_that_completed_stays_completed(world: World) -> None:
    loop = Loop(world, [call("write", path="b", text="two")])
    loop.die("model:2")
    loop.finish()
    assert world.read("b") == b"two"
    assert len(loop.ledger("write")) == 1
    world.ckpt("undo")
    assert not world.has("b")


WRITES = ([call("write", path="b", text="two"), call("write", path="c", text="three")],)


@pytest.mark.parametrize(
    "place",
    ["append:4", "write-before", "write-after", "append:5", "write-before:2", "write-after:2", "append:7", "model:2"],
)
def test_files_come_out_the_same_wherever_a_writer_is_killed(world: World, place: str) -> None:
    """Nobody else edits here, so what a call left halfway is put back and done again without asking."""
    world.write("a", "one")
    loop = Loop(world, *WRITES)
    loop.die(place)
    answer = loop.finish()
    assert (world.read("a"), world.read("b"), world.read("c")) == (b"one", b"two", b"three")
    assert [m["content"] for m in answer["context"] if m["role"] == "tool"] == ["written", "written"]
    world.ckpt("undo")
    assert world.read("a") == b"one"
    assert not world.has("b")
    assert not world.has("c")


def test_an_edit_after_the_crash_is_never_overwritten_unasked(world: World) -> None:
    world.write("a", "one")
    loop = Loop(world, *WRITES)
    loop.die("write-after", OPEN='{"ttl_s": 1}')
    time.sleep(3)  # until then its owner might have been the one
    world.write("b", "a person's")
    world.write("d", "also a person's")
    os.utime(world.at("b"), (0, 0))
    loop.start(3)
    assert world.read("b") == b"a person's"
    loop.finish(OPEN='{"files": "restore"}')
    assert (world.read("b"), world.read("c")) == (b"two", b"three")
    assert not world.has("d")


def test_a_key_that_is_still_known_is_sent_again(world: World) -> None:
    loop = Loop(world, [call("keyed", order=7)])
    for _ in range(3):
        loop.die("keyed-after")
    loop.finish()
    assert len(loop.ledger("keyed")) == 4
    assert len({one["key"] for one in loop.ledger("keyed")}) == 1
