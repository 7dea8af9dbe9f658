"""Every row of the table of verdicts, and every refusal; and wrong policies, each of which a row must catch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from checkpointer.events import ABSENT, Terms, ToolCallCompleted
from checkpointer.recovery import policy
from checkpointer.recovery.case import Case, Files, Judgement
from checkpointer.recovery.policy import judge
from checkpointer.tools import Absent, Conflict, Match, Unknown

AT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
PERSON = Terms(policy="person")
KEYS = Terms(keys_kept_s=3600, offers=("keys",))
LOOKUP = Terms(offers=("reconcile",))
BOTH = Terms(keys_kept_s=3600, offers=("keys", "reconcile"))
BACK = Terms(offers=("reconcile", "compensate"))
LATE = ToolCallCompleted(key="k", id="letter", result={"paid": 1})
ASKED = {"order": 881, "cents": 4200}


def case(**facts: Any) -> Case:
    begun: dict[str, Any] = {"tool": "pay", "effect": "external", "key": "k", "first_at": AT, "at": AT, "owner": "dead"}
    return Case(**{**begun, "dead": True, "now": AT + timedelta(minutes=1), "arguments": ASKED, **facts})


def on_files(**facts: Any) -> Case:
    files = Files(True, False, differing=("a",), unexplained="somebody", start=3)
    return case(**{"tool": "write", "effect": "workspace", "files": files, **facts})


SAME = Files(True, True, start=3)
OURS = Files(True, False, differing=("a",), explained=True, start=3)

# name, case, act, verdict, by
ROWS: list[tuple[str, Case, str, str, str]] = [
    ("a read", case(effect="read"), "append", "retry", "policy"),
    ("a read whose owner may live", case(effect="read", owner="unknown"), "append", "retry", "policy"),
    ("files as at the start", on_files(files=SAME), "append", "retry", "tree"),
    ("files differ", on_files(), "append", "escalate", "policy"),
    ("files differ, kept", on_files(choice="keep"), "append", "complete", "person"),
    ("files differ, put back", on_files(choice="restore"), "put back", "retry", "person"),
    ("only it can have changed them", on_files(files=OURS), "put back", "retry", "tree"),
    ("only it can have, but a person is wanted", on_files(files=OURS, terms=PERSON), "append", "escalate", "policy"),
    ("start not captured", on_files(files=Files(False)), "append", "escalate", "policy"),
    ("start not captured, put back", on_files(files=Files(False), choice="restore"), "append", "escalate", "policy"),
    ("start not captured, kept", on_files(files=Files(False), choice="keep"), "append", "complete", "person"),
    ("files cannot be compared", on_files(files=Files(True, None, "torn")), "append", "wait", "policy"),
    ("its process runs", on_files(files=SAME, processes=(7,)), "append", "wait", "policy"),
    ("its process runs, kept", on_files(choice="keep", processes=(7,)), "append", "wait", "policy"),
    ("its process cannot be seen", on_files(files=SAME, processes=None), "append", "wait", "policy"),
    ("its owner lives", on_files(files=SAME, owner="alive"), "append", "wait", "policy"),
    ("its owner may live", on_files(files=SAME, owner="unknown"), "append", "wait", "policy"),
    ("its owner let go", on_files(files=SAME, owner="released"), "append", "retry", "tree"),
    ("key known", case(terms=KEYS), "append", "retry", "policy"),
    ("key known, a reconciler too", case(terms=BOTH), "append", "retry", "policy"),
    ("key at its margin", case(terms=KEYS, now=AT + HOUR - timedelta(minutes=5)), "append", "escalate", "policy"),
    ("key just before its margin", case(terms=KEYS, now=AT + HOUR - timedelta(minutes=6)), "append", "retry", "policy"),
    ("key expired", case(terms=KEYS, now=AT + HOUR), "append", "escalate", "policy"),
    ("key of a first attempt expired", case(terms=KEYS, at=AT + HOUR, now=AT + HOUR), "append", "escalate", "policy"),
    ("key expired, look up", case(terms=BOTH, now=AT + HOUR), "ask", "wait", "policy"),
    ("clock set back", case(terms=KEYS, now=AT - timedelta(seconds=1)), "append", "escalate", "policy"),
    ("clock set back since", case(terms=KEYS, clock=AT + timedelta(minutes=2)), "append", "escalate", "policy"),
    ("clock set back, look up", case(terms=BOTH, now=AT - HOUR), "ask", "wait", "policy"),
    ("key of unknown age", case(terms=KEYS, first_at=None), "append", "escalate", "policy"),
    ("key kept for nobody knows how long", case(terms=Terms(offers=("keys",))), "append", "escalate", "policy"),
    ("look up", case(terms=LOOKUP), "ask", "wait", "policy"),
    ("look up, no tool here", case(terms=LOOKUP, known=False), "append", "escalate", "policy"),
    ("match", case(terms=LOOKUP, finding=Match(ASKED), effect_fields=("order",)), "append", "complete", "receiver"),
    ("match of other cents", case(terms=LOOKUP, finding=Match({**ASKED, "cents": 1}), effect_fields=("order", "cents")),
     "append", "escalate", "receiver"),
    ("match without a field", case(terms=LOOKUP, finding=Match({}), effect_fields=("order",)),
     "append", "escalate", "receiver"),
    ("match, fields not declared", case(terms=LOOKUP, finding=Match({"order": 882})), "append", "escalate", "receiver"),
    ("match, arguments redacted", case(terms=LOOKUP, finding=Match(ASKED), arguments=ABSENT),
     "append", "escalate", "policy"),
    ("conflict", case(terms=LOOKUP, finding=Conflict({"order": 882})), "append", "escalate", "receiver"),
    ("absent for good", case(terms=LOOKUP, finding=Absent(True, "refused")), "append", "retry", "receiver"),
    ("absent for good, but why", case(terms=LOOKUP, finding=Absent(True)), "append", "wait", "receiver"),
    ("absent", case(terms=LOOKUP, finding=Absent()), "append", "wait", "receiver"),
    ("absent, with a reason", case(terms=LOOKUP, finding=Absent(False, "not there")), "append", "wait", "receiver"),
    ("unknown", case(terms=LOOKUP, finding=Unknown("503")), "append", "wait", "receiver"),
    ("taken back", case(terms=BACK, finding=Unknown("503")), "compensate", "wait", "policy"),
    ("not taken back when found", case(terms=BACK, finding=Match(ASKED)), "append", "complete", "receiver"),
    ("not taken back on a conflict", case(terms=BACK, finding=Conflict()), "append", "escalate", "receiver"),
    ("was taken back", case(terms=Terms(offers=("compensate",)), compensated="done"), "append", "complete", "policy"),
    ("was taken back after a look", case(terms=BACK, finding=Unknown("503"), compensated="done"),
     "append", "complete", "policy"),
    ("could not be taken back after a look", case(terms=BACK, finding=Unknown("503"), compensated="503"),
     "append", "escalate", "policy"),
    ("could not be taken back", case(terms=Terms(offers=("compensate",)), compensated="503"),
     "append", "escalate", "policy"),
    ("a compensation itself", case(terms=KEYS, compensates="k0"), "append", "escalate", "policy"),
    ("nothing declared", case(), "append", "escalate", "policy"),
    ("a person is wanted", case(terms=PERSON.model_copy(update={"offers": ("keys",), "keys_kept_s": 3600})),
     "append", "escalate", "policy"),
    ("a late answer", case(terms=PERSON, late=LATE), "append", "complete", "late"),
    ("a late answer on files", on_files(late=LATE, owner="alive"), "append", "complete", "late"),
    ("carried from another run", case(terms=KEYS, carried=("r1", 9)), "append", "escalate", "policy"),
    ("watched, went on", case(observed=True, went_on=True), "append", "unreported", "policy"),
    ("watched read", case(observed=True, effect="read"), "append", "unreported", "policy"),
    ("watched edit of nothing", on_files(observed=True, files=SAME), "append", "complete", "tree"),
    ("watched edit", on_files(observed=True), "append", "complete", "tree"),
    ("watched edit, nobody else can have", on_files(observed=True, files=OURS), "append", "complete", "tree"),
    ("watched edit, put back", on_files(observed=True, choice="restore"), "append", "complete", "tree"),
    ("watched edit, start not captured", on_files(observed=True, files=Files(False)), "append", "escalate", "policy"),
    ("watched shell", on_files(observed=True, effect="external", terms=KEYS), "append", "escalate", "policy"),
    ("calls of its own are open", case(terms=KEYS, children=("c",)), "append", "wait", "policy"),
]  # fmt: skip


@pytest.mark.parametrize(("known", "act", "verdict", "by"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_row(known: Case, act: str, verdict: str, by: str) -> None:
    found = judge(known)
    assert (found.act, found.verdict, found.by) == (act, verdict, by)
    assert found.rule


DEADLINE = Terms(offers=("reconcile",), deadline_s=600)


@pytest.mark.parametrize(
    ("facts", "final"),
    [
        ({"now": AT + timedelta(seconds=600)}, True),
        ({"now": AT + timedelta(seconds=599)}, False),
        ({"now": AT + HOUR, "dead": False}, False),
        ({"now": AT + HOUR, "processes": (7,)}, False),
        ({"now": AT + HOUR, "processes": None}, False),
        ({"now": AT + HOUR, "terms": LOOKUP}, False),
        ({"now": AT + HOUR, "clock": AT + 2 * HOUR}, False),
        ({"now": AT + HOUR, "finding": Absent(False)}, False),
    ],
)
def test_absence_is_final_after_an_enforced_deadline_of_the_dead(facts: dict[str, Any], final: bool) -> None:
    found = judge(case(**{"terms": DEADLINE, "finding": Absent(True), **facts}))
    assert found.verdict == ("retry" if final else "wait")


def test_a_person_is_told_what_there_is_and_never_asked_to_try_again() -> None:
    found = judge(case(error={"error": "connection lost"}))
    assert found.evidence["asked"] == ASKED
    assert found.evidence["key"] == "k"
    assert found.evidence["started"] == "2026-12-01T12:00:00.000000Z"
    assert found.evidence["last_error"] == {"error": "connection lost"}
    assert "twice" in found.evidence["warning"]


def test_a_conflict_shows_both_payloads() -> None:
    found = judge(case(terms=LOOKUP, finding=Conflict({"order": 882})))
    assert found.evidence["asked"] == ASKED
    assert found.evidence["fields"] == {"order": 882}


def test_a_compensation_says_what_it_leaves() -> None:
    found = judge(case(terms=Terms(offers=("compensate",)), compensated="done"))
    assert (found.effect, found.failed) == ("partial", True)
    assert "exposure" in found.evidence


def test_one_is_not_true() -> None:
    found = judge(case(terms=LOOKUP, arguments={"n": 1}, finding=Match({"n": True}), effect_fields=("n",)))
    assert found.verdict == "escalate"


# -- wrong policies

Policy = Callable[[Case], Judgement]


def _timeout_is_failed(known: Case) -> Judgement:
    found = judge(known)
    return replace(found, verdict="complete", effect="none") if found.verdict == "escalate" else found


def _absent_is_retry(known: Case) -> Judgement:
    return (
        judge(replace(known, finding=Absent(True, "not found"))) if isinstance(known.finding, Absent) else judge(known)
    )


def _old_keys(known: Case) -> Judgement:
    kept, policy.key_problem = policy.key_problem, lambda case: ""
    try:
        return judge(known)
    finally:
        policy.key_problem = kept


def _no_margin(known: Case) -> Judgement:
    kept, policy.MARGIN = policy.MARGIN, timedelta()  # type: ignore[misc]
    try:
        return judge(known)
    finally:
        policy.MARGIN = kept  # type: ignore[misc]


def _anybody_is_dead(known: Case) -> Judgement:
    return judge(replace(known, owner="dead", processes=()))


def _every_difference_is_its_own(known: Case) -> Judgement:
    return judge(replace(known, files=replace(known.files, explained=True)) if known.files else known)


def _fields_are_not_compared(known: Case) -> Judgement:
    return judge(replace(known, effect_fields=(), finding=Match()) if isinstance(known.finding, Match) else known)


MUTANTS: list[Policy] = [
    _timeout_is_failed,
    _absent_is_retry,
    _old_keys,
    _no_margin,
    _anybody_is_dead,
    _every_difference_is_its_own,
    _fields_are_not_compared,
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_policy_is_caught(mutant: Policy) -> None:
    wrong = [name for name, known, *said in ROWS if _said(mutant(known)) != said]
    assert wrong, "no row tells it from the right one"


def _said(found: Judgement) -> list[str]:
    return [found.act, found.verdict, found.by]
