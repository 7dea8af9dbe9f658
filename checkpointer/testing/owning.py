"""The contract, the other part: one owner at a time."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from checkpointer import record
from checkpointer.errors import Behind, Busy, Fenced, Finished
from checkpointer.events import ApprovalDecided, Durability, ToolCallCompleted
from checkpointer.lease import grant
from checkpointer.log import START, Pen, Writable, catch_up, claim, delegate
from checkpointer.log.pen import letter, open_letter
from checkpointer.testing.ground import Ground, another, contents, race, said
from checkpointer.testing.script import Script, asked, begin, payment
from checkpointer.testing.world import FixedWorld


class OwningContract(Ground):
    """Claims, fences, delegates, batches, letters, races."""

    # Owning

    def test_a_live_owner_is_not_disturbed(self, log: Writable, pen: Pen, world: FixedWorld) -> None:
        for take_over in (False, True):
            with pytest.raises(Busy):
                claim(log, begin(world), take_over=take_over, world=world)
        pen.append(said())

    def test_a_released_run_is_anybodys(self, log: Writable, pen: Pen, world: FixedWorld) -> None:
        pen.release("paused")
        other = claim(log, begin(world), world=world)
        assert (other.epoch, other.state.resumptions[0].after) == (2, "released")
        with pytest.raises(Fenced):
            pen.append(said())
        assert log.fenced() == 0  # it had let go itself

    def test_the_dead_are_replaced_at_once(self, log: Writable, pen: Pen, world: FixedWorld) -> None:
        world.dead.add(world.pid)
        other = claim(log, begin(world), world=world)
        assert other.state.resumptions[0].after == "crash"
        head = log.head()
        for refused in (1, 2):
            with pytest.raises(Fenced):
                pen.append(said())
            assert log.fenced() == refused
        assert log.head() == head
        other.append(said())

    def test_the_silent_are_replaced_on_demand(self, log: Writable, pen: Pen, world: FixedWorld) -> None:
        world.pass_time(31_000)
        with pytest.raises(Busy, match="not been heard of"):
            claim(log, begin(world), world=world)
        other = claim(log, begin(world), take_over=True, world=world)
        assert other.state.resumptions[0].after == "takeover"
        with pytest.raises(Fenced):
            pen.renew()
        lease = log.lease()
        assert lease is not None
        assert lease.epoch == 2

    def test_a_renewed_lease_holds(self, log: Writable, pen: Pen, world: FixedWorld) -> None:
        world.pass_time(29_000)
        pen.renew()
        world.pass_time(29_000)
        with pytest.raises(Busy):
            claim(log, begin(world), take_over=True, world=world)
        world.pass_time(2_000)
        pen.ensure()  # has passed: renews
        with pytest.raises(Busy):
            claim(log, begin(world), take_over=True, world=world)

    def test_a_lease_of_another_epoch_decides_nothing(self, log: Writable, pen: Pen, world: FixedWorld) -> None:
        """The hint may be old, or lost: the log says who owns the run."""
        world.dead.add(world.pid)
        world.pid = 101
        claim(log, begin(world), world=world)
        log.renew(log.head(), 2, grant(1, world.now(), 30_000))
        with pytest.raises(Busy):
            claim(log, begin(world), world=world)
        head = log.head()
        with pytest.raises(Fenced):
            pen.append(said())
        assert log.head() == head

    def test_a_fenced_completion_is_kept_as_evidence(self, log: Writable, world: FixedWorld) -> None:
        script = Script(log, world)
        script.model(asked("k1"))
        script.start("k1")
        old = script.pen
        world.dead.add(world.pid)
        script.again()
        with pytest.raises(Fenced):
            old.append(ToolCallCompleted(context="main", unprotected="x", key="k1", result="late"))
        ((event_id, line),) = log.letters("late")
        event = open_letter(line)
        assert (event.id, event.key, event.result) == (event_id, "k1", "late")  # type: ignore[union-attr]

    def test_finished_is_final(self, log: Writable, pen: Pen, world: FixedWorld) -> None:
        pen.finish("done")
        with pytest.raises(Finished):
            pen.append(said())
        with pytest.raises(Finished):
            claim(log, begin(world), world=world)
        with pytest.raises(Finished):
            delegate(log, 1, world=world)

    def test_an_exclusive_pen_that_is_behind_is_done_with(self, log: Writable, pen: Pen, world: FixedWorld) -> None:
        delegate(log, 1, world=world).append(said())
        for _ in range(2):
            with pytest.raises(Behind):
                pen.append(said("lost"))
        assert log.head().seq == 2

    def test_delegates_share_an_epoch(self, log: Writable, world: FixedWorld) -> None:
        owner = claim(log, begin(world), shared=True, world=world)
        hook, other = delegate(log, 1, world=world), delegate(log, 1, world=world)
        hook.append(said("1"))
        owner.append(said("2"))
        other.append(said("3"))
        hook.append(said("4"))
        assert contents(log) == ["1", "2", "3", "4"]
        owner.release("ended")
        hook.append(said("late"))
        claim(log, begin(world), world=world)
        for pen in (hook, owner):
            with pytest.raises(Fenced):
                pen.append(said())
        with pytest.raises(Fenced):
            delegate(log, 1, world=world)

    def test_a_shared_pen_decides_once(self, log: Writable, world: FixedWorld) -> None:
        """Two hooks report the same thing: the second sees the first."""
        claim(log, begin(world), shared=True, world=world)

        def report(state: Any) -> list[Any]:
            return [] if "once" in state.named else [said().model_copy(update={"slot": "once"})]

        hooks = [delegate(log, 1, world=world) for _ in range(3)]
        assert [len(hook.decide(report)) for hook in hooks] == [1, 0, 0]

    def test_finished_by_another_is_finished(self, log: Writable, world: FixedWorld) -> None:
        owner = claim(log, begin(world), shared=True, world=world)
        hook = delegate(log, 1, world=world)
        owner.finish("done")
        with pytest.raises(Finished):
            hook.append(said())

    # Batches

    def test_a_batch_is_one_write_and_ends_before_an_effect_outside(self, log: Writable, world: FixedWorld) -> None:
        batched = Durability(kind="batched", events=10, ms=1_000_000)
        script = Script(log, world, durability=batched)
        for n in range(3):
            script.user(str(n))
        assert log.head().seq == 1
        assert script.pen.state.seq == 4
        script.model(payment())
        script.start("pay-1", "pay", "external", signature="sig")
        assert log.head().seq == 6
        assert {(r.event.w, r.event.n) for r in log.read(START) if r.seq > 1} == {(2, 5)}
        script.done("pay-1")
        script.pen.flush()
        assert log.head().seq == 7
        for _ in range(10):
            script.user()
        assert log.head().seq == 17
        script.user()
        world.pass_time(2_000_000)
        script.user()
        assert log.head().seq == 19
        assert script.pen.state == catch_up(log).state

    # Letters

    def test_letters_are_collected_once(self, log: Writable, world: FixedWorld) -> None:
        script = Script(log, world)
        script.model(payment())
        script.ask("pay-1")
        event = ApprovalDecided(
            context="main", unprotected="x", key="pay-1", decision="approved", decided_by="person", id="a" * 32
        )
        log.post("inbox", "a" * 32, letter(event, world))
        log.post("inbox", "a" * 32, b"a second one under that name is not taken")
        assert script.pen.collect() == [("a" * 32, "appended")]
        assert script.pen.state.approvals["pay-1"].status == "approved"
        log.post("inbox", "a" * 32, letter(event, world))
        assert script.pen.collect() == [("a" * 32, "known")]
        log.post("inbox", "b" * 32, letter(event.model_copy(update={"id": "b" * 32}), world))
        log.post("inbox", "c" * 32, b"garbage")
        refused = dict(script.pen.collect())
        assert "not what was asked" in refused["b" * 32] or "asked about" in refused["b" * 32]
        assert log.letters("inbox") == []
        assert {name for name, _ in log.letters("late")} == {"b" * 32, "c" * 32}

    # Conditional append, by itself

    def test_append_is_conditional(self, log: Writable, pen: Pen, world: FixedWorld) -> None:
        place = log.head()
        pen.append(said())
        event = said().model_copy(update={"seq": 2, "w": 2, "id": "e" * 32, "at": world.at(), "epoch": 1})
        line = record.encode(event, place.sum, world.salt())
        with pytest.raises(Behind):
            log.append(place, 1, [line])
        with pytest.raises(Behind):
            log.append(place, 9, [line])
        world.dead.add(world.pid)
        claim(log, begin(world), world=world)
        with pytest.raises(Fenced):
            log.append(place, 1, [line])
        assert log.head().seq == 3

    def test_racing_claims_have_one_winner(self, log: Writable, pen: Pen, world: FixedWorld) -> None:
        pen.release("paused")
        results = race([partial(claim, log, begin(world), world=another(world, 200 + n)) for n in range(6)])
        winners = [r for r in results if isinstance(r, Pen)]
        assert len(winners) == 1
        assert all(isinstance(r, Busy) for r in results if r not in winners)
        assert [r.epoch for r in catch_up(log).state.resumptions] == [2]

    def test_racing_appends_leave_no_gap(self, log: Writable, world: FixedWorld) -> None:
        claim(log, begin(world), shared=True, world=world)

        def many(n: int) -> None:
            hook = delegate(log, 1, world=another(world, 300 + n))
            for i in range(10):
                hook.append(said(f"{n}.{i}"))

        results = race([partial(many, n) for n in range(4)])
        assert results == [None] * 4
        assert sorted(contents(log)) == sorted(f"{n}.{i}" for n in range(4) for i in range(10))
        assert catch_up(log).state.seq == 41
