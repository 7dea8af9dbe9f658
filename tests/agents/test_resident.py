"""The resident of `ckpt run`: the same answers as without it, and never in the way."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents.hooking import Player, Told, told, until
from agents.residing import Around, Neighbour, gone, linux, standing, waits
from harness.world import World

from checkpointer import errand
from checkpointer.__main__ import main

pytestmark = linux

NOT_SERVED = 98


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Around]:
    yield from standing(tmp_path_factory.mktemp("around"))


class Carried(Player):
    """Its hooks are clients of the resident at `path`: one that is not served fails, unless it may `alone`."""

    path: Path
    alone = False

    def _hook(self, one: Told, stdin: int, stdout: int, die_at: int | None, cwd: Path) -> int:
        os.environ.clear()
        os.environ.update({**self.world.env, **one.env, errand.VARIABLE: str(self.path)})
        os.chdir(cwd)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        sys.stdin = open(0)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        words = ["hook", one.agent, *([one.event] if one.event else []), *one.argv]
        if self.alone:
            return main(words)
        answer = errand.told(words)
        if answer is None:
            return NOT_SERVED
        os.write(1, answer[1])
        return answer[0]


@pytest.fixture
def world(tmp_path: Path, around: Around) -> World:
    """Here everybody is the same person."""
    return Neighbour(tmp_path, around.world)


@pytest.fixture
def carried(world: World, around: Around) -> Carried:
    player = Carried(world)
    player.path = around.path
    return player


def logged(world: World) -> list[str]:
    """A run's log, and what its hooks keep, without what differs each time."""
    found = []
    for path in sorted([*world.store.glob("runs/*/events.jsonl"), *world.store.glob("hooks/*/session.json")]):
        found += path.read_text().replace(str(world.root), "ROOT").splitlines()
    text = [re.sub(r"[0-9a-f]{32,}|\d{4}-\d\d-\d\dT[0-9:.]+Z", "X", line) for line in found]
    return [re.sub(r'"(salt|offset|started)": ?"?[^",]*"?', "", line) for line in text]


@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_the_same_log_and_the_same_answers(tmp_path_factory: pytest.TempPathFactory, around: Around, name: str) -> None:
    seen = []
    for kind in (Player, Carried):
        world = Neighbour(tmp_path_factory.mktemp("same"), around.world)
        player = kind(world)
        player.agent = 0
        player.path = around.path  # type: ignore[attr-defined]
        said: list[str] = []
        player.play(told(name, world.root), hook=lambda one, player=player, said=said: said.append(player.hook(one)))
        player.hook(Told(name, "BeforeAgent" if name == "gemini" else "UserPromptSubmit", {
            "session_id": "other", "cwd": str(world.root), "prompt": "ckpt undo",
            "hook_event_name": "BeforeAgent" if name == "gemini" else "UserPromptSubmit",
        }))  # fmt: skip
        files = {name: (node.kind, node.mode, node.content) for name, node in world.files().items()}
        seen.append((logged(world), [one.replace(str(world.root), "ROOT") for one in said], files))
    assert seen[0][0]
    assert seen[0] == seen[1]


def test_save_prints_and_ends_as_it_does_alone(around: Around) -> None:
    """In the workspace of the run, in any directory of it."""
    world = around.world
    outcomes = []
    for more in ({}, {errand.VARIABLE: str(around.path)}):
        before = around.worked
        for words in (["save", "--json"], ["save", "-m", "t3"], ["save", "-m", "name"]):
            result = world.ckpt(*words, cwd=world.root / "below", env=more, ok=None)
            outcomes.append((words, result.status, result.out, result.err))
        assert (around.worked > before) == bool(more)
    assert outcomes[:3] == outcomes[3:]


def test_the_client_is_light(world: World, around: Around) -> None:
    world.ckpt("save")
    script = (
        "import sys; had = set(sys.modules); from checkpointer.__main__ import main; status = main(sys.argv[1:]);"
        "print(status, *sorted(set(sys.modules) - had))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, "hook", "claude", "PreToolUse"],
        cwd=world.root,
        env={**world.env, errand.VARIABLE: str(around.path)},
        input=json.dumps({"session_id": "s", "cwd": str(world.root), "tool_name": "Bash", "tool_use_id": "c"}).encode(),
        capture_output=True,
        check=True,
    )
    status, *loaded = done.stdout.decode().split()
    ours = {"checkpointer", "checkpointer.__main__", "checkpointer.errand", "checkpointer.release"}
    assert status == "0"
    assert ours <= set(loaded) <= {*ours, "_socket", "__future__", "_io"}


def test_what_a_call_needs_is_loaded_before(world: World) -> None:
    script = (
        "import os, sys; from pathlib import Path; from checkpointer.cli import order, program, resident;"
        "terms = order.Terms.here(os.getcwdb(), Path('door'));"
        "resident.Resident(Path('nowhere'), 0, 0, terms).warm(); had = set(sys.modules);"
        "status = program.main(sys.argv[1:]); print(status, *sorted(set(sys.modules) - had))"
    )
    stdin = {"session_id": "s", "cwd": str(world.root), "prompt": "go", "hook_event_name": "UserPromptSubmit"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, "hook", "claude", "UserPromptSubmit"],
        cwd=world.root,
        env=world.env,
        input=json.dumps(stdin).encode(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().strip() == "0"


# -- in the way of nobody


def told_once(player: Player) -> str:
    """The id of the only call that is known."""
    calls = [call["id"] for call in player.session()["calls"].values()]
    assert len(calls) == 1, (calls, player.problems)
    return str(calls[0])


def begun(player: Player, around: Around) -> Held:
    """A session whose next hook waits."""
    player.say("claude", "UserPromptSubmit", session_id="s", cwd=str(player.world.root), prompt="go")
    waits(around, 0)
    return Held(player.world)


def report(world: World, call: str) -> Told:
    stdin = {"session_id": "s", "cwd": str(world.root), "tool_name": "Bash", "tool_input": {"command": call},
             "tool_use_id": call, "hook_event_name": "PreToolUse"}  # fmt: skip
    return Told("claude", "PreToolUse", stdin)


class Held:
    """The workspace lock, held: whoever works on the files waits."""

    def __init__(self, world: World) -> None:
        self.file = open(world.store / "lock", "r+")  # noqa: SIM115
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def release(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_UN)  # the clients are forks of ours, and have the file open too
        self.file.close()


def test_a_fork_that_dies_leaves_the_work_to_the_client(carried: Carried, around: Around) -> None:
    held = begun(carried, around)
    carried.alone = True
    pid, read = carried.spawn(report(carried.world, "c1"))
    (fork,) = waits(around, 1)
    fork.kill()
    with until("the client works itself") as done:
        while not done(gone(fork) and not around.forks):
            pass
    held.release()
    assert os.waitpid(pid, 0)[1] == 0
    os.close(read)
    assert told_once(carried) == "c1"


def test_a_client_that_is_killed_takes_its_fork_along(carried: Carried, around: Around) -> None:
    held = begun(carried, around)
    pid, read = carried.spawn(report(carried.world, "c1"))
    waits(around, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read)
    waits(around, 0)
    held.release()
    assert not carried.session()["calls"]
    carried.hook(report(carried.world, "c2"))
    assert told_once(carried) == "c2"


def test_clients_at_once(carried: Carried, around: Around) -> None:
    held = begun(carried, around)
    clients = [carried.spawn(report(carried.world, f"c{n}")) for n in range(3)]
    waits(around, 3)
    held.release()
    for pid, read in clients:
        assert os.waitpid(pid, 0)[1] == 0
        os.close(read)
    assert {call["id"] for call in carried.session()["calls"].values()} == {"c0", "c1", "c2"}


def test_a_resident_that_dies_is_missed_by_nobody(tmp_path: Path, carried: Carried, around: Around) -> None:
    """Who it was answering has an answer, who comes later works alone, and the next run sweeps what it left."""
    base = tmp_path / "dead"
    base.mkdir()
    dead = Around(Neighbour(base, around.world))
    carried.path, carried.alone = dead.path, True
    held = begun(carried, dead)
    pid, read = carried.spawn(report(carried.world, "c1"))
    (fork,) = waits(dead, 1)
    dead.process.kill()
    dead.end()
    assert not gone(fork)
    held.release()
    assert os.waitpid(pid, 0)[1] == 0
    os.close(read)
    assert told_once(carried) == "c1"
    assert dead.path.exists()
    carried.hook(report(carried.world, "c2"))
    assert len(carried.session()["calls"]) == 2
    again = Around(dead.world)
    assert not dead.path.exists()
    again.end()
