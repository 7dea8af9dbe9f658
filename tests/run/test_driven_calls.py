"""What a call is and becomes: joins, generations, failures, interruptions; in threads, tasks and one after another."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from driving import call, living_in
from harness.world import World

from checkpointer import NeedsPerson, NoEffect, Partial, environment, open_run, tool
from checkpointer.errors import Usage
from checkpointer.run.driven import Run
from checkpointer.tools import Tool


class Bank:
    """Tools, and what they did. `trouble` is raised by the next payments, one after another, after or before they
    took place.
    """

    def __init__(self) -> None:
        self.done: list[tuple[int, str]] = []
        self.before: list[BaseException] = []
        self.after: list[BaseException] = []
        self.seen: list[dict[str, str]] = []

    def tools(self, **more: Any) -> list[Tool]:
        @tool(effect="external", **({"policy": "person"} | more))
        def pay(order: int, *, key: str) -> dict[str, int]:
            self.seen.append(environment())
            if self.before:
                raise self.before.pop(0)
            self.done.append((order, key))
            if self.after:
                raise self.after.pop(0)
            return {"paid": order}

        @tool(effect="workspace")
        def write(path: str, text: str) -> str:
            with open(path, "w") as f:
                f.write(text)
            if self.after:
                raise self.after.pop(0)
            return "written"

        @tool(effect="read")
        def look(path: str) -> str:
            if self.before:
                raise self.before.pop(0)
            with open(path) as f:
                return f.read()

        return [pay, write, look]


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def place(world: World) -> Iterator[World]:
    with living_in(world):
        yield world


def keys(bank: Bank) -> list[str]:
    return [key for _, key in bank.done]


def turn(run: Run, *calls: dict[str, Any]) -> list[Any]:
    return [run.call(one) for one in run.model_turn("", calls).tool_calls]


def test_the_same_payment_twice_is_one_action(place: World, bank: Bank) -> None:
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        first, second, other = turn(run, call("pay", order=1), call("pay", order=1), call("pay", order=2))
        assert first.result == second.result == {"paid": 1}
        assert (first.replayed, second.replayed) == (False, True)
        assert other.key != first.key
        (again,) = turn(run, call("pay", order=1))
        assert again.key == first.key
        (meant,) = turn(run, {**call("pay", order=1), "repeat": True})
        assert meant.key != first.key
    assert [order for order, _ in bank.done] == [1, 2, 1]


def test_a_tool_may_say_that_repeats_are_new(place: World, bank: Bank) -> None:
    with open_run(".", run_id="x", tools=bank.tools(repeats="new")) as run:
        turn(run, call("pay", order=1), call("pay", order=1))
    assert len(set(keys(bank))) == 2


def test_reads_and_writes_are_always_new(place: World, bank: Bank) -> None:
    place.write("a", "1")
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        first, _, second = turn(run, call("look", path="a"), call("write", path="a", text="2"), call("look", path="a"))
        assert (first.result, second.result) == ("1", "2")


def test_a_slot_of_the_caller_is_filled_once(place: World, bank: Bank) -> None:
    pay, write, _ = bank.tools()
    with open_run(".", run_id="x", tools=[pay, write]) as run:
        first = run.call(pay, {"order": 5}, slot="five")
        assert run.call(pay, {"order": 5}, slot="five").replayed
        assert run.call(pay, {"order": 5}, slot="again").key == first.key
        assert run.call(pay, {"order": 5}, slot="more", repeat=True).key != first.key
        run.call("write", {"path": "b", "text": "1"}, slot="b")
        with pytest.raises(Usage, match="slot"):
            run.call(pay, {"order": 6})
        with pytest.raises(Usage, match="filled"):
            run.call(pay, {"order": 6}, slot="b")
        with pytest.raises(Usage, match="fit"):
            run.call(pay, {"amount": 6}, slot="z")
    with open_run(".", run_id="x", tools=[pay, write]) as run:
        assert run.call(pay, {"order": 5}, slot="five").result == {"paid": 5}
        assert run.call("write", {"path": "b", "text": "1"}, slot="b").replayed
    assert len(bank.done) == 2


def test_a_proven_failure_goes_on_under_a_new_generation(place: World, bank: Bank) -> None:
    bank.before = [NoEffect("closed")]
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        (failed,) = turn(run, call("pay", order=1))
        assert (failed.status, failed.failed) == ("failed", True)
        assert "closed" in run.context()[-1]["content"]
        (paid,) = turn(run, call("pay", order=1))
        assert paid.status == "completed"
        assert paid.key == failed.key
    assert keys(bank) == [f"{failed.key}/g1"]


def test_or_under_the_same_key_where_the_receiver_keeps_errors(place: World, bank: Bank) -> None:
    bank.before = [NoEffect("closed", again=True)]
    with open_run(".", run_id="x", tools=bank.tools(after_failure="same_key")) as run:
        (paid,) = turn(run, call("pay", order=1))
        assert [m["role"] for m in run.context()] == ["assistant", "tool"]
    assert keys(bank) == [paid.key]


def test_a_failure_that_lasts_is_told(place: World, bank: Bank) -> None:
    bank.before = [NoEffect("busy", again=True) for _ in range(9)]
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        (failed,) = turn(run, call("pay", order=1))
    assert failed.status == "failed"
    assert len(bank.before) == 6


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("connection lost"), "exception"),
        (TimeoutError(), "timeout"),
        (Partial("half", {"booked": 1}), "partial"),
        (KeyboardInterrupt(), "signal"),
        (SystemExit(1), "exception"),
    ],
)
def test_whatever_else_goes_wrong_outside_is_uncertain(
    place: World, bank: Bank, error: BaseException, reason: str
) -> None:
    bank.after = [error]
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        with pytest.raises((NeedsPerson, type(error))):
            turn(run, call("pay", order=1))
        (unknown,) = run.state.uncertain
        assert run.state.doubts[unknown.key].reason == reason
        assert run.state.doubts[unknown.key].number == 1
        with pytest.raises(NeedsPerson):
            run.context()
        with pytest.raises(NeedsPerson):
            run.model_turn("")
        with pytest.raises(NeedsPerson):
            run.finish("done")
    with pytest.raises(NeedsPerson), open_run(".", run_id="x", tools=bank.tools()):
        pass
    assert len(bank.done) == 1


def test_told_of_it_a_model_goes_on(place: World, bank: Bank) -> None:
    bank.after = [OSError("connection lost")]
    with open_run(".", run_id="x", tools=bank.tools(), on_uncertain="tell") as run:
        (unknown,) = turn(run, call("pay", order=1))
        assert unknown.status == "uncertain"
        assert "do not repeat" in run.context()[-1]["content"].lower()
        (joined,) = turn(run, call("pay", order=1))
        assert (joined.key, joined.status) == (unknown.key, "uncertain")
        assert run.context()[-1]["content"] == unknown.result
        run.model_turn("then not")
    assert len(bank.done) == 1


def test_what_a_read_raises_is_told_and_nothing_more(place: World, bank: Bank) -> None:
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        (failed,) = turn(run, call("look", path="nothing"))
        assert failed.status == "failed"
        assert "FileNotFoundError" in failed.result


def test_the_files_say_what_a_failing_writer_did(place: World, bank: Bank) -> None:
    place.write("a", "1")
    bank.after = [ValueError("no"), ValueError("no")]
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        changed, unchanged = turn(run, call("write", path="a", text="2"), call("write", path="a", text="2"))
        assert (changed.status, changed.failed) == ("completed", True)
        assert (unchanged.status, unchanged.failed) == ("failed", True)


def test_wrong_names_and_arguments_are_denied(place: World, bank: Bank) -> None:
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        answers = turn(run, call("rob", order=1), call("pay", amount=1), call("pay", order=1, key="mine"))
        assert [a.status for a in answers] == ["denied"] * 3
        assert ["no tool rob" in m["content"] for m in run.context()[1:]] == [True, False, False]
        run.model_turn("go on")
    assert bank.done == []


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), {1, 2}, {1: "x"}, object(), [[float("-inf")]]])
def test_arguments_that_are_no_json_are_denied_and_told(place: World, bank: Bank, odd: object) -> None:
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        wrong, right = turn(run, call("pay", order=odd), call("pay", order=1))
        assert (wrong.status, right.status) == ("denied", "completed")
        said = run.context()
        assert "no JSON" in said[-2]["content"]
        assert set(said[-3]["tool_calls"][0]["arguments"]) == {"unreadable"}
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        assert run.context() == said
    assert len(bank.done) == 1


def test_the_models_last_word_is_there_until_something_is_said(place: World, bank: Bank) -> None:
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        assert run.last_turn() is None
        run.user_message("go")
        assert run.last_turn() is None
        run.model_turn("", [call("pay", order=1)])
        with pytest.raises(Usage):
            run.last_turn()
        run.call(run.state.accepted[0])
        assert run.last_turn() is None
        run.model_turn("done")
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        last = run.last_turn()
        assert last is not None
        assert (last.content, last.tool_calls) == ("done", ())
        run.user_message("more")
        assert run.last_turn() is None


def test_an_odd_result_is_kept_as_it_prints(place: World) -> None:
    @tool(effect="read")
    def odd() -> object:
        return {1, 2} if threading.current_thread() else None

    with open_run(".", run_id="x", tools=[odd]) as run:
        assert run.call(odd, slot="x").result == "{1, 2}"


def test_a_tool_knows_its_step_and_key(place: World, bank: Bank) -> None:
    with open_run(".", run_id="x", tools=bank.tools()) as run:
        run.user_message("go")
        (paid,) = turn(run, call("pay", order=1))
    assert bank.seen == [{"CKPT_STEP_ID": "t1.1", "CKPT_KEY": paid.key}]
    assert environment() == {}


def test_calls_of_one_turn_in_threads(place: World, bank: Bank) -> None:
    busy, most = [0], [0]

    @tool(effect="workspace")
    def slow(n: int) -> int:
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        time.sleep(0.02)
        busy[0] -= 1
        with open(f"f{n}", "w") as f:
            f.write(str(n))
        return n

    with open_run(".", run_id="x", tools=[slow, *bank.tools()]) as run:
        run.user_message("go")
        asked = [call("slow", n=n) for n in range(5)] + [call("pay", order=1) for _ in range(3)]
        answers: dict[int, Any] = {}
        calls = run.model_turn("", asked).tool_calls
        threads = [
            threading.Thread(target=lambda n=n, c=c: answers.update({n: run.call(c)})) for n, c in enumerate(calls)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [answers[n].result for n in range(5)] == list(range(5))
        assert {answers[n].key for n in range(5, 8)} == {answers[5].key}
        steps = [step.number for step in run.state.trajectory]
        assert sorted(steps) == list(range(1, 7))  # type: ignore[type-var]
        run.model_turn("done")
    assert most == [1]
    assert len(bank.done) == 1
    place.ckpt("undo", "--step")
    assert sum(place.has(f"f{n}") for n in range(5)) == 4


def test_a_call_inside_a_call_knows_its_parent(place: World) -> None:
    @tool(effect="workspace")
    def part(n: int) -> int:
        with open(f"part{n}", "w") as f:
            f.write("x")
        return n

    @tool(effect="workspace")
    def whole() -> int:
        with open("whole", "w") as f:
            f.write("x")
        return sum(run.call(part, {"n": n}, slot=f"part {n}").result for n in (1, 2))

    with open_run(".", run_id="x", tools=[part, whole]) as run:
        run.user_message("go")
        answer = run.call(whole, slot="whole")
        assert answer.result == 3
    place.ckpt("undo")
    assert not any(map(place.has, ("whole", "part1", "part2")))


def test_the_asynchronous_form(place: World, bank: Bank) -> None:
    @tool(effect="read")
    async def fetch(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    async def loop() -> list[dict[str, Any]]:
        async with open_run(".", run_id="x", tools=[fetch, *bank.tools()]) as run:
            await run.user_message("go", slot="task")
            while not run.state.outcome:
                await asyncio.gather(*(run.call(c) for c in run.state.accepted))
                if run.state.model_turns:
                    await run.finish("done")
                else:
                    asked = [*(call("fetch", n=n) for n in range(4)), call("pay", order=1), call("pay", order=1)]
                    await run.model_turn("", [*asked, call("write", path="a", text="1")])
            return run.context()

    first = asyncio.run(loop())
    assert first == asyncio.run(loop())
    assert sorted(m["content"] for m in first if m.get("name") == "fetch") == [0, 1, 2, 3]
    assert len(bank.done) == 1
    assert place.read("a") == b"1"


def test_a_cancelled_call_is_uncertain_before_anybody_hears_of_it(place: World) -> None:
    done = []
    gate = threading.Event()

    @tool(effect="external", policy="person")
    async def pay(order: int) -> None:
        done.append(order)
        await asyncio.sleep(60)

    @tool(effect="workspace")
    def write() -> None:
        gate.wait(60)
        done.append("written")

    async def loop() -> None:
        async with open_run(".", run_id="x", tools=[pay, write]) as run:
            for name, arguments in (("pay", {"order": 1}), ("write", {})):
                task = asyncio.create_task(run.call(name, arguments, slot=name))
                while not run.state.open:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.05)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                unknown = next(c for c in run.state.uncertain if c.tool == name)
                assert run.state.doubts[unknown.key].reason == "cancelled"
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await run.call("write", {}, slot="again")  # waits for the thread that goes on
            assert done == [1]
            gate.set()

    asyncio.run(loop())
    assert done == [1, "written"]


def test_an_asynchronous_tool_in_the_plain_form(place: World) -> None:
    @tool(effect="external", keys_kept=timedelta(hours=1))
    async def send(*, key: str) -> str:
        await asyncio.sleep(0)
        return key

    with open_run(".", run_id="x", tools=[send]) as run:
        answer = run.call(send, slot="once")
        assert answer.result == answer.key


def test_a_secret_in_arguments_is_not_written_and_must_be_given_again(place: World) -> None:
    seen = []

    @tool(effect="external", keys_kept=timedelta(hours=1))
    def push(to: str, token: str, *, key: str) -> str:
        seen.append(token)
        return f"pushed with {token}"

    secret = "ghp_" + "a1B2" * 9
    asked = {"to": "origin", "token": secret}
    with open_run(".", run_id="x", tools=[push]) as run:
        first, _ = run.model_turn("", [call("push", **asked), call("push", to="fork", token=secret)]).tool_calls
        assert run.call(first).result == f"pushed with {secret}"  # who is at work has what it was given
    with open_run(".", run_id="x", tools=[push]) as run:
        assert run.call(first).result == "pushed with [redacted: github token]"
        left = run.state.accepted[0]
        with pytest.raises(NeedsPerson, match="redacted"):
            run.call(left)
        with pytest.raises(NeedsPerson, match="redacted"):
            run.call(left, {**asked, "to": "elsewhere"})
        assert run.call(left, {"to": "fork", "token": secret}).status == "completed"
        joined = run.model_turn("again", [call("push", **asked)]).tool_calls[0]
        assert run.call(joined).replayed  # its digest is that of what was asked
    assert seen == [secret, secret]
    for path in (place.store / "runs").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
