"""Each check of the log is missed when it is gone: a mutant that skips it fails a test that the real one passes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from checkpointer.errors import Behind, CheckpointerError, Fenced
from checkpointer.lease import Lease, grant
from checkpointer.log import JsonlLog, Pen, Position, catch_up, claim, delegate
from checkpointer.log import pen as pen_module
from checkpointer.record import Encoded
from checkpointer.state import fold
from checkpointer.testing.ground import contents, said
from checkpointer.testing.script import Script, begin
from checkpointer.testing.world import FixedWorld


class NoEpochCheck(JsonlLog):
    """Writes behind whatever is there."""

    def _clear(self, fd: int, expected: Position, epoch: int) -> Position:
        return expected._replace(offset=os.fstat(fd).st_size)


class CheckOutsideTheLock(JsonlLog):
    """Looks, lets go, and then writes."""

    between: Callable[[], object] = staticmethod(lambda: None)

    def append(self, expected: Position, epoch: int, lines: Sequence[Encoded], **more: Any) -> Position:
        with self._held() as fd:
            super()._clear(fd, expected, epoch)
        self.between()
        return super().append(expected, epoch, lines, **more)

    def _clear(self, fd: int, expected: Position, epoch: int) -> Position:
        return expected._replace(offset=os.fstat(fd).st_size)


class TailCutOnlyAtClaim(JsonlLog):
    """Repairs when an epoch begins, and later writes behind what is torn."""

    def append(self, expected: Position, epoch: int, lines: Sequence[Encoded], **more: Any) -> Position:
        self.claims = more.get("lease") is not None
        return super().append(expected, epoch, lines, **more)

    def _clear(self, fd: int, expected: Position, epoch: int) -> Position:
        if self.claims:
            return super()._clear(fd, expected, epoch)
        return expected._replace(offset=os.fstat(fd).st_size)


class LeaseAsAuthority(JsonlLog):
    """Believes `lease.json`, not the log, about who owns the run."""

    def _clear(self, fd: int, expected: Position, epoch: int) -> Position:
        held = self.lease()
        if held is not None and held.epoch > epoch:
            raise Fenced("the lease says so")
        return expected._replace(offset=os.fstat(fd).st_size)


def a_fenced_owner_writes_nothing(log: JsonlLog) -> None:
    world = FixedWorld()
    old = claim(log, begin(world), world=world)
    world.dead.add(100)
    world.pid = 101
    claim(log, begin(world), world=world)
    before = Path(log.path).read_bytes()
    with pytest.raises(Fenced):
        old.append(said())
    assert Path(log.path).read_bytes() == before


def nobody_comes_between_check_and_write(log: JsonlLog) -> None:
    world = FixedWorld()
    claim(log, begin(world), shared=True, world=world)
    other = delegate(JsonlLog(log.directory), 1, world=world)
    log.between = lambda: other.append(said("in between"))  # type: ignore[attr-defined]
    pen = delegate(log, 1, world=world)
    with pytest.raises(Behind):
        log.append(*_one_line(pen))
    catch_up(log)


def _one_line(pen: Pen) -> tuple[Position, int, list[Encoded]]:
    placed, _ = pen._place([said()])
    if isinstance(pen.log, CheckOutsideTheLock):
        return pen.folded.position, 1, pen_module.seal(pen.log, placed, pen.folded.position.sum, pen._world)
    delegate(JsonlLog(pen.log.directory), 1, world=FixedWorld()).append(said("in between"))  # type: ignore[attr-defined]
    return pen.folded.position, 1, pen_module.seal(pen.log, placed, pen.folded.position.sum, pen._world)


def a_tail_torn_at_any_time_is_repaired(log: JsonlLog) -> None:
    script = Script(log)
    with open(log.path, "ab") as f:
        f.write(b'{"e":{"seq"')
    script.user("goes on")
    script.user("and on")
    assert contents(log) == ["goes on", "and on"]


def a_lost_lease_fences_nobody_the_less(log: JsonlLog) -> None:
    world = FixedWorld()
    old = claim(log, begin(world), world=world)
    world.dead.add(100)
    world.pid = 101
    claim(log, begin(world), world=world)
    for held in (None, grant(1, world.now(), 10**9)):
        if held is None:
            os.unlink(os.path.join(log.directory, "lease.json"))
        else:
            Path(log.directory, "lease.json").write_bytes(held.encode())
        before = Path(log.path).read_bytes()
        with pytest.raises(Fenced):
            old.append(said())
        assert Path(log.path).read_bytes() == before


Claim = Callable[[JsonlLog], None]
MUTANTS: list[tuple[type[JsonlLog], Claim]] = [
    (NoEpochCheck, a_fenced_owner_writes_nothing),
    (CheckOutsideTheLock, nobody_comes_between_check_and_write),
    (TailCutOnlyAtClaim, a_tail_torn_at_any_time_is_repaired),
    (LeaseAsAuthority, a_lost_lease_fences_nobody_the_less),
]


@pytest.mark.parametrize(("mutant", "holds"), MUTANTS, ids=[m.__name__ for m, _ in MUTANTS])
def test_the_real_log_holds_and_the_mutant_dies(mutant: type[JsonlLog], holds: Claim, tmp_path: Path) -> None:
    holds(JsonlLog(str(tmp_path / "real")))
    with pytest.raises((pytest.fail.Exception, AssertionError, CheckpointerError)):
        holds(mutant(str(tmp_path / "mutant")))


def test_the_fold_must_be_asked_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pen that does not ask leaves a log that nobody can read any more."""
    log = JsonlLog(str(tmp_path / "r1"))
    script = Script(log)
    with monkeypatch.context() as m:
        m.setattr(pen_module, "apply", lambda state, event: fold([], state))
        script.done("no such call")
    with pytest.raises(CheckpointerError, match="cannot follow"):
        catch_up(log)


def test_a_lease_cannot_be_forged_into_an_owner(tmp_path: Path) -> None:
    log = JsonlLog(str(tmp_path / "r1"))
    script = Script(log)
    Path(log.directory, "lease.json").write_bytes(Lease(99, "boot-1", 10**15, 10**15, 1).encode())
    script.user("still mine")
    script.world.dead.add(100)
    assert script.again().epoch == 2
