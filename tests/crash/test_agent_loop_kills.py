"""The example loop killed at every durable verb, send and receive, and at random; what was paid, its ledger says.

Within the suite a part of the points, always the same, but all of those around a payment; `CKPT_SLOW=1` takes all of
them for each receiver, and 200 random rounds.

* a receiver that knows keys, or that refuses earlier requests once it was asked: exactly one payment;
* one that does neither: one payment, or the call is listed as uncertain and there are none or one.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_loop import BOTH, KEYED, LOOKUP, PAUSED, PLAIN, Case, Ledger, Receiver, ledger

from checkpointer import Absent
from checkpointer.demo.ledger import entries

SLOW = bool(os.environ.get("CKPT_SLOW"))
DEAD = -9
LATE = ("--late", "0.4")
EXPIRES = timedelta(seconds=1)
SHORT = ("--keys-kept", str(EXPIRES.total_seconds()))
STEP = 1 if SLOW else 4
RENEWAL = 4
"""Points that a slow run passes more than a quick one: its lease is renewed meanwhile."""

orders = itertools.count(1)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory in memory, where there is one: what a killed process wrote survives it there too, and syncs are free.

    Every store that a test made there is sound when it has passed.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="ckpt-", dir=memory) as directory:
        yield Path(directory)
        for store in Path(directory).glob("**/state/workspaces/*/shadow.git"):
            sound(store)


def sound(store: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    words = ["git", "-c", "safe.directory=*", "-C", store, "fsck", "--strict", "--no-dangling", "--no-progress"]
    done = subprocess.run(words, env=environment, capture_output=True)
    assert done.returncode == 0, f"{store}: {done.stdout!r} {done.stderr!r}"


def worse(receiver: Receiver, *options: str, **terms: object) -> Receiver:
    return Receiver((*receiver.options, *options), {**receiver.terms, **terms})


RECEIVERS = {
    "keyed": KEYED,
    "keyed, late": worse(KEYED, *LATE),
    "keyed, errors are kept": worse(KEYED, "--errors"),
    "keys expire, then a lookup": worse(BOTH, *SHORT, keys_kept=EXPIRES),
    "lookup": LOOKUP,
    "lookup, late": worse(LOOKUP, *LATE),
}
UNSURE = {
    "plain": PLAIN,
    "plain, late": worse(PLAIN, *LATE),
    "keys expire": worse(KEYED, *SHORT, keys_kept=EXPIRES),
}


def around_payment(points: Sequence[str]) -> list[int]:
    """From the write before the call's start to the one after its completion."""
    writes = [n for n, name in enumerate(points) if name == "append events.jsonl"]
    first, last = points.index("before send"), len(points) - points[::-1].index("after read")
    return list(range([n for n in writes if n < first][-2], [n for n in writes if n > last][1] + 1))


def chosen(points: Sequence[str], *, all_of_it: bool) -> list[int]:
    window = around_payment(points)
    rest = range(0, len(points), STEP) if all_of_it or SLOW else ()
    return sorted({*window, *rest})


Check = Callable[[Case, int], None]


def once(case: Case, status: int) -> None:
    """Exactly one payment, and the run came to its end as if nothing had been."""
    assert status == 0
    assert len(case.server.of(case.order)) == 1
    case.came_to_its_end()


def once_or_listed(case: Case, status: int) -> None:
    payments = len(case.server.of(case.order))
    if status == 0:
        assert payments == 1
        case.came_to_its_end()
        return
    assert status == PAUSED
    assert payments in (0, 1)
    assert [call.tool for call in case.state().uncertain] == ["pay"]


def examine(
    base: Path, name: str, receiver: Receiver, check: Check, *, all_of_it: bool = False, only: str = ""
) -> list[Case]:
    """Kill at each chosen point, or at those of one name; resume; and look into the ledger once all that was sent has
    been carried out.
    """
    base.mkdir(exist_ok=True)
    ended: list[tuple[Case, int, str]] = []
    with ledger(base / "ledger", receiver) as server:
        whole = Case(base / "whole", server, receiver, next(orders))
        points = whole.points()
        whole.came_to_its_end()
        numbers = chosen(points, all_of_it=all_of_it)
        numbers = [n for n, point in enumerate(points) if point == only] if only else numbers
        cases = [(n, Case(base / str(n), server, receiver, next(orders))) for n in numbers]
        waits = SHORT[0] in receiver.options
        for n, case in cases:
            status = case.start(n)
            assert status == DEAD or (status == 0 and n >= len(points) - RENEWAL), f"{name}: not killed at {n}"
            if not waits:
                ended.append((case, case.start(), f"{n}, {points[n]}"))
        if waits:
            time.sleep(EXPIRES.total_seconds() * 1.1)
            ended = [(case, case.start(), f"{n}, {points[n]}") for n, case in cases]
    problems = []
    for case, status, where in ended:
        try:
            check(case, status)
        except AssertionError as e:
            problems.append(f"killed at {where}: {e}")
    assert not problems, f"{name}: {len(problems)} of {len(ended)}\n" + "\n".join(problems)
    return [case for case, _, _ in ended]


@pytest.mark.parametrize("name", RECEIVERS)
def test_a_kill_anywhere_and_one_payment(place: Path, name: str) -> None:
    cases = examine(place, name, RECEIVERS[name], once, all_of_it=name == "keyed")
    kinds = {kind for case in cases for kind in ("request", "error", "refusal") if case.server.of(case.order, kind)}
    sent = max(len(case.server.of(case.order, "request")) for case in cases)
    if name.startswith("keyed"):
        assert sent >= 2, "no request arrived twice: the kills did not come where they matter"
    if "errors" in name:
        assert "error" in kinds
    if name == "lookup, late":
        assert "refusal" in kinds, "nothing arrived after the lookup"


@pytest.mark.parametrize("name", UNSURE)
def test_a_kill_anywhere_and_a_receiver_that_cannot_tell(place: Path, name: str) -> None:
    cases = examine(place, name, UNSURE[name], once_or_listed)
    listed = [case for case in cases if case.state().uncertain]
    assert {len(case.server.of(case.order)) for case in listed} == {0, 1}, "both worlds look the same to the run"
    still(listed[0])


def still(case: Case) -> None:
    """An open question stays one, and `ckpt uncertain` lists it."""
    before = case.server.of(case.order)
    with ledger(Path(case.server.file), case.receiver) as again:
        case.server = again
        assert case.start() == PAUSED
    assert case.server.of(case.order) == before
    done = subprocess.run(
        [sys.executable, "-P", "-m", "checkpointer", "-C", str(case.root), "uncertain", "--json"],
        env={"PATH": os.environ["PATH"], "HOME": str(case.base), "CKPT_HOME": str(case.base / "state")},
        capture_output=True,
        check=True,
    )
    assert [one["tool"] for one in json.loads(done.stdout)["uncertain"]] == ["pay"]


def a_new_key_for_each_attempt() -> None:
    from checkpointer.state import Call

    Call.sent_key = property(lambda self: f"{self.key}/{self.attempt}")


def absent_is_a_failure() -> None:
    from checkpointer.recovery import policy

    found = policy._found

    def mutant(case: Any, finding: Any) -> Any:
        verdict = found(case, finding)
        return dataclasses.replace(verdict, verdict="retry") if isinstance(finding, Absent) else verdict

    policy._found = mutant


def an_open_call_never_happened() -> None:
    from checkpointer.recovery import policy

    policy._external = lambda case: policy.Judgement("append", "retry", "it was cut off, so it failed")


def not_found(arguments: object, key: str) -> Absent:
    """A reconciler that looks too early, and knows it."""
    return Absent()


LOOKS_EARLY = worse(LOOKUP, *LATE, reconcile=not_found)


@pytest.mark.parametrize(
    ("receiver", "mutate"),
    [
        pytest.param(worse(KEYED, "--ignore-keys"), None, id="a tool that is wrong about its receiver"),
        pytest.param(KEYED, a_new_key_for_each_attempt, id="a new key for each attempt"),
        pytest.param(LOOKS_EARLY, absent_is_a_failure, id="absent is a failure"),
        pytest.param(PLAIN, an_open_call_never_happened, id="an open call never happened"),
    ],
)
def test_a_double_is_seen(place: Path, receiver: Receiver, mutate: Callable[[], None] | None) -> None:
    """What would pay twice does so here, and these tests say it."""
    if mutate is not None:
        examine(place / "as it is", "as it is", receiver, once_or_listed, only="after send")
    broken = dataclasses.replace(receiver, mutate=mutate)
    with pytest.raises(AssertionError, match="killed at"):
        examine(place / "broken", "broken", broken, once_or_listed, only="after send")
    paid = Counter(one["order"] for one in entries(str(place / "broken" / "ledger"), "payment"))
    assert max(paid.values()) == 2, "it fails, but not by paying twice"


@pytest.mark.parametrize("seed", range(200 if SLOW else 6))
def test_random_kills_one_after_another(place: Path, seed: int) -> None:
    choose = random.Random(seed)
    name = choose.choice([*RECEIVERS, *UNSURE])
    receiver = {**RECEIVERS, **UNSURE}[name]
    said = []
    with ledger(place / "ledger", receiver) as server:
        case = Case(place / "case", server, receiver, next(orders))
        for _ in range(choose.randint(2, 5)):
            at = choose.choice([choose.randrange(170), choose.randrange(40)])  # a resume passes fewer
            said.append((at, case.start(at)))
            if SHORT[0] in receiver.options and choose.random() < 0.5:
                time.sleep(EXPIRES.total_seconds() * 1.1)
        assert {status for _, status in said} <= {DEAD, PAUSED, 0}, said
        status = case.start()
    (once if name in RECEIVERS else once_or_listed)(case, status)


def test_the_ledger_keeps_its_book(place: Path) -> None:
    """Killed and started again, it knows what it did, and each key."""
    first = Ledger(place / "ledger", ())
    case = Case(place / "one", first, BOTH, next(orders))
    at = case.points().index("after read")
    again = Case(place / "two", first, BOTH, next(orders))
    assert again.start(at) == DEAD
    first.process.kill()
    first.process.communicate()
    with ledger(place / "ledger", BOTH) as second:
        again.server = second
        assert again.start() == 0
    assert len(again.server.of(again.order, "request")) == 2
    once(again, 0)
    shutil.rmtree(case.base)
