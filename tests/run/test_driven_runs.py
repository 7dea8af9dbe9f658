"""A driven run from outside: who owns it, what became of the files, what was approved, what its log holds."""

from __future__ import annotations

import gc
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from driving import LOOP, Loop, call, living_in
from harness.machine import wait_until
from harness.world import World

from checkpointer import Ask, Busy, Deny, Drift, NeedsPerson, decide, open_run, tool
from checkpointer.errors import Damaged, Finished, NoStore, Usage
from checkpointer.events import Commit, Durability
from checkpointer.log import JsonlLog
from checkpointer.tools import Tool

done: list[int] = []


@tool(effect="external", policy="person")
def pay(order: int) -> int:
    done.append(order)
    return order


@tool(effect="workspace")
def write(path: str, text: str) -> str:
    with open(path, "w") as f:
        f.write(text)
    return "x" * 100_000 if text == "much" else text


@pytest.fixture
def place(world: World) -> Iterator[World]:
    done.clear()
    with living_in(world):
        yield world


def events(place: World, run: str) -> list[Any]:
    log = JsonlLog(str(place.store / "runs" / run))
    return [record.load(log.fetch) for record in log.read()]


def opened(**more: Any) -> Any:
    return open_run(".", run_id="x", tools=[pay, write], **more)


def test_leaving_the_block_lets_it_go_and_only_finish_ends_it(place: World) -> None:
    with opened() as run:
        assert run.user_message("hello", slot="a") == run.user_message("other", slot="a")
    assert run.state.released == "ended"
    with pytest.raises(ZeroDivisionError), opened() as run:
        1 / 0  # noqa: B018
    assert run.state.released == "interrupted"
    with opened() as run:
        assert [r.after for r in run.state.resumptions] == ["released", "released"]
        run.finish("done", detail="well")
    with opened() as run:
        assert run.state.outcome == "done"
        assert run.user_message("hello", slot="a") == 2
        with pytest.raises(Finished):
            run.user_message("more")
    assert place.ckpt("runs").out.count("done") == 1


def test_a_run_has_one_owner(place: World) -> None:
    with opened():
        with pytest.raises(Busy), opened():
            pass
        with open_run(".", tools=[write]) as other:
            assert other.id == other.handle == "r2"


def test_two_supervisors_at_once(world: World) -> None:
    loop = Loop(world, [call("pay", order=1, cents=1)])
    children = [loop.popen() for _ in range(4)]
    ends = [child.wait(timeout=90) for child in children]
    assert 0 in ends
    assert len(loop.ledger("pay")) == 1
    loop.finish()
    assert len(loop.ledger("pay")) == 1
    assert loop.types().count("user_message") == 1


def test_an_owner_that_was_taken_over_writes_no_more(world: World) -> None:
    loop = Loop(world, [call("pay", order=1, cents=1)])
    child = loop.popen(OPEN='{"ttl_s": 1}', STOP="pay-after")
    while not loop.ledger("pay"):
        time.sleep(0.02)
        assert child.poll() is None
    child.send_signal(signal.SIGSTOP)
    try:
        loop.start(1)
        time.sleep(1.2)
        loop.start(3, OPEN='{"take_over": true}')
    finally:
        child.send_signal(signal.SIGCONT)
    _, err = child.communicate(timeout=60)
    assert b"Fenced" in err
    assert loop.types().count("tool_call_completed") == 0
    (letter,) = loop.log().letters("late")
    assert b"tool_call_completed" in letter[1]
    assert len(loop.ledger("pay")) == 1


def test_contents_are_kept_by_reference_and_come_back(place: World) -> None:
    big = "é\u2028" * 300_000
    with opened() as run:
        run.user_message(big)
        (answer,) = [run.call(c) for c in run.model_turn("", [call("write", path="a", text="much")]).tool_calls]
        before = run.context()
    directory = place.store / "runs" / "x"
    assert (directory / "events.jsonl").stat().st_size < 20_000
    assert len(list((directory / "objects").iterdir())) == 2
    with opened() as run:
        assert run.context() == before
        assert run.context()[0]["content"] == big
        assert run.call((before[1]["seq"], 0)).result == answer.result


def test_its_events_name_the_files_they_stand_on(place: World) -> None:
    place.write("a", "1")
    with opened() as run:
        run.user_message("go")
        place.write("b", "a person's")
        run.call(write, {"path": "a", "text": "2"}, slot="w")
        run.call(pay, {"order": 1}, slot="p")
    said = events(place, "x")
    assert [e.type for e in said] == [
        "run_started", "user_message", "workspace_changed", *["tool_call_started", "tool_call_completed"] * 2,
        "run_released",
    ]  # fmt: skip
    changed, start, end = said[2:5]
    assert (changed.cause, changed.checkpoint) == ("edit", 2)
    assert (start.turn, start.step, start.commit.number, start.commit.captured) == (1, 1, 2, True)
    assert (end.commit.number, end.commit.captured) == (3, True)
    assert said[1].commit == Commit(id=said[0].commit.id, number=1, captured=False)
    place.ckpt("undo")
    assert place.read("a") == b"1"
    assert place.read("b") == b"a person's"


def test_an_undo_while_it_works_is_noted(place: World) -> None:
    place.write("a", "1")
    with opened() as run:
        run.user_message("go")
        run.call(write, {"path": "a", "text": "2"}, slot="w")
        place.ckpt("undo")
        run.call(write, {"path": "b", "text": "3"}, slot="v")
    causes = [(e.cause, e.by) for e in events(place, "x") if e.type == "workspace_changed"]
    assert causes == [("undo", "person")]
    assert place.read("a") == b"1"


def test_what_came_and_went_again_is_no_drift(place: World) -> None:
    place.write("a", "1")
    with opened() as run:
        run.call(write, {"path": "a", "text": "2"}, slot="w")
    place.write("b", "for a while")
    place.ckpt("save")
    place.rm("b")
    with opened() as run:
        assert run.state.commit is not None
    place.write("a", "3")
    place.ckpt("save")
    with pytest.raises(Drift, match="a"), opened():
        pass


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")
def test_a_run_that_was_left_keeps_nothing_open(place: World) -> None:
    """Also one that could not be opened, and whenever the collector may look."""
    place.write("a", "1")
    with opened() as run:
        run.call(write, {"path": "b", "text": "2"}, slot="w")
    place.write("a", "somebody's")
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for nth in range(3):
            with pytest.raises(Drift), opened():
                pass
            with opened(files="keep") as run:
                with pytest.raises(Busy), opened():
                    pass
                assert run.context() == []
            assert run.context() == []
            place.write("a", f"once more, {nth}")
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


def _later_checkpoints_alone(place: World) -> None:
    for i in range(3):
        place.write("other", f"{i}")
        place.ckpt("save")
    place.rm("other")
    place.ckpt("gc", "--yes", "--keep-days", "0", "--keep-number", "1")


def test_gc_keeps_what_a_run_that_can_be_gone_on_with_needs(place: World) -> None:
    with opened() as run:
        run.call(write, {"path": "a", "text": "2"}, slot="w")
    _later_checkpoints_alone(place)
    with opened() as run:
        assert run.call(write, {"path": "a", "text": "2"}, slot="w").replayed
        run.finish("done")
    _later_checkpoints_alone(place)
    assert place.ckpt("cat", "1", "a", ok=None).status != 0
    assert place.ckpt("show", "2", ok=None).status != 0, "a run that is over needs none"


def test_where_what_it_saw_last_is_gone_a_person_says_which_files_are_right(place: World) -> None:
    with opened() as run:
        run.call(write, {"path": "a", "text": "2"}, slot="w")
    with pytest.raises(KeyboardInterrupt), opened():
        raise KeyboardInterrupt
    place.ckpt("runs", "--dismiss", "x")
    _later_checkpoints_alone(place)
    for files in ("ask", "restore"):
        with pytest.raises(Drift, match="is kept no more"), opened(files=files):
            pass
    with opened(files="keep") as run:
        assert any("kept no more" in text for text in run.notices)


def test_files_that_somebody_changed_since_are_asked_about(place: World) -> None:
    place.write("a", "1")
    with opened() as run:
        run.call(write, {"path": "a", "text": "2"}, slot="w")
    place.write("a", "somebody's")
    with pytest.raises(Drift, match="a"), opened():
        pass
    with opened(files="restore") as run:
        assert place.read("a") == b"2"
        assert run.notices
    place.ckpt("undo")
    assert place.read("a") == b"somebody's"
    place.write("b", "also")
    with opened(files="keep") as run:
        assert run.state.commit is not None
    with opened():
        pass
    assert place.read("b") == b"also"
    causes = [e.cause for e in events(place, "x") if e.type == "workspace_changed"]
    assert causes == ["edit", "restore", "undo", "kept"]


def test_an_undo_meanwhile_is_no_question(place: World) -> None:
    with opened() as run:
        run.user_message("go")
        run.call(write, {"path": "a", "text": "2"}, slot="w")
    place.ckpt("undo")
    with opened():
        pass
    assert [e.cause for e in events(place, "x") if e.type == "workspace_changed"] == ["undo"]


@pytest.mark.parametrize("gone", [True, False])
def test_a_wiped_workspace_is_restored(place: World, gone: bool) -> None:
    with opened() as run:
        run.call(write, {"path": "a", "text": "2"}, slot="w")
    place.rm("a")
    os.chdir("/")
    if gone:
        place.root.rmdir()
    with open_run(place.root, run_id="x", tools=[pay, write]):
        assert place.read("a") == b"2"
    assert place.ckpt("status", "--json").json["checkpoint"]
    os.chdir(place.root)


def test_unprotected_is_said_and_recorded(place: World) -> None:
    with opened() as run:
        packs = place.store / "shadow.git" / "objects" / "pack"
        packs.rename(packs.with_name("away"))
        with pytest.warns(RuntimeWarning, match="NOT PROTECTED"):
            run.call(write, {"path": "a", "text": "2"}, slot="w")
        assert run.unprotected
        packs.with_name("away").rename(packs)
        run.call(write, {"path": "a", "text": "3"}, slot="v")
        assert run.unprotected is None
    protected = [e.commit is not None for e in events(place, "x") if e.type.startswith("tool_call")]
    assert protected == [True, False, True, True]  # at first nothing had to be written


def test_a_question_survives_and_its_answer_counts_once(place: World) -> None:
    def start() -> None:
        with opened() as run:
            calls.append(*run.model_turn("", [call("pay", order=1)]).tool_calls)
            run.ask(calls[0], "really?")

    calls: list[Any] = []
    with pytest.raises(NeedsPerson, match="approval"):
        start()
    asked = calls[0]
    assert events(place, "x")[-1].how == "paused"
    for _ in range(2):
        with pytest.raises(NeedsPerson), opened() as run:
            run.call(run.state.accepted[0])
    with pytest.raises(Usage):
        decide(".", "x", "no such key", "approved")
    decide(".", "x", asked.key[:8], "approved", who="me")
    with opened() as run:
        assert run.ask(run.state.accepted[0], "really?")
        assert run.call(run.state.accepted[0]).result == 1
    kinds = [e.type for e in events(place, "x") if e.type.startswith("approval")]
    assert kinds == ["approval_requested", "approval_decided"]
    assert done == [1]


def test_a_denial_is_told_to_the_model(place: World) -> None:
    with opened() as run:
        calls = run.model_turn("", [call("pay", order=1), call("pay", order=2)]).tool_calls
        key = calls[0].key
        threading.Timer(0.3, lambda: decide(".", "x", key, "denied", reason="no")).start()
        assert run.ask(calls[0], wait=20.0) is False
        assert run.call(calls[0]).status == "denied"
        run.call(calls[1])
        assert "not allowed: no" in run.context()[1]["content"]
    assert done == [2]


def test_an_answer_is_for_one_attempt(place: World) -> None:
    from checkpointer import NoEffect

    tries = [NoEffect("busy"), None]

    @tool(effect="external", policy="person")
    def fickle() -> str:
        if error := tries.pop(0):
            raise error
        return "ok"

    with open_run(".", run_id="x", tools=[fickle]) as run:
        for answer in ("failed", "completed"):
            (asked,) = run.model_turn("", [call("fickle")]).tool_calls
            with pytest.raises(NeedsPerson):
                run.ask(asked)
            decide(".", "x", asked.key, "approved")
            assert run.call(asked).status == answer


def test_a_question_expires(place: World) -> None:
    with opened() as run:
        (asked,) = run.model_turn("", [call("pay", order=1)]).tool_calls
        for _ in range(2):
            with pytest.raises(NeedsPerson):
                run.ask(asked, expires=timedelta(seconds=0.2))
            time.sleep(0.3)
            decide(".", "x", asked.key, "approved")
        with pytest.raises(NeedsPerson):  # the answer came too late
            run.call(asked)
    assert done == []


def test_a_policy_denies_and_asks(place: World) -> None:
    def policy(asked: Any, what: Tool) -> Deny | Ask | None:
        if asked.name != "pay":
            return None
        return Deny("too much") if asked.arguments["order"] > 10 else Ask("may I?")

    with opened(policy=policy) as run:
        run.call(write, {"path": "a", "text": "1"}, slot="w")
        much, little = run.model_turn("", [call("pay", order=11), call("pay", order=1)]).tool_calls
        assert run.call(much).result == "This call was not allowed: too much"
        with pytest.raises(NeedsPerson):
            run.call(little)
        assert run.call(pay, {"order": 12}, slot="also").status == "denied"
        assert run.call(pay, {"order": 12}, slot="also").status == "denied"
        decide(".", "x", little.key, "approved")
        assert run.call(little).status == "completed"
    assert done == [1]


def test_context_is_cut_and_rewound(place: World) -> None:
    with opened() as run:
        first = run.user_message("one")
        run.model_turn("two")
        last = run.user_message("three")
        run.compact(first, last - 1, "a summary")
        assert [(m["role"], m["content"]) for m in run.context()] == [("summary", "a summary"), ("user", "three")]
        run.rewind(run.context()[0]["seq"], why="a dead end")
        assert [m["role"] for m in run.context()] == ["summary"]
        run.memory("likes", "short answers")
        run.user_message("look it up", context="research")
        assert [m["content"] for m in run.context("research")] == ["look it up"]
        before = run.context()
    with opened() as run:
        assert run.context() == before


def test_its_secret_is_its_own(place: World) -> None:
    with opened() as run:
        run.call(pay, {"order": 1}, slot="p")
    path = place.store / "runs" / "x" / "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    log = (path.parent / "events.jsonl").read_bytes()
    assert path.read_bytes().hex().encode() not in log
    path.unlink()
    with pytest.raises(Damaged, match="secret"), opened():
        pass


def test_names_of_runs_and_tools_are_checked(place: World) -> None:
    for name in ("../x", "", "a/b", ".hidden"):
        with pytest.raises(Usage):
            open_run(".", run_id=name)
    with pytest.raises(NoStore), open_run(".", run_id="r77"):
        pass
    with pytest.raises(Usage, match="same name"):
        open_run(".", tools=[pay, pay])
    with pytest.raises(Usage, match="nothing can settle"):
        tool(effect="external")(lambda: None)
    with open_run(".", tools=[write]) as run:
        pass
    with open_run(".", run_id=run.handle, tools=[write]) as again:
        assert again.state.resumptions


def test_a_tool_that_is_gone_is_named(place: World) -> None:
    with opened() as run:
        run.model_turn("", [call("pay", order=1)])
    with open_run(".", run_id="x", tools=[write]) as run, pytest.raises(Usage, match="pay"):
        run.call(run.state.accepted[0])


def test_a_resume_names_what_changed(place: World) -> None:
    with opened(prompt="be brief"):
        pass
    with opened(prompt="be brief") as run:
        assert run.notices == []

    @tool(effect="external", policy="person", risk="high")
    def pay(order: int) -> None: ...

    with open_run(".", run_id="x", tools=[pay], prompt="be long") as run:
        assert run.notices == [
            "the prompt changed", "tool write is not here any more", "tool pay is declared otherwise now",
        ]  # fmt: skip


def test_what_an_interrupted_shell_wrote_is_its_own_work(place: World) -> None:
    @tool(effect="external", policy="person")
    def shell() -> None:
        place.write("made", "by the shell")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_run(".", run_id="x", tools=[shell]) as run:
        run.call(shell, slot="s")
    for _ in range(2):
        with pytest.raises(NeedsPerson, match="shell"), open_run(".", run_id="x", tools=[shell]):
            pass
    place.write("made", "by a person")
    with pytest.raises(Drift, match="made"), open_run(".", run_id="x", tools=[shell]):
        pass


def test_inside_a_watched_run_its_turns_are_its_own(world: World) -> None:
    world.write("a", "1")
    loop = Loop(world, [call("write", path="a", text="2"), call("write", path="b", text="3")])
    world.ckpt("run", "--", sys.executable, str(LOOP), env=loop.env)
    world.ckpt("undo", "--step")
    assert world.read("a") == b"2"
    assert not world.has("b")
    world.ckpt("undo")
    assert world.read("a") == b"1"


def test_a_log_may_be_synced_in_batches(place: World) -> None:
    tries = [OSError("lost"), None]

    @tool(effect="external", keys_kept=timedelta(hours=1))
    def send(*, key: str) -> str:
        said = (place.store / "runs" / "x" / "events.jsonl").read_text()
        assert key in said.splitlines()[-1]  # an effect outside begins after its start is on disk
        if error := tries.pop(0):
            raise error
        return key

    with open_run(
        ".", run_id="x", tools=[send, write], durability=Durability(kind="batched", events=50, ms=60_000)
    ) as run:
        run.user_message("go")
        calls = run.model_turn("", [call("write", path="a", text="1"), call("send")]).tool_calls
        answers = [run.call(c) for c in calls]
        assert answers[1].result == calls[1].key
        before = run.context()
    with open_run(".", run_id="x", tools=[send, write]) as run:
        assert run.context() == before


def test_the_lease_is_renewed_while_it_lives(place: World) -> None:
    with opened(ttl=timedelta(seconds=0.3)):
        lease = place.store / "runs" / "x" / "lease.json"
        first = json.loads(lease.read_text())["until_ms"]
        wait_until(lambda: json.loads(lease.read_text())["until_ms"] > first, 60, "the lease to be renewed")


def test_the_command_line_shows_it(place: World) -> None:
    with opened() as run:
        run.user_message("write it")
        run.call(write, {"path": "a", "text": "2"}, slot="w")
    assert "write it" in place.ckpt("log").out
    assert subprocess.run(["true"]).returncode == 0
    assert Path("a").read_text() == "2"


def test_a_watched_run_that_died_ends_where_this_one_begins(place: World) -> None:
    place.write("f", "1")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "checkpointer", "run", "--", "sh", "-c", "echo 2 > f; echo ready; exec sleep 60"],
        env=place.env,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    child = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    process.kill()
    process.wait()
    for pid in child:
        os.kill(pid, signal.SIGKILL)
    with opened() as run:
        run.user_message("go")
        run.call(write, {"path": "f", "text": "3"}, slot="w")
    assert events(place, "r1")[-1].how == "interrupted"
    place.ckpt("undo")
    assert place.read("f") == b"2\n"
