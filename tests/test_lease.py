"""Who may claim a run: only a proven death is evidence, and no clock makes one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer import lease, machine
from checkpointer.errors import Busy
from checkpointer.events import Holder
from checkpointer.lease import Lease, Now, Owner, Witness

ME = Holder(host="h", boot="b", namespace="n", pid=10, started="s")
OTHER = Holder(host="h", boot="b", namespace="n", pid=11, started="t")


@pytest.mark.parametrize(
    ("changed", "started", "expected"),
    [
        ({}, "t", "alive"),
        ({}, "", "dead"),
        ({}, "another", "dead"),  # the number was given to another process
        ({}, None, "unknown"),
        ({"started": ""}, "t", "unknown"),
        ({"boot": "b2"}, "t", "dead"),
        ({"boot": "b2"}, "", "dead"),
        ({"boot": ""}, "", "unknown"),
        ({"namespace": "n2"}, "", "unknown"),
        ({"host": "h2"}, "", "unknown"),
        ({"host": "h2", "boot": "b2"}, "", "unknown"),
        ({"boot": "b2", "namespace": "n2"}, "", "dead"),
    ],
)
def test_liveness(changed: dict[str, str], started: str | None, expected: str) -> None:
    assert lease.liveness(OTHER.model_copy(update=changed), ME, started) == expected


def test_a_machine_that_does_not_name_its_boot_proves_nothing() -> None:
    assert lease.liveness(OTHER, ME.model_copy(update={"boot": ""}), "") == "unknown"


def test_leases_are_of_an_epoch_and_a_boot() -> None:
    now = Now("b", 1_000, 500_000)
    held = lease.grant(3, now, 30_000)
    assert not lease.expired(held, 3, now)
    assert not lease.expired(held, 3, Now("b", 30_999, 0))
    assert lease.expired(held, 3, Now("b", 31_000, 0))
    assert lease.expired(held, 4, now)  # an old hint about a new owner
    assert lease.expired(held, 2, now)
    assert lease.expired(None, 3, now)
    other_boot = Now("b2", 5, 529_999)
    assert not lease.expired(held, 3, other_boot)
    assert lease.expired(held, 3, Now("b2", 5, 530_000))


def test_no_wall_clock_ends_a_lease_of_this_boot() -> None:
    held = lease.grant(3, Now("b", 1_000, 500_000), 30_000)
    for wall in (0, 10**15):
        assert not lease.expired(held, 3, Now("b", 1_001, wall))


@given(st.binary(max_size=80))
def test_damaged_leases_are_like_missing_ones(data: bytes) -> None:
    assert lease.decode(data) is None


@pytest.mark.parametrize("data", [b"null", b"{}", b'{"epoch":1}', b"[" * 9999, b"\0" * 50])
def test_other_json_is_no_lease(data: bytes) -> None:
    assert lease.decode(data) is None
    held = lease.grant(3, Now("b", 1_000, 500_000), 30_000)
    assert lease.decode(held.encode()) == held
    assert lease.decode(held.encode().replace(b"3", b'"3"', 1)) is None


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("liveness", ["alive", "dead", "unknown"])
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("take_over", [True, False])
def test_the_whole_table_of_claims(released: bool, liveness: lease.Liveness, late: bool, take_over: bool) -> None:
    owner = Owner(OTHER, 3, released)
    if released:
        expected = "released"
    elif liveness == "dead":
        expected = "crash"
    elif late and take_over:
        expected = "takeover"
    else:
        with pytest.raises(Busy) as e:
            lease.claim(owner, Witness(liveness, late), take_over=take_over)
        assert ("the same with --take-over" in e.value.next) == late
        assert e.value.exit == 4
        return
    assert lease.claim(owner, Witness(liveness, late), take_over=take_over) == expected


def test_this_process_is_alive_and_its_children_die() -> None:
    me = machine.holder()
    assert lease.liveness(me, me, machine.started(os.getpid())) == "alive"
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    holder = machine.holder(child.pid)
    assert lease.liveness(holder, me, machine.started(child.pid)) == "alive"
    os.kill(child.pid, signal.SIGSTOP)
    assert lease.liveness(holder, me, machine.started(child.pid)) == "alive"
    child.kill()
    deadline = time.monotonic() + 10
    while machine.started(child.pid) != machine.GONE and time.monotonic() < deadline:
        time.sleep(0.01)  # dying; then a zombie, which can do nothing any more
    assert lease.liveness(holder, me, machine.started(child.pid)) == "dead"
    child.wait()
    assert lease.liveness(holder, me, machine.started(child.pid)) == "dead"


def test_the_clocks() -> None:
    now = machine.World().now()
    assert now.boot == machine.boot() != ""
    assert 0 < now.monotonic_ms <= machine.monotonic_ms()
    at = machine.World().at()
    assert len(at) == 27
    assert at.endswith("Z")
    assert machine.file_system("/")
    assert isinstance(Lease(1, "b", 2, 3, 4).encode(), bytes)
