"""The tables hold: what may follow follows, and everything else is refused and changes nothing."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import get_args

import pytest

import checkpointer.state as module
from checkpointer import events as E
from checkpointer.errors import IllegalEvent
from checkpointer.state import CALL, EMPTY, RUN, CallStatus, RunState, apply, fold, version
from checkpointer.state.tables import AGAIN, RunStatus
from checkpointer.testing.script import Script, asked, payment

AT = {"context": "main", "unprotected": "a test"}


def run_in(status: str) -> RunState:
    script = Script()
    if status == "new":
        return EMPTY
    if status == "released":
        script.pen.append(E.RunReleased(how="ended"))
    if status == "finished":
        script.pen.append(E.RunFinished(outcome="done"))
    return script.pen.state


def next_of(state: RunState, event: E.AnyEvent, claims: bool) -> E.AnyEvent:
    return event.model_copy(update={"seq": state.seq + 1, "epoch": state.epoch + claims, "at": "z"})


@pytest.mark.parametrize(("status", "name"), list(itertools.product(get_args(RunStatus), sorted(E.TYPES))))
def test_every_type_in_every_state_of_a_run(status: RunStatus, name: str) -> None:
    from test_events import SAMPLES

    state = run_in(status)
    event = next_of(state, SAMPLES[name], name in ("run_started", "run_resumed"))
    if name == "run_resumed":
        after = "released" if status == "released" else "crash"
        event = event.model_copy(update={"after": after, "previous_epoch": state.epoch})
    named = {n for _, n in RUN}
    allowed = (status, name) in RUN or (name not in named and (status, "*") in RUN)
    if allowed and name not in needs_more():
        assert apply(state, event).seq == state.seq + 1
    else:
        with pytest.raises(IllegalEvent):
            apply(state, event)


def needs_more() -> set[str]:
    """Types that a fresh run refuses although its state is right: there is nothing they could be about."""
    calls = {"tool_call_completed", "tool_call_uncertain", "tool_call_reconciled"}
    return {*calls, "context_compacted"}


MOVES: dict[str, E.AnyEvent] = {
    "start": E.ToolCallStarted(**AT, key="pay-1", tool="pay", effect="external", arguments={}),
    "done": E.ToolCallCompleted(**AT, key="pay-1", result=1),
    "none": E.ToolCallCompleted(**AT, key="pay-1", result=1, effect="none"),
    "again": E.ToolCallCompleted(**AT, key="pay-1", result=1, effect="none", again=True),
    "partial": E.ToolCallCompleted(**AT, key="pay-1", result=1, effect="partial", source="person"),
    "uncertain": E.ToolCallUncertain(**AT, key="pay-1", reason="crash"),
    "deny": E.ApprovalDecided(**AT, key="pay-1", decision="denied", decided_by="policy"),
    "join": E.ModelTurn(**AT, content="x", calls=(payment(joined=True),)),
    "accept": E.ModelTurn(**AT, content="x", calls=(payment(),)),
    **{v: E.ToolCallReconciled(**AT, key="pay-1", verdict=v, rule="r") for v in get_args(E.Verdict)},
}


def call_in(status: str) -> Script:
    script = Script()
    if status == "new":
        return script
    script.model(payment())
    if status == "denied":
        script.decide("pay-1", "denied", "policy")
    elif status != "accepted":
        script.start("pay-1", "pay", "external")
    if status == "completed":
        script.done("pay-1")
    if status == "failed":
        script.done("pay-1", effect="none")
    if status in ("uncertain", "abandoned", "unreported"):
        script.uncertain("pay-1")
    if status in ("abandoned", "unreported"):
        script.reconciled("pay-1", {"abandoned": "abandon"}.get(status, status))
    call = script.pen.state.call("pay-1")
    assert call is not None
    assert call.status == status
    return script


@pytest.mark.parametrize(("status", "move"), list(itertools.product(("new", *get_args(CallStatus)), sorted(MOVES))))
def test_every_move_in_every_state_of_a_call(status: str, move: str) -> None:
    state = call_in(status).pen.state
    event = next_of(state, MOVES[move], False)
    if move == "join" and status in ("accepted", "open", "uncertain"):
        event = event.model_copy(update={"context": "sub"})  # the main one still waits
    call = state.call("pay-1")
    attempts = call.attempt if call else 0
    if move == "start" or move == "deny":
        attempts += 1
    if "attempt" in type(event).model_fields:
        event = event.model_copy(update={"attempt": attempts})
    before = hash(state)
    leads = CALL.get((status, move))
    if move == "deny" and status == "new":
        leads = None  # a policy may deny what is not known yet: that is no move of a call
        assert apply(state, event).approvals["pay-1"].status == "denied"
        return
    if leads is None:
        with pytest.raises(IllegalEvent):
            apply(state, event)
        assert hash(state) == before
        return
    after = apply(state, event).call("pay-1")
    assert after is not None
    assert after.status == leads
    assert hash(state) == before


KEEPS = {("external", "policy"), ("external", "person"), ("workspace", "policy")}
"""Whose word `retry` proves nothing of what was before: by the call's effect."""


@pytest.mark.parametrize(
    ("effect", "by"),
    list(itertools.product(("read", "workspace", "external"), ("policy", "person", "receiver", "tree", "late"))),
)
def test_a_retry_leaves_in_question_what_nothing_proved(effect: str, by: str) -> None:
    script = Script()
    script.model(asked("pay-1", tool="pay", effect=effect))
    script.start("pay-1", "pay", effect)
    script.uncertain("pay-1")
    script.reconciled("pay-1", "retry", by=by)
    state = script.pen.state
    assert state.call("pay-1").status == "accepted"  # type: ignore[union-attr]
    assert ("pay-1" in state.doubts) == ((effect, by) in KEEPS)
    assert bool(state.unsettled) == ((effect, by) in KEEPS)


@pytest.mark.parametrize("move", sorted(set(MOVES) - {"accept", "join", "start"}))
@pytest.mark.parametrize("in_question", [True, False])
def test_every_move_of_a_call_that_is_to_run_again(move: str, in_question: bool) -> None:
    script = call_in("uncertain")
    script.reconciled("pay-1", "retry", by="policy" if in_question else "receiver")
    state = script.pen.state
    event = next_of(state, MOVES[move], False).model_copy(update={"attempt": 1 + (move == "deny")})
    if move == "deny":
        event = event.model_copy(update={"earlier": True})
    leads = (AGAIN.get(move) if in_question else None) or CALL.get(("accepted", move))
    if leads is None:
        with pytest.raises(IllegalEvent):
            apply(state, event)
        return
    after = apply(state, event)
    call = after.call("pay-1")
    assert call is not None
    assert call.status == leads
    assert ("pay-1" in after.doubts) == (leads in ("accepted", "uncertain"))


def refused(script: Script, event: E.AnyEvent, why: str) -> None:
    head = script.log.head()
    with pytest.raises(IllegalEvent, match=why):
        script.put(event)
    assert script.log.head() == head


def start(**more: object) -> E.ToolCallStarted:
    return MOVES["start"].model_copy(update=more)  # type: ignore[return-value]


def test_attempts_are_counted_and_keys_change_only_after_proof() -> None:
    script = call_in("open")
    script.uncertain("pay-1")
    script.reconciled("pay-1", "retry")
    refused(script, start(attempt=1), "attempt 2")
    refused(script, start(attempt=3), "attempt 2")
    refused(script, start(attempt=2, generation=1), "generation 0")  # a timeout proves nothing
    refused(script, start(attempt=2, tool="other"), "attempt 2 of pay")
    script.put(start(attempt=2))
    script.done("pay-1", effect="none", again=True, attempt=2)
    refused(script, start(attempt=3), "generation 1")
    script.put(start(attempt=3, generation=1))
    call = script.pen.state.call("pay-1")
    assert call is not None
    assert call.sent_key == "pay-1/g1"


def test_a_completion_of_another_attempt_is_refused() -> None:
    script = call_in("open")
    script.uncertain("pay-1")
    script.reconciled("pay-1", "retry")
    script.put(start(attempt=2))
    refused(script, E.ToolCallCompleted(**AT, key="pay-1", result=1, attempt=1), "attempt 2, not 1")


def test_halfway_is_not_done() -> None:
    refused(call_in("open"), E.ToolCallCompleted(**AT, key="pay-1", result=1, effect="partial"), "halfway")
    refused(call_in("open"), E.ToolCallCompleted(**AT, key="pay-1", result=1, again=True), "proven failure")


def test_approval_is_of_one_attempt_and_its_arguments() -> None:
    script = call_in("accepted")
    script.ask("pay-1", args_digest="a")
    refused(script, start(), "not approved")
    refused(script, E.ApprovalRequested(**AT, key="pay-1", args_digest="b"), "asked about")
    decision = E.ApprovalDecided(**AT, key="pay-1", decision="approved", decided_by="person", args_digest="b")
    refused(script, decision, "not what was asked")
    script.decide("pay-1", args_digest="a")
    script.put(start())
    script.uncertain("pay-1")
    script.reconciled("pay-1", "retry")
    refused(script, start(attempt=2), "not approved")
    refused(script, decision.model_copy(update={"attempt": 2}), "nobody asked")
    script.ask("pay-1", attempt=2)
    script.decide("pay-1", attempt=2)
    script.put(start(attempt=2))


def test_a_slot_is_filled_once() -> None:
    script = Script()
    script.user(slot="task")
    refused(script, E.UserMessage(**AT, content="x", slot="task"), "filled by event 2")
    script.start("k", "note", slot="note")
    refused(script, start(slot="note"), "filled by event 3")
    refused(script, start(slot=E.TurnSlot(seq=2, index=0)), "no model turn")
    found = script.pen.state.filled("note")
    assert found is not None
    assert found.key == "k"
    assert script.pen.state.filled("task") is None


def test_occurrences_have_no_gaps_and_joins_are_said() -> None:
    script = Script()
    refused(script, E.ModelTurn(**AT, content="x", calls=(payment(joined=True),)), "joins none")
    refused(script, E.ModelTurn(**AT, content="x", calls=(payment(occurrence=2),)), "1 is next")
    script.model(payment())
    script.start("pay-1", "pay", "external")
    script.done("pay-1")
    refused(script, E.ModelTurn(**AT, content="x", calls=(payment(),)), "known already")
    refused(script, E.ModelTurn(**AT, content="x", calls=(payment("pay-2"),)), "2 is next")
    script.model(payment("pay-2", occurrence=2))


def test_every_slot_gets_one_answer() -> None:
    script = Script()
    script.model(payment(), payment(joined=True), asked("k2"))
    assert script.pen.state.accepted == ((2, 0), (2, 1), (2, 2))
    refused(script, E.ModelTurn(**AT, content="x"), "had no answer")
    script.start("pay-1", "pay", "external")
    script.done("pay-1")
    assert script.pen.state.accepted == ((2, 2),)
    script.decide("k2", "denied", "policy")
    assert script.pen.state.accepted == ()
    tools = [m for m in script.pen.state.context() if m.role == "tool"]
    assert [(m.slot, m.key, m.source) for m in tools] == [((2, 0), "pay-1", 4), ((2, 1), "pay-1", 4), ((2, 2), "k2", 5)]
    script.model(payment(joined=True))
    answer = script.pen.state.context()[-1]
    assert (answer.seq, answer.source, answer.slot) == (6, 4, (6, 0))
    for slot in ((2, 0), (2, 1), (6, 0)):
        call = script.pen.state.filled(slot)
        assert call is not None
        assert call.key == "pay-1"


def test_what_is_told_is_answered_once() -> None:
    script = call_in("uncertain")
    script.reconciled("pay-1", "tell")
    script.model(content="I see")
    script.done("pay-1", source="person")
    assert [m.role for m in script.pen.state.context()] == ["model", "tool", "model", "user"], "and its end, once"
    assert not script.pen.state.doubts


def test_a_run_does_not_end_over_an_open_call() -> None:
    for status in ("open", "uncertain"):
        refused(call_in(status), E.RunFinished(outcome="done"), "not over")
    call_in("accepted").pen.finish("done")


def test_cuts_that_split_a_call_are_refused() -> None:
    script = Script()
    script.user()
    script.model(asked("k1"))
    script.start("k1")
    compact = E.ContextCompacted(**AT, from_seq=2, to_seq=3, summarised=True)
    refused(script, compact, "no answer yet")
    refused(script, E.ContextRewound(**AT, to_seq=2), "no answer yet")
    script.done("k1")
    refused(script, compact, "without its answer")
    refused(script, compact.model_copy(update={"from_seq": 5, "to_seq": 5}), "without its call")
    refused(script, E.ContextRewound(**AT, to_seq=3), "without its call")
    refused(script, compact.model_copy(update={"from_seq": 5, "to_seq": 2}), "before it begins")
    refused(script, E.ContextRewound(**AT, to_seq=4), "no message 4")
    refused(script, E.ContextRewound(context="sub", unprotected="x", to_seq=3), "no message 3")
    before = script.pen.state
    script.put(compact.model_copy(update={"to_seq": 5}))
    script.put(E.ContextRewound(**AT, to_seq=0))
    after = script.pen.state
    kept = ("over", "live", "usage", "cost_micros", "signatures", "named", "trajectory", "model_turns", "doubts")
    assert all(getattr(before, name) == getattr(after, name) for name in kept)
    assert list(after.context()) == []


def test_only_the_next_event_of_this_epoch_follows() -> None:
    script = Script()
    state = script.pen.state
    event = next_of(state, E.UserMessage(**AT, content="x"), False)
    for bad in ({"seq": 1}, {"seq": 3}, {"epoch": 0}, {"epoch": 2}):
        with pytest.raises(IllegalEvent):
            apply(state, event.model_copy(update=bad))
    assert apply(state, event).seq == 2


def test_only_the_fold_makes_states() -> None:
    """`RunState` is built in one place, `Draft.freeze` (and brought back from a snapshot), called from `fold` alone."""
    makers, freezers = [], []
    for path in sorted(Path(module.__file__).parents[1].rglob("*.py")):
        for scope in ast.walk(ast.parse(path.read_text())):
            if not isinstance(scope, (ast.FunctionDef, ast.Module)):
                continue
            body = scope.body if isinstance(scope, ast.Module) else [scope]
            for node in itertools.chain.from_iterable(ast.walk(b) for b in body if not _is_nested(b, scope)):
                if isinstance(node, ast.Call):
                    text = ast.unparse(node)
                    name = getattr(scope, "name", "module")
                    if text.startswith(("RunState(", "object.__new__(RunState)")):
                        makers.append((path.name, name))
                    if text == "draft.freeze()":
                        freezers.append((path.name, name))
    assert sorted(set(makers)) == [("__init__.py", "module"), ("draft.py", "freeze"), ("snapshot.py", "restored")]
    assert sorted(set(freezers)) == [("__init__.py", "fold")]


def _is_nested(node: ast.AST, scope: ast.AST) -> bool:
    return isinstance(scope, ast.Module) and isinstance(node, (ast.FunctionDef, ast.ClassDef))


def test_states_cannot_change() -> None:
    state = call_in("open").pen.state
    with pytest.raises(AttributeError):
        state.seq = 9  # type: ignore[misc]
    for mapping in (state.live, state.messages, state.waiting, state.doubts, state.approvals):
        with pytest.raises(TypeError):
            mapping["x"] = 1  # type: ignore[index]
    hash(state)


def test_the_version_of_the_fold_is_computed() -> None:
    assert len(version()) == 16
    assert version() == version()
    assert fold(()) is not None
