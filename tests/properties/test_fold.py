"""Prefixes, snapshots and replays of random runs: the same state, by every way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from checkpointer import events as E
from checkpointer.errors import Behind, Fenced, Finished, IllegalEvent
from checkpointer.log import JsonlLog, MemoryLog, Pen, catch_up, claim
from checkpointer.replay import Counters, replay, save
from checkpointer.snapshot import Snapshots
from checkpointer.state import EMPTY, RunState, apply, fold
from checkpointer.testing.script import Script, begin
from checkpointer.testing.world import FixedWorld

KEYS = ("k1", "k2", "k3", "k4")
keys = st.sampled_from(KEYS)
at = st.sampled_from(
    [
        {"context": "main", "unprotected": "a test"},
        {"context": "main", "commit": E.Commit(id="1" * 40, number=1, captured=True)},
        {"context": "sub", "commit": E.Commit(id="2" * 40, captured=False)},
    ]
)
small = st.integers(0, 3)


@st.composite
def any_event(draw: Any, state: RunState) -> E.AnyEvent:
    """An event that may be illegal, but often is not: its numbers are taken from the state."""
    where = draw(at)
    key = draw(keys)
    call = state.call(key)
    attempt = (call.attempt if call else 0) + draw(st.sampled_from([0, 0, 0, 1]))
    pick = draw(st.integers(0, 11))
    if pick == 0:
        slot = draw(st.sampled_from([None, None, "a", "b"]))
        return E.UserMessage(**where, content=draw(st.text(max_size=5)), slot=slot)
    if pick in (1, 2):
        asked = draw(st.lists(keys, max_size=2))
        calls = tuple(
            E.AcceptedCall(
                key=k,
                tool="t",
                effect="external",
                joined=state.call(k) is not None,
                signature=draw(st.sampled_from([None, "s"])),
                occurrence=draw(st.sampled_from([1, 1, 2])),
            )
            for k in asked
        )
        usage = E.Usage(input=draw(small), output=draw(small))
        return E.ModelTurn(**where, content="m", calls=calls, usage=usage, cost_micros=draw(small))
    if pick in (3, 4):
        generation = (call.generation if call else 0) + draw(st.sampled_from([0, 0, 1]))
        return E.ToolCallStarted(
            **where, key=key, tool="t", effect="external", attempt=attempt + 1, generation=generation, arguments={}
        )
    if pick in (5, 6):
        effect = draw(st.sampled_from(["done", "done", "none", "partial"]))
        source = draw(st.sampled_from(["tool", "person"]))
        again = draw(st.sampled_from([False, False, True]))
        return E.ToolCallCompleted(
            **where, key=key, attempt=attempt, effect=effect, source=source, again=again, result=None
        )
    if pick == 7:
        return E.ToolCallUncertain(**where, key=key, attempt=attempt, reason="crash")
    if pick == 8:
        verdict = draw(st.sampled_from(["retry", "complete", "wait", "escalate", "tell", "abandon", "unreported"]))
        return E.ToolCallReconciled(**where, key=key, attempt=attempt, verdict=verdict, rule="r")
    if pick == 9:
        decision = draw(st.sampled_from(["approved", "denied", "expired"]))
        if draw(st.booleans()):
            return E.ApprovalRequested(**where, key=key, attempt=attempt + 1)
        by = draw(st.sampled_from(["policy", "person"]))
        return E.ApprovalDecided(**where, key=key, attempt=attempt + 1, decision=decision, decided_by=by)
    seqs = [m.seq for m in state.context(where["context"])] or [1]
    if pick == 10:
        first, last = draw(st.sampled_from(seqs)), draw(st.sampled_from(seqs))
        return E.ContextCompacted(**where, from_seq=first, to_seq=last, summarised=draw(st.booleans()))
    return E.ContextRewound(**where, to_seq=draw(st.sampled_from([0, *seqs])))


@given(st.data())
@settings(max_examples=60)
def test_every_prefix_and_every_cut_come_to_the_same(data: st.DataObject) -> None:
    script = Script(MemoryLog("r1"))
    lived = [EMPTY, script.pen.state]
    for _ in range(data.draw(st.integers(0, 40))):
        before = script.pen.state
        try:
            script.put(data.draw(any_event(before)))
        except IllegalEvent:
            assert script.pen.state is before
            continue
        lived.append(script.pen.state)
    events = [r.event for r in script.log.read()]
    assert len(events) + 1 == len(lived)
    state = EMPTY
    for n, event in enumerate(events):
        assert state == lived[n]
        state = apply(state, event)
    assert state == lived[-1]
    cut = data.draw(st.integers(0, len(events)))
    assert fold(events[cut:], lived[cut]) == lived[-1]
    assert fold(events) == fold(events)
    _sound(state)


def _sound(state: RunState) -> None:
    """What no sequence of events may break."""
    live = {"accepted", "open", "uncertain"}
    assert all(c.status in live for c in state.live.values())
    assert all(c.status not in live for k, c in state.over.items() if k not in state.live)
    assert {c.key for c in state.uncertain} <= set(state.doubts) <= {c.key for c in state.unsettled}
    assert all(state.doubts[c.key].retry for c in state.unsettled if c.key in state.doubts and c.status != "uncertain")
    for waits in state.waiting.values():
        call = state.call(waits.key)
        assert call is not None
        assert call.status in live
    for context in state.messages:
        turns = [m.seq for m in state.context(context) if m.role == "model"]
        answered = [m.slot for m in state.context(context) if m.role == "tool"]
        assert len(answered) == len(set(answered))
        assert all(slot is not None and slot[0] in turns for slot in answered)


class LogMachine(RuleBasedStateMachine):
    """One run in a file, several owners one after the other, crashes with torn tails, snapshots anywhere."""

    directory: Path

    @initialize()
    def begin(self) -> None:
        count = len(list(self.directory.iterdir()))
        self.path = str(self.directory / str(count) / "r1")
        self.world = FixedWorld()
        self.pen: Pen | None = claim(JsonlLog(self.path), begin(self.world), world=self.world)
        self.fenced: list[Pen] = []
        self.epochs = [1]
        self.snapshots = Snapshots(str(Path(self.path) / "snapshots"))

    @precondition(lambda self: self.pen is not None)
    @rule(data=st.data(), size=st.sampled_from([1, 1, 1, 3]))
    def append(self, data: st.DataObject, size: int) -> None:
        assert self.pen is not None
        head = self.pen.log.head()
        events = [data.draw(any_event(self.pen.state)) for _ in range(size)]
        try:
            self.pen.append(*events)
        except IllegalEvent:
            assert self.pen.log.head() == head

    @precondition(lambda self: self.pen is not None)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """The owner dies, and what it was writing is there in part."""
        assert self.pen is not None
        torn = data.draw(st.sampled_from([b"", b"\0" * 100, b'{"e":{"seq":', b"\n\n", b"x\ny\n"]))
        if data.draw(st.booleans()):
            torn = Path(self.path, "events.jsonl").read_bytes()[-300:-1]
        with open(Path(self.path, "events.jsonl"), "ab") as f:
            f.write(torn)
        self.world.dead.add(self.world.pid)
        self.fenced.append(self.pen)
        self.pen = None

    @precondition(lambda self: self.pen is not None)
    @rule()
    def take_over(self) -> None:
        assert self.pen is not None
        self.world.pass_time(60_000)
        self._claim(take_over=True, old=self.pen)

    @precondition(lambda self: self.pen is not None)
    @rule()
    def release(self) -> None:
        assert self.pen is not None
        self.pen.release("paused")
        self.fenced.append(self.pen)
        self.pen = None

    @precondition(lambda self: self.pen is None)
    @rule()
    def resume(self) -> None:
        self._claim(take_over=False, old=None)

    def _claim(self, *, take_over: bool, old: Pen | None) -> None:
        self.world.pid += 1
        log = JsonlLog(self.path)
        known = replay(log, self.snapshots)
        self.pen = claim(log, begin(self.world), take_over=take_over, known=known, world=self.world)
        self.epochs.append(self.pen.epoch)
        if old is not None:
            self.fenced.append(old)

    @precondition(lambda self: len(self.fenced) > 0)
    @rule(which=st.integers(0, 9))
    def an_old_owner_wakes(self, which: int) -> None:
        old = self.fenced[which % len(self.fenced)]
        whole = Path(self.path, "events.jsonl").read_bytes()
        if self.pen is None:
            return  # nobody has claimed since: it may still write
        try:
            old.append(E.UserMessage(context="main", unprotected="x", content="I am back"))
        except (Fenced, Behind, Finished):
            assert Path(self.path, "events.jsonl").read_bytes() == whole
            return
        raise AssertionError("an old owner wrote")

    @rule()
    def snapshot(self) -> None:
        save(self.snapshots, catch_up(JsonlLog(self.path)))

    @rule(data=st.data())
    def spoil_a_snapshot(self, data: st.DataObject) -> None:
        seqs = self.snapshots.seqs()
        if seqs:
            path = Path(self.path, "snapshots", f"{data.draw(st.sampled_from(seqs))}.json")
            content = path.read_bytes()
            path.write_bytes(content[: data.draw(st.integers(0, max(0, len(content) - 1)))])

    @invariant()
    def one_truth(self) -> None:
        found = catch_up(JsonlLog(self.path))
        if self.pen is not None:
            assert self.pen.state == found.state
            assert self.pen.epoch == found.state.epoch
        counters = Counters()
        assert replay(JsonlLog(self.path), self.snapshots, counters) == found
        assert self.epochs == sorted(set(self.epochs))
        _sound(found.state)


def test_a_log_through_everything(tmp_path: Path) -> None:
    class Machine(LogMachine):
        directory = tmp_path

    run_state_machine_as_test(Machine, settings=settings(max_examples=25, stateful_step_count=30, deadline=None))
