"""The queue as programs read it, a word that goes through an inbox, and a note on what nobody has looked at yet."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from harness.world import World

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))
from driving import Loop, call

ITEM = {
    "handle", "about", "run", "id", "key", "tool", "arguments", "effect", "risk", "step", "attempt", "started", "since",
    "reason", "error", "rule", "by", "evidence", "tries", "word", "retry", "escalated", "told", "overdue",
}  # fmt: skip
QUEUE = {"schema", "opened", "reconciled", "escalated", "oldest_s", "overdue", "uncertain", "cut_off", "problems"}


def test_a_word_for_a_run_that_is_owned_goes_through_its_inbox(world: World) -> None:
    world.write("a", "one\n")
    script = [[call("pay", order=1, cents=2)], [call("look", path="../gate")]]
    loop = Loop(world, *script)
    tell = json.dumps({"on_uncertain": "tell"})
    loop.die("pay-after", OPEN=tell)
    assert "ended with 1 call open: ckpt resume r1" in world.ckpt("uncertain").err
    os.mkfifo(world.base / "gate")
    child = loop.popen(OPEN=tell)
    try:
        deadline = time.monotonic() + 30
        while not any(e == "tool_call_started" for e in loop.types()[5:]) and time.monotonic() < deadline:
            time.sleep(0.05)
        found = world.ckpt("uncertain", "--json").json
        assert found.keys() == QUEUE
        assert found["uncertain"][0].keys() == ITEM
        assert found["uncertain"][0]["told"] is True
        said = world.ckpt("settle", "u1", "--happened", "--json").json
        assert said["how"] == "posted"
        assert loop.state().uncertain
    finally:
        child.kill()
        child.communicate()
    world.rm("../gate")
    (world.base / "gate").write_text("open")
    loop.finish(OPEN=tell)
    assert not loop.state().uncertain
    assert len(loop.ledger("pay")) == 1
