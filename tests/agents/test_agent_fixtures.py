"""Every recorded payload through the real hook: in order, twice, all at once, with a hole, and killed in between."""

from __future__ import annotations

import os
import random
import signal

import pytest
from agents.hooking import AGENTS, Player, Told, told
from harness.manifest import same
from harness.world import World

CAPTURED = ["codex", "gemini", "copilot", "opencode"]


@pytest.fixture
def player(world: World) -> Player:
    return Player(world)


def undone(player: Player, *flags: str, redo: bool = False) -> None:
    """Everything that the agent did is taken back, to the byte; with `redo` brought back again."""
    world = player.world
    now = world.files()
    turns = 0
    while world.files().differing(player.start) and turns < 8:
        world.ckpt("undo", "-q", *flags)
        turns += 1
    same(player.start, world.files())
    for _ in range(turns if redo else 0):
        world.ckpt("redo", "-q", *flags)
    if redo:
        same(now, world.files())


def changing(player: Player) -> list[dict[str, object]]:
    """The rows of the log that changed files: an agent without ids begins an empty turn when it repeats a prompt."""
    rows = player.world.ckpt("log", "--json").lines
    return [row for row in rows if row["added"] or row["modified"] or row["removed"]]


@pytest.mark.parametrize("name", AGENTS)
def test_in_order_then_again(player: Player, name: str) -> None:
    """What is reported twice adds nothing, whatever it is."""
    reports = told(name, player.world.root)
    player.play(reports)
    assert "NOT PROTECTED" not in player.problems
    before = player.world.files()
    assert before.differing(player.start), "the fixture changes files"
    turns = changing(player)
    checkpoints = player.world.ckpt("log", "--checkpoints", "--json").lines
    for one in reports:
        player.hook(one)
    assert len(player.world.ckpt("log", "--checkpoints", "--json").lines) == len(checkpoints)
    assert changing(player) == turns
    # The sessions of `codex-edge` never end, so they seem to be at work together.
    undone(player, *(["--force"] if name == "codex-edge" else []), redo=name in CAPTURED)


@pytest.mark.parametrize("name", ["codex-edge", "copilot"])
def test_at_the_same_time(player: Player, name: str) -> None:
    """All hooks of a session at once, in any order: none fails, each call is known once, the store is whole."""
    reports = told(name, player.world.root)
    random.Random(name).shuffle(reports)
    for one in reports:
        player.act(one.stdin)
    running = [player.spawn(one) for one in reports]
    for pid, read in running:
        with open(read, "rb") as f:
            f.read()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    player.world.ckpt("verify")
    keys = [e["key"] for path in player.world.store.glob("runs/*/events.jsonl") for e in _events(path)
            if e["type"] == "tool_call_started"]  # fmt: skip
    assert len(keys) == len(set(keys))


def _events(path: os.PathLike[str]) -> list[dict[str, object]]:
    import json

    with open(path) as f:
        return [json.loads(line)["e"] for line in f]


@pytest.mark.parametrize("name", CAPTURED)
def test_with_the_middle_missing(player: Player, name: str) -> None:
    """Half of the reports never come: the turn's work can still be taken back, all of it."""
    reports = told(name, player.world.root)
    third = len(reports) // 3
    missing = set(range(third, 2 * third))
    sent = [n for n in range(len(reports)) if n not in missing]

    def hook(one: Told) -> None:
        if reports.index(one) in sent:
            player.hook(one)

    player.play(reports, hook=hook)
    undone(player)


@pytest.mark.parametrize("name", ["codex"])
def test_killed_at_any_moment(player: Player, name: str) -> None:
    """Each hook is killed once, anywhere, and not repeated: the next goes on, nothing is lost, the store is whole."""
    chance = random.Random(name)
    reports = told(name, player.world.root)

    def hook(one: Told) -> None:
        player.hook(one, die_at=chance.randrange(25))

    player.play(reports, hook=hook)
    player.say("codex", "UserPromptSubmit", session_id="after", cwd=str(player.world.root), prompt="and now")
    player.world.ckpt("verify")
    tip = player.world.ckpt("log", "--checkpoints", "--json").lines[0]
    player.world.ckpt("restore", str(tip["checkpoint"]), ok=1)  # nothing differs: the newest checkpoint has it all


def test_killed_from_outside(player: Player) -> None:
    """SIGKILL at a real moment of a real capture, again and again."""
    chance = random.Random(7)
    root = player.world.root
    player.say("claude", "SessionStart", session_id="s", cwd=str(root), source="startup")
    for n in range(12):
        (root / f"file{n}").write_bytes(os.urandom(40_000))
        pid, read = player.spawn(
            Told("claude", "PostToolUse", {"session_id": "s", "cwd": str(root), "tool_name": "Bash",
                 "tool_input": {"command": f"make {n}"}, "tool_use_id": f"call{n}"})
        )  # fmt: skip
        if n % 3:
            os.set_blocking(read, False)
            signal.sigtimedwait([], chance.random() * 0.05) if hasattr(signal, "sigtimedwait") else None
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read)
    player.say("claude", "Stop", session_id="s", cwd=str(root))
    player.world.ckpt("verify")
    undone(player)
