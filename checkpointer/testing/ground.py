"""What the parts of the contract share: a fresh log, a fixed world, races."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from checkpointer.events import UserMessage
from checkpointer.log import Pen, Runs, Writable, claim
from checkpointer.testing.script import begin
from checkpointer.testing.world import FixedWorld


def said(content: Any = "x") -> UserMessage:
    return UserMessage(context="main", unprotected="a test", content=content)


def contents(log: Writable) -> list[Any]:
    """What the user messages of a log say."""
    return [r.load(log.fetch).content for r in log.read() if r.event.type == "user_message"]  # type: ignore[union-attr]


def race(jobs: list[Callable[[], Any]]) -> list[Any]:
    results: list[Any] = [None] * len(jobs)
    gate = threading.Barrier(len(jobs))

    def run(n: int) -> None:
        gate.wait()
        try:
            results[n] = jobs[n]()
        except Exception as e:
            results[n] = e

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def another(world: FixedWorld, pid: int) -> FixedWorld:
    """The same world, seen by another process."""
    other = FixedWorld(pid, start_ms=world.ms)
    other.dead = world.dead
    return other


class Ground:
    """The fixtures. `runs` is an empty place for runs of the backend under test."""

    @pytest.fixture
    def runs(self) -> Runs:
        raise NotImplementedError

    @pytest.fixture
    def log(self, runs: Runs) -> Writable:
        return runs.log("r1")

    @pytest.fixture
    def world(self) -> FixedWorld:
        return FixedWorld()

    @pytest.fixture
    def pen(self, log: Writable, world: FixedWorld) -> Pen:
        return claim(log, begin(world), world=world)
