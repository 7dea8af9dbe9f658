"""Calls of an agent that is only watched: settled as far as the files go, never run again, never put back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from crashing import living_in
from harness.world import World

from checkpointer import home, machine
from checkpointer.events import Effect, Holder, ModelTurn, RunStarted, ToolCallStarted, UserMessage
from checkpointer.log import JsonlRuns, claim
from checkpointer.recovery import Scene, Settled, queue, settle, word
from checkpointer.run.files import Files


@pytest.fixture
def here(world: World) -> Iterator[World]:
    world.write("a", "one\n")
    with living_in(world):
        yield world


class Watched:
    """An observed run whose agent began a call, changed `a` perhaps, and died."""

    def __init__(self, world: World, effect: Effect, *, writes: bool, goes_on: bool = False) -> None:
        self.workspace = home.make(os.fsencode(world.root))
        self.files = Files(self.workspace, "r1", "r1")
        self.files.base()
        self.runs = str(self.workspace.directory / "runs")
        self.log = JsonlRuns(self.runs).log("r1")
        gone = Holder(**{**machine.holder().model_dump(), "pid": 1, "started": "never"})
        pen = claim(self.log, RunStarted(run="r1", number=1, owner=gone, **self.files.verified()), shared=True)
        place: dict[str, Any] = {"context": "main", **self.files.verified()}
        pen.append(UserMessage(turn=1, content="go", **place))
        pen.append(
            ToolCallStarted(
                key="k" * 32, tool="Bash", effect=effect, turn=1, step=1, arguments={"command": "x"}, **place
            )
        )
        if writes:
            world.write("a", "two\n")
        if goes_on:
            pen.append(ModelTurn(content="done", arguments=(), **{**place, **self.files.now()}))

    def settle(self) -> list[Settled]:
        pen = claim(self.log, RunStarted(run="r1", owner=machine.holder()), shared=True)
        self.files.take_up(pen.state)
        return settle(Scene(pen, self.files))


def test_its_agent_went_on(here: World) -> None:
    one = Watched(here, "external", writes=True, goes_on=True)
    assert [s.verdict for s in one.settle()] == ["unreported"]
    assert queue.read(one.runs).opened == 0


@pytest.mark.parametrize("writes", [True, False])
def test_an_edit_is_settled_by_the_files(here: World, writes: bool) -> None:
    one = Watched(here, "workspace", writes=writes)
    assert [s.verdict for s in one.settle()] == ["complete"]
    assert here.read("a") == (b"two\n" if writes else b"one\n")
    assert queue.read(one.runs).items == []


def test_a_shell_is_for_a_person_who_cannot_have_it_run_again(here: World) -> None:
    one = Watched(here, "external", writes=True)
    assert [(s.verdict, s.differing) for s in one.settle()] == [("escalate", ("a",))]
    assert here.read("a") == b"two\n"
    item = queue.read(one.runs).items[0]
    assert item.observed
    with pytest.raises(Exception, match="only watched"):
        word.give(one.log, item.key, "retry anyway")


def test_a_read_is_nothing(here: World) -> None:
    one = Watched(here, "read", writes=False)
    assert [s.verdict for s in one.settle()] == ["unreported"]
