"""What `status --json` tells an operator: open questions by risk, what is overdue by name, how runs changed hands."""

from __future__ import annotations

import pytest
from harness.world import World

from checkpointer.errors import Fenced
from checkpointer.events import Terms
from checkpointer.log import JsonlLog
from checkpointer.testing.script import Script, payment


def test_the_queue_by_risk_and_the_claims_of_all_runs(world: World) -> None:
    world.write("a", "1")
    world.ckpt("save")
    empty = world.ckpt("status", "--json").json
    assert empty["queue"] == {"open": {"high": 0, "normal": 0, "low": 0}, "oldest_s": {}, "overdue": []}
    assert [empty[name] for name in ("claims", "crashes", "takeovers", "fenced_appends")] == [0, 0, 0, 0]
    script = Script(JsonlLog(str(world.store / "runs" / "x")))
    script.model(payment(), payment("mail-1", tool="mail", risk="low", signature="other"))
    script.start("pay-1", "pay", "external", risk="high", terms=Terms(recovery_s=60))
    script.start("mail-1", "mail", "external", risk="low")
    script.uncertain("pay-1", number=1)
    script.uncertain("mail-1", number=2)
    first = script.pen
    script.world.pass_time(10**6)
    script.again(take_over=True)
    with pytest.raises(Fenced):
        first.renew()
    with pytest.raises(Fenced):
        first.append(script.user_event())
    finished = Script(JsonlLog(str(world.store / "runs" / "y")))
    finished.world.dead.add(finished.world.pid)
    finished.again().finish("done")
    found = world.ckpt("status", "--json").json
    assert found["queue"]["open"] == {"high": 1, "normal": 0, "low": 1}
    assert found["queue"]["oldest_s"].keys() == {"high", "low"}
    assert found["queue"]["oldest_s"]["high"] > 60
    (overdue,) = found["queue"]["overdue"]
    assert overdue.startswith("u1 pay(")
    assert [found[name] for name in ("claims", "crashes", "takeovers", "fenced_appends")] == [4, 1, 1, 1]
