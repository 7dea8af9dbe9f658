"""A run from a point of another: it knows what was said, has the files, and repeats nothing that was done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from driving import call, living_in
from harness.crashing import killed_everywhere
from harness.world import World

from checkpointer import Ask, Busy, NeedsPerson, NoEffect, home, open_run, tool
from checkpointer.errors import NothingToDo, Usage
from checkpointer.events import AnyEvent, RunStarted
from checkpointer.log import JsonlLog, catch_up
from checkpointer.run import forking
from checkpointer.run.branching import Stop
from checkpointer.run.contents import Contents
from checkpointer.state import fold

sent: list[tuple[int, str]] = []


@tool(effect="external", keys_kept=timedelta(hours=1))
def pay(order: int, *, key: str) -> dict[str, int]:
    if os.environ.get("REFUSE"):
        raise NoEffect("no money")
    sent.append((order, key))
    return {"paid": order}


@tool(effect="external", policy="person")
def mail(to: str) -> str:
    sent.append((0, to))
    raise OSError("connection lost")


@tool(effect="workspace")
def write(path: str, text: str) -> str:
    Path(path).write_text(text)
    return f"wrote {text}"


@tool(effect="read")
def look() -> str:
    return "seen"


TOOLS = [pay, mail, write, look]


@pytest.fixture
def place(world: World) -> Iterator[World]:
    sent.clear()
    with living_in(world):
        yield world


def opened(where: Any = ".", run: str | None = "a", **more: Any) -> Any:
    return open_run(where, run_id=run, tools=TOOLS, **more)


def asks(run: Any, *wanted: dict[str, Any]) -> list[Any]:
    return [run.call(one) for one in run.model_turn("go", list(wanted)).tool_calls]


def log_of(world: World, run: str = "a") -> JsonlLog:
    there = home.exactly(os.fsencode(world.root))
    assert there is not None
    return JsonlLog(str(there.directory / "runs" / run))


def forked(world: World, name: str = "b", stop: Stop = lambda event: False) -> forking.Forked:
    found = home.find(os.fsencode(world.root), read_only=True)
    assert found is not None
    return forking.fork(found, log_of(world), os.fsencode(world.base / name), stop=stop)


def before(kind: str, nth: int = 1) -> Stop:
    left = [nth]

    def stop(event: AnyEvent) -> bool:
        left[0] -= event.type == kind
        return left[0] <= 0

    return stop


def said(run: Any) -> list[Any]:
    return [one["content"] for one in run.context()]


def test_it_goes_on_from_the_point_with_the_files_and_the_words(place: World) -> None:
    with opened() as run:
        run.user_message("one", slot="1")
        asks(run, call("write", path="f", text="first"), call("look"))
        run.user_message("two", slot="2")
        asks(run, call("write", path="f", text="second"))
    done = forked(place, stop=before("user_message", 2))
    assert (place.base / "b" / "f").read_text() == "first"
    assert place.read("f") == b"second"
    assert done.since == []
    with opened(done.root) as run:
        assert said(run) == ["one", "go", "wrote first", "seen"]
        assert run.state.operation != "loop"
        run.user_message("one", slot="1")  # said already
        run.user_message("another two", slot="2")
        asks(run, call("write", path=str(place.base / "b" / "f"), text="third"))
        assert said(run)[4:] == ["another two", "go", "wrote third"]
    first = log_of(place).at([1])[0].event
    assert isinstance(first, RunStarted)
    assert first.fork_of is None
    begun = JsonlLog(str(done.store / "runs" / "a")).at([1])[0].event
    assert isinstance(begun, RunStarted)
    assert begun.fork_of is not None
    assert (begun.fork_of.run, begun.fork_of.seq) == ("a", done.seq)
    assert place.read("f") == b"second"


def test_what_was_done_outside_is_not_done_again(place: World) -> None:
    with opened() as run:
        run.user_message("one")
        asks(run, call("write", path="f", text="1"), call("pay", order=1))
        run.user_message("two")
        asks(run, call("pay", order=2))
    done = forked(place, stop=before("user_message", 2))
    assert [(e.tool, dict(e.arguments), e.status) for e in done.since] == [("pay", {"order": 2}, "done")]
    assert [order for order, _ in sent] == [1, 2]
    with opened(done.root) as run:
        assert asks(run, call("pay", order=1))[0].result == {"paid": 1}
        assert asks(run, call("pay", order=2))[0].result == {"paid": 2}
        assert [order for order, _ in sent] == [1, 2]
        asks(run, call("pay", order=3), {**call("pay", order=2), "repeat": True})
    with opened() as run:
        asks(run, call("pay", order=3), {**call("pay", order=2), "repeat": True})
    assert [order for order, _ in sent] == [1, 2, 3, 2, 3, 2]
    assert len({key for _, key in sent}) == 6


def test_a_call_that_was_accepted_is_the_forks_own(place: World) -> None:
    with opened() as run:
        run.user_message("one")
        run.model_turn("go", [call("pay", order=1), call("write", path="f", text="x")])
    done = forked(place)
    for where in (done.root, os.fsencode(place.root)):
        os.chdir(where)
        with opened(where) as run:
            assert len(run.state.accepted) == 2
            for slot in run.state.accepted:
                run.call(slot)
    assert [order for order, _ in sent] == [1, 1]
    assert len({key for _, key in sent}) == 2


def test_one_that_its_parent_did_meanwhile_is_answered(place: World) -> None:
    with opened() as run:
        run.user_message("one")
        asks(run, call("write", path="f", text="x"), call("pay", order=7))
    done = forked(place, stop=before("tool_call_started", 2))
    assert [e.tool for e in done.since] == ["pay"]
    with opened(done.root) as run:
        assert run.state.accepted == ()
        assert said(run) == ["one", "go", {"paid": 7}, "wrote x"] or said(run) == ["one", "go", "wrote x", {"paid": 7}]
    assert len(sent) == 1


def test_what_failed_before_and_was_done_since_is_not_done_again(place: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as run:
        run.user_message("one")
        monkeypatch.setenv("REFUSE", "1")
        asks(run, call("write", path="f", text="x"), call("pay", order=1))
        monkeypatch.delenv("REFUSE")
        run.user_message("two")
        asks(run, call("pay", order=1))
    done = forked(place, stop=before("user_message", 2))
    with opened(done.root) as run:
        asks(run, call("pay", order=1))
    assert len(sent) == 1


def test_what_its_parent_inherited_is_in_the_world_too(place: World) -> None:
    with opened(run="p") as run:
        run.user_message("zero")
        asks(run, call("pay", order=1))
        run.finish("done")
    with opened(inherits=["p"]) as run:
        run.user_message("one")
        asks(run, call("write", path="f", text="x"), call("pay", order=1), call("pay", order=2))
    done = forked(place, stop=before("tool_call_started", 2))
    again = forked_again(done, os.fsencode(place.base / "c"))
    for where in (done.root, again.root):
        os.chdir(where)
        with opened(where, inherits=["p"]) as run:  # the same program as its parent's
            assert said(run)[0] == "one"
            for order in (1, 2):
                assert asks(run, call("pay", order=order))[0].result == {"paid": order}
    assert [order for order, _ in sent] == [1, 2]


def forked_again(done: forking.Forked, root: bytes) -> forking.Forked:
    found = home.find(done.root, read_only=True)
    assert found is not None
    return forking.fork(found, JsonlLog(str(done.store / "runs" / done.run)), root)


def test_an_approval_is_of_one_call_alone(place: World) -> None:
    def policy(wanted: Any, tool: Any) -> Any:
        return Ask("may it?") if wanted.name == "pay" else None

    with opened(policy=policy) as run:
        run.user_message("one")
        turn = run.model_turn("go", [call("write", path="f", text="x"), call("pay", order=1)])
        run.call(turn.tool_calls[0])
        with pytest.raises(NeedsPerson):
            run.call(turn.tool_calls[1])
    (key,) = catch_up(log_of(place)).state.approvals
    place.ckpt("approvals", key, "--approve")
    done = forked(place)
    with opened(done.root, policy=policy) as run:
        (slot,) = run.state.accepted
        with pytest.raises(NeedsPerson):
            run.call(slot)
    assert sent == []
    with opened(policy=policy) as run:
        (slot,) = run.state.accepted
        run.call(slot)
    assert len(sent) == 1


def test_nobody_forks_what_is_not_known(place: World) -> None:
    with opened() as run:
        run.user_message("one")
        turn = run.model_turn("go", [call("write", path="f", text="x"), call("mail", to="me")])
        run.call(turn.tool_calls[0])
        with pytest.raises(NeedsPerson):
            run.call(turn.tool_calls[1])
    with pytest.raises(NeedsPerson) as caught:
        forked(place, stop=before("tool_call_started", 2))
    (handle,) = caught.value.details["uncertain"]
    assert f"{handle} mail(to='me')" in caught.value.message
    assert not os.path.lexists(place.base / "b")
    place.ckpt("settle", handle, "--happened", "-", input=b'"gone"')
    done = forked(place, stop=before("tool_call_completed", 3))
    with opened(done.root) as run:
        assert said(run)[-1] == "gone"
        assert asks(run, call("mail", to="me"))[0].result == "gone"
    assert len(sent) == 1


def test_a_run_at_work_or_only_watched_is_not_forked(place: World) -> None:
    with opened() as run:
        run.user_message("one")
        with pytest.raises(Busy):
            forked(place)
    place.ckpt("run", "--", "true")
    watched = JsonlLog(str(log_of(place, "r2").directory))
    found = home.find(os.fsencode(place.root), read_only=True)
    assert found is not None
    with pytest.raises(Usage, match="only watched"):
        forking.fork(found, watched, os.fsencode(place.base / "b"))


def test_directories_that_cannot_be_taken(place: World) -> None:
    with opened() as run:
        run.user_message("one")
        asks(run, call("write", path="f", text="x"))
    (place.base / "full").mkdir()
    (place.base / "full" / "x").touch()
    (place.base / "file").touch()
    there = sorted(place.base.rglob("*"))
    for name in ("full", "file", "w/inside", "w", "state/x", "full/.git/x", "."):
        with pytest.raises(Usage):
            forked(place, name)
    (place.base / "here").mkdir()
    os.chdir(place.base / "here")
    with pytest.raises(Usage, match="you are in"):
        forked(place, "here")
    (place.base / "here").rmdir()
    assert sorted(place.base.rglob("*")) == there
    (place.base / "empty").mkdir()
    assert (Path(os.fsdecode(forked(place, "empty").root)) / "f").read_text() == "x"
    with pytest.raises(NothingToDo, match="this fork already"):
        forked(place, "empty")


def test_from_every_place_of_a_log(place: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the point: its model is told what its parent's was told there, and nothing done is done again."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None, raising=False)
    with opened() as run:
        run.user_message("one", slot="s")
        asks(run, call("write", path="f", text="1"), call("pay", order=1), call("look"))
        monkeypatch.setenv("REFUSE", "1")
        asks(run, call("pay", order=2))
        monkeypatch.delenv("REFUSE")
        asks(run, call("pay", order=2), call("nosuch"), {**call("pay", order=1), "repeat": True})
        run.compact(run.context()[0]["seq"], run.context()[0]["seq"], "short")
    with opened() as run:
        run.user_message("two")
        asks(run, call("pay", order=1), call("write", path="f", text="2"), call("pay", order=5))
        run.memory("m", {"a": 1})
        run.rewind(run.context()[-1]["seq"])
    done = [*sent]
    log = log_of(place)
    last = catch_up(log).state.seq
    for seq in range(2, last + 1):
        made = forked(place, f"f{seq}", stop=lambda event, seq=seq: event.seq >= seq)  # type: ignore[misc]
        mine = JsonlLog(str(made.store / "runs" / "a"))
        then = fold(record.event for record in log.read() if record.seq <= made.seq)
        state = catch_up(mine).state
        if not state.accepted and not then.accepted:
            told, known = Contents(mine).context(state, "main"), Contents(log).context(then, "main")
            assert _words(told) == _words(known), f"before event {seq}"
        os.chdir(os.fsdecode(made.root))
        with opened() as run:
            for slot in run.state.accepted:
                run.call(slot)
            for order in (1, 2, 5):
                asks(run, call("pay", order=order))
        assert sent == done, f"a fork before event {seq} paid again: {sent[len(done) :]}"
        os.chdir(place.root)


def _words(context: list[dict[str, Any]]) -> list[Any]:
    """Who said what; answers of one turn may have come in another order."""
    said = [(one["role"], json.dumps(one["content"], sort_keys=True)) for one in context]
    return sorted(said)


def test_the_command_says_what_it_did(place: World) -> None:
    with opened(run=None) as run:
        run.user_message("one")
        asks(run, call("write", path="f", text="1"))
        run.user_message("two")
        asks(run, call("write", path="f", text="2"), call("pay", order=4))
    place.sh("echo mine > f")
    place.ckpt("save", "-m", "later")
    one = place.ckpt("fork", "r1", "@t1", str(place.base / "x"))
    assert "forked r1 after its event" in one.out
    assert "r2 in" in one.out
    assert "pay(order=4)" in one.out
    assert (place.base / "x" / "f").read_text() == "1"
    at = ("-C", str(place.base / "x"))
    assert '"one"' in place.ckpt(*at, "log").out
    assert "every promise holds" in place.ckpt(*at, "verify").out
    place.ckpt(*at, "undo", "t1")
    assert not (place.base / "x" / "f").exists()
    two = place.ckpt("fork", "r1", "@later", str(place.base / "y"), "--json").json
    assert (two["parent"], two["since"], two["finished"]) == ("r1", [], False)
    assert (place.base / "y" / "f").read_text() == "mine\n"
    three = place.ckpt("fork", "r1", "@t2.2-", str(place.base / "z"), "--json").json
    assert [one["arguments"] for one in three["since"]] == [{"order": 4}]
    assert (place.base / "z" / "f").read_text() == "2"
    for words in (("@t9",), ("@later", "more"), ()):
        place.ckpt("fork", "r1", *words, *([str(place.base / "q")] if words == ("@t9",) else []), ok=2)
    assert place.ckpt("fork", "r1", str(place.base / "x"), "--json", ok=2).error["code"] == "usage"
    assert "is this fork already" in place.ckpt("fork", "r1", "@later", str(place.base / "y"), ok=1).err
    assert "for a person" in place.ckpt("fork", "r1", str(place.base / "q"), ok=3, env={"CKPT_RUN": "r1"}).err
    assert not (place.base / "q").exists()


def test_a_fork_that_is_killed_leaves_nothing_or_all(place: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None, raising=False)
    with opened() as run:
        run.user_message("one")
        asks(run, call("write", path="f", text="x" * 70_000), call("pay", order=1))
    found = home.find(os.fsencode(place.root), read_only=True)
    assert found is not None
    source = place.base / "source"
    (source / "in").mkdir(parents=True)

    def act(where: Path, check: Callable[[Any], None] | None = None) -> None:
        os.environ["CKPT_HOME"] = str(where / "state")
        done = forking.fork(found, log_of_store, os.fsencode(where / "in" / "b"))
        if check is not None:
            check(done)

    log_of_store = log_of(place)

    def whole(where: Path) -> None:
        os.environ["CKPT_HOME"] = str(where / "state")
        there = home.exactly(os.fsencode(where / "in" / "b"))
        if there is not None and (where / "in" / "b").exists():
            assert (where / "in" / "b" / "f").read_text() == "x" * 70_000
        else:
            assert not (where / "in" / "b").exists()
            act(where, lambda done: finished.append(done.finished == (there is not None)))
            assert finished[-1]
        assert os.listdir(where / "in") == ["b"]
        if len(finished) % 8 == 1:
            with opened(where / "in" / "b") as run:
                assert said(run)[-1] == {"paid": 1}
            assert len(sent) == 1

    finished: list[bool] = []
    assert killed_everywhere(source, act, whole) > 20
    assert len(finished) > 5
