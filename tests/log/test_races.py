"""Processes that start at the same moment: one wins, nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from checkpointer.errors import Behind, Busy, CheckpointerError, Fenced
from checkpointer.log import JsonlLog, catch_up, claim, delegate
from checkpointer.testing.ground import contents, said
from checkpointer.testing.script import Script, begin
from checkpointer.testing.world import FixedWorld

ROUNDS = 300
RACERS = 3

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")


def _racer(n: int, root: str, start: Barrier, answers: Connection) -> None:
    """Each round: claim as somebody else, append if that worked; then append under the first epoch, which is over."""
    for round_ in range(ROUNDS):
        world = FixedWorld(1_000 * (n + 1) + round_)
        world.dead.add(100)
        log = JsonlLog(os.path.join(root, str(round_)))
        start.wait()
        try:
            pen = claim(log, begin(world), world=world)
            pen.append(said(f"{n} won"))
            answer = f"epoch {pen.epoch}"
        except CheckpointerError as e:
            answer = e.code
        answers.send(json.dumps([round_, answer]))
    os._exit(0)


@pytest.fixture
def fast() -> Iterator[Path]:
    """A directory where a sync costs nothing: who wins a race is not decided by the disk."""
    shm = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=shm) as directory:
        yield Path(directory)


def _race(target: object, root: Path) -> dict[int, list[str]]:
    fork = multiprocessing.get_context("fork")
    start = fork.Barrier(RACERS)
    found: dict[int, list[str]] = {n: [] for n in range(ROUNDS)}
    pipes, racers = [], []
    for n in range(RACERS):
        mine, theirs = fork.Pipe(duplex=False)
        racers.append(fork.Process(target=target, args=(n, str(root), start, theirs)))  # type: ignore[arg-type]
        pipes.append(mine)
        racers[-1].start()
        theirs.close()
    for pipe in pipes:
        for _ in range(ROUNDS):
            round_, answer = json.loads(pipe.recv())
            found[round_].append(answer)
    for racer in racers:
        racer.join(60)
        assert racer.exitcode == 0
    return found


def test_claims_have_one_winner(fast: Path) -> None:
    for round_ in range(ROUNDS):
        Script(JsonlLog(str(fast / str(round_))))
    found = _race(_racer, fast)
    for round_, answers in found.items():
        assert sorted(answers) == ["busy", "busy", "epoch 2"], (round_, answers)
        state = catch_up(JsonlLog(str(fast / str(round_)))).state
        assert (state.seq, state.epoch) == (3, 2)


def _appender(n: int, root: str, start: Barrier, answers: Connection) -> None:
    """Each round: hooks of one epoch append at once, while its end comes from one of them."""
    world = FixedWorld(1_000 * (n + 1))
    world.dead.add(100)
    for round_ in range(ROUNDS):
        log = JsonlLog(os.path.join(root, str(round_)))
        start.wait()
        try:
            pen = claim(log, begin(world), world=world) if n == 0 else delegate(log, 1, world=world)
            pen.append(said(f"{n}"))
            answer = "wrote"
        except (Fenced, Behind, Busy) as e:
            answer = e.code
        answers.send(json.dumps([round_, f"{n} {answer}"]))
    os._exit(0)


def test_nothing_is_written_under_an_epoch_that_is_over(fast: Path) -> None:
    for round_ in range(ROUNDS):
        script = Script(JsonlLog(str(fast / str(round_))))
        script.pen = delegate(script.log, 1, world=script.world)
    found = _race(_appender, fast)
    overtaken = 0
    for round_, answers in found.items():
        log = JsonlLog(str(fast / str(round_)))
        state = catch_up(log).state
        epochs = [r.event.epoch for r in log.read()]
        assert epochs == sorted(epochs)
        wrote = sorted(a.split()[0] for a in answers if a.endswith("wrote"))
        assert sorted(contents(log)) == wrote
        assert state.epoch == 2
        overtaken += sum(a.endswith("fenced") for a in answers)
    assert overtaken  # else there was no race


def test_a_forked_child_cannot_use_its_parents_pen(tmp_path: Path) -> None:
    script = Script(JsonlLog(str(tmp_path / "r1")))
    pid = os.fork()
    if pid == 0:
        try:
            script.user("from the child")
        except Fenced:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    script.user("from the parent")
    assert contents(script.log) == ["from the parent"]
