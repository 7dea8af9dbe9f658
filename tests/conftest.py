"""Fixtures of all tests, and what must hold after each of them: every store that a test made is sound."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.machine import IS_ROOT, NOBODY
from harness.world import World, drop_world, make_world
from hypothesis import HealthCheck, settings

# How fast a machine is must not decide whether it passes, and the same examples are tried each time, so that nothing
# fails by chance. `CKPT_EXPLORE=1` looks for new ones.
_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("suite", deadline=None, suppress_health_check=_PATIENT, derandomize=True)
settings.register_profile("explore", deadline=None, suppress_health_check=_PATIENT, print_blob=True)
settings.load_profile("explore" if os.environ.get("CKPT_EXPLORE") else "suite")


def pytest_configure(config: pytest.Config) -> None:
    # What starts the tests in the background may have had signals ignored; children would inherit that.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    config.addinivalue_line("markers", "damages_store: breaks a store on purpose, so it is not checked afterwards")


def _ended_well(world: World) -> None:
    if not world.damaged:
        world.sound()


@pytest.fixture
def worlds() -> Iterator[Callable[..., World]]:
    """Makes further worlds; each is checked and dropped like `world`."""
    made: list[World] = []

    def make(**more: Any) -> World:
        made.append(make_world(**more))
        return made[-1]

    yield make
    try:
        for world in made:
            _ended_well(world)
    finally:
        for world in made:
            drop_world(world)


@pytest.fixture
def world(worlds: Callable[..., World]) -> World:
    """A workspace, a home and a store of its own."""
    return worlds()


@pytest.fixture
def nobody(worlds: Callable[..., World]) -> World:
    """The same, owned and driven by a user who is not root."""
    return worlds(uid=NOBODY) if IS_ROOT else worlds()


@pytest.fixture
def as_nobody() -> Callable[[Callable[[], Any]], None]:
    """Call a function in a forked child that is not root; fails the test when it raises.

    Whatever it needs to import must be imported, and its files given to the user 65534, before.
    """

    def call(function: Callable[[], Any]) -> None:
        child = os.fork()
        if child == 0:
            try:
                if IS_ROOT:
                    os.setgroups([])
                    os.setresgid(NOBODY, NOBODY, NOBODY)
                    os.setresuid(NOBODY, NOBODY, NOBODY)
                function()
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, "failed as a user who is not root (see stderr)"

    return call


def _stores_below(directory: Path) -> Iterator[str]:
    for where, directories, _ in os.walk(directory):
        if "objects" in directories and "refs" in directories:
            directories.clear()
            if os.path.exists(os.path.join(where, "refs", "heads", "timeline")):
                yield where


@pytest.fixture(autouse=True)
def stores_are_sound(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every store below the test's `tmp_path` passes git's strict check when the test has passed."""
    yield
    place = request.node.funcargs.get("tmp_path") if hasattr(request.node, "funcargs") else None
    if place is None or request.node.get_closest_marker("damages_store") is not None:
        return
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    for store in _stores_below(place):
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", store, "fsck", "--strict", "--no-dangling", "--no-progress"],
            env=environment,
            capture_output=True,
        )
        assert done.returncode == 0, f"{store}: {done.stdout!r} {done.stderr!r}"
