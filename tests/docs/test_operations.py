"""What docs/operations.md tells an operator to watch and to type is there."""

from __future__ import annotations

import re
from pathlib import Path

from harness.world import World

from checkpointer.cli.registry import COMMANDS
from checkpointer.config import KEYS
from checkpointer.run import telemetry

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()


def test_every_key_command_and_setting_is_one(world: World) -> None:
    world.write("a", "1")
    world.ckpt("save")
    table = PAGE.partition("## What to watch")[2].partition("\n\nWhat is counted")[0]
    watched = {key for row in table.splitlines() if row.startswith("| `") for key in re.findall(r"`(\w+)`", row[:80])}
    assert len(watched) > 8
    status = world.ckpt("status", "--json").json
    known = {**status, **status["queue"], **dict.fromkeys(("answered", "version"))}
    assert watched <= known.keys(), watched - known.keys()
    assert {"opened", "reconciled", "escalated", "oldest_s", "overdue"} <= world.ckpt("uncertain", "--json").json.keys()
    figures = {"asked", "approved", "denied", "denied_by_policy", "expired", "latency_s"}
    assert figures <= world.ckpt("approvals", "--json").json.keys()
    assert set(re.findall(r"`ckpt (?:-C DIR )?(\w+)", PAGE)) <= COMMANDS.keys()
    assert set(re.findall(r"`((?:gc|run|secrets)\.\w+)`", PAGE)) <= KEYS.keys()


def test_the_metrics_are_those_there_are() -> None:
    table = PAGE.partition("| metric |")[2].partition("\n\n")[0]
    named = {
        name
        for row in table.splitlines()
        for name in re.findall(r"`((?:ckpt|gen_ai)\.[\w.]+)`", row.partition(" | ")[0])
    }
    assert named == {*telemetry._COUNTERS, *telemetry._HISTOGRAMS, *telemetry._GAUGES}
