"""A secret that a checkpoint took in is told once, where a person looks, and stops nothing."""

from __future__ import annotations

from harness.world import World

TOKEN = "ghp_" + "a1" * 18


def test_each_path_is_told_once(world: World) -> None:
    world.write(".env", "DB_PASSWORD=correcthorse42\n")
    first = world.ckpt("save")
    assert "checkpoint 1 holds what looks like a secret: .env (value of a secret's name); ckpt purge .env" in first.err
    world.write(".env", f"T={TOKEN}\n")
    world.write("plain.py", "password = 'correcthorse42'\nsha = '9fceb02d0ae598e95dc970b74767f19372d61af8'\n")
    assert "secret" not in world.ckpt("save").err
    world.write("deploy.sh", f"curl -H 'x: {TOKEN}'\n")
    world.write("big", TOKEN + "x" * 70_000)
    told = world.ckpt("save")
    assert "deploy.sh (github token)" in told.err
    assert "big" not in told.err
    assert TOKEN not in told.text
    assert world.ckpt("save", "--json").json["created"] is False
    world.ckpt("purge", "deploy.sh", "--yes")


def test_what_an_agent_wrote_is_told_when_its_command_ends(world: World) -> None:
    world.ckpt("run", "--", "sh", "-c", "echo hello > a")
    told = world.ckpt("run", "--", "sh", "-c", f"echo {TOKEN} > key.txt")
    assert "key.txt (github token)" in told.err
    world.ckpt("config", "secrets.redact", "false")
    assert "secret" not in world.ckpt("run", "--", "sh", "-c", f"echo {TOKEN} > other.txt").err
