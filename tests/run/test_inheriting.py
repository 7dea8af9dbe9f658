"""A run that continues others: their effects outside are its own, and nothing of them happens twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from driving import call, living_in
from harness.world import World

from checkpointer import Busy, NeedsPerson, open_run, tool
from checkpointer.errors import NoStore, Usage
from checkpointer.log import JsonlLog, catch_up

sent: list[tuple[int, str]] = []


@tool(effect="external", keys_kept=timedelta(hours=1), risk="high")
def pay(order: int, *, key: str) -> dict[str, int]:
    sent.append((order, key))
    if os.environ.get("BREAK"):
        raise OSError("connection lost")
    return {"paid": order}


@tool(effect="external", policy="person")
def mail(to: str) -> str:
    raise OSError("connection lost")


@tool(effect="read")
def look() -> str:
    return "seen"


@pytest.fixture
def place(world: World) -> Iterator[World]:
    sent.clear()
    with living_in(world):
        yield world


def opened(run: str, **more: Any) -> Any:
    return open_run(".", run_id=run, tools=[pay, mail, look], **more)


def asks(run: Any, *wanted: dict[str, Any]) -> list[Any]:
    return [run.call(one) for one in run.model_turn("go", list(wanted)).tool_calls]


def log_of(place: World, run: str) -> JsonlLog:
    return JsonlLog(str(place.store / "runs" / run))


def test_what_was_done_is_answered_and_what_is_new_is_done(place: World) -> None:
    with opened("a") as run:
        asks(run, call("pay", order=1), call("look"))
    with opened("b", inherits=["a"]) as run:
        first, second, _ = asks(run, call("pay", order=1), call("pay", order=2), call("look"))
        assert (first.result, first.replayed, first.status) == ({"paid": 1}, True, "completed")
        assert second.result == {"paid": 2}
        assert [m["content"] for m in run.context()[1:]] == [{"paid": 1}, {"paid": 2}, "seen"]
        again = run.model_turn("once more", [{**call("pay", order=1), "repeat": True}])
        assert run.call(again.tool_calls[0]).result == {"paid": 1}
    with opened("b", inherits=["a"]) as run:  # the same script is the resume
        assert run.context()[1]["content"] == {"paid": 1}
    with opened("c", inherits=["r2", "a"]) as run:  # also by its handle, and through another
        assert [one.replayed for one in asks(run, call("pay", order=2), call("pay", order=1))] == [True, True]
    assert [order for order, _ in sent] == [1, 2, 1]
    assert len({key for _, key in sent}) == 3
    began = catch_up(log_of(place, "c")).state
    assert began.operation == "a"
    assert {c.origin[0] for c in began.over.values() if c.origin} == {"a", "b"}


def test_what_is_unknown_there_is_unknown_here(place: World) -> None:
    with pytest.raises(NeedsPerson), opened("a") as run:
        asks(run, call("mail", to="them"))
    with pytest.raises(NeedsPerson, match="another run of this operation"), opened("b", inherits=["a"]) as run:
        pass
    item = next(i for i in place.ckpt("uncertain", "--json").json["uncertain"] if i["id"] == "b")
    assert item["about"] == "mail(to='them')"
    assert item["reason"] == "carried"
    (place.root / "said.json").write_text('"sent"')
    place.ckpt("settle", item["key"], "--happened", "said.json", ok=2)  # two runs have it: by its handle, or run by run
    place.ckpt("settle", "u1", "--happened", "said.json")
    place.ckpt("settle", item["key"][:12], "--happened", "said.json")
    (place.root / "said.json").unlink()
    with opened("b", inherits=["a"]) as run:
        assert asks(run, call("mail", to="them"))[0].result == "sent"


def test_one_that_its_owner_left_open_is_uncertain(place: World) -> None:
    child = os.fork()
    if child == 0:
        try:
            with opened("a") as run:
                from checkpointer.run.calling import Calling

                turn = run.model_turn("go", [call("pay", order=1)])
                Calling(run._desk).begin(turn.tool_calls[0], None)
        finally:
            os._exit(9)
    os.waitpid(child, 0)
    with pytest.raises(NeedsPerson), opened("b", inherits=["a"]):
        pass


def test_it_is_refused_where_it_cannot_be(place: World) -> None:
    with opened("a") as run:
        asks(run, call("pay", order=1))
        with pytest.raises(Busy), opened("b", inherits=["a"]):
            pass
    with opened("other") as run:
        asks(run, call("pay", order=1))
    with pytest.raises(Usage, match="different operations"), opened("b", inherits=["a", "other"]):
        pass
    with pytest.raises(NoStore), opened("b", inherits=["nowhere"]):
        pass
    place.ckpt("run", "--", "true")
    with pytest.raises(Usage, match="only watched"), opened("b", inherits=["r3"]):
        pass
    assert not Path(log_of(place, "b").directory).exists()
    with opened("b", inherits="a"):
        pass
    with pytest.raises(Usage, match="stays so"), opened("b", inherits=["other"]):
        pass
    with opened("b"):  # what it began with stands
        pass
