"""Forked workers find what one process finds, and leave nothing behind however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.captures import Place, same, standing
from harness.starting import stable

from checkpointer.errors import CaptureFailed
from checkpointer.lock import Lock
from checkpointer.workspace.reading import survey, workers
from checkpointer.workspace.reading.table import Table
from checkpointer.workspace.reading.workers import Crew


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    for i in range(600):
        place.write(f"d{i % 40}/e{i % 3}/f{i}", b"%d " % i * (i * 3))
    os.mkdir(place.root + b"/d1/empty")
    os.mkfifo(place.root + b"/d2/p")
    place.write("d3/.gitignore", b"*.log\n")
    place.write("d3/x.log", b"ignored")
    place.write("d4/private", b"p", 0o600)
    yield place
    place.close()


@pytest.fixture(autouse=True)
def _forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run in a process that has a thread for its own talk; forking beside that one is fine."""
    monkeypatch.setattr(survey, "alone", lambda: True)


before: set[int] = set()


@pytest.fixture(autouse=True)
def _known() -> None:
    """What other tests keep running is none of these."""
    before.clear()
    before.update(_children())


def _children() -> set[int]:
    found = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True).stdout.split()
    return {int(p) for p in found} - {stable.child} - before


def _temporary(place: Place) -> list[str]:
    return [n for n in os.listdir(place.keeping / "shadow.git" / "objects" / "pack") if n.endswith(".ckpt-tmp")]


def test_the_same_tree_by_any_number_of_processes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = place.look(jobs=1)
    for relayed in (1 << 20, 1000, 0):
        monkeypatch.setattr(workers, "RELAYED", relayed)
        for jobs in (2, 4):
            assert place.look(jobs=jobs).root == alone.root
    monkeypatch.setattr(workers, "RELAYED", 10_000)
    present = place.save(jobs=3)
    assert len([n for n in os.listdir(place.keeping / "shadow.git/objects/pack") if n.endswith(".pack")]) > 1
    assert present.root == alone.root
    assert present.files == alone.files
    assert present.tree.extras == alone.tree.extras
    expected = standing(place.root)
    del expected[b"d3/x.log"]
    same(present.tree, expected)
    time.sleep(0.15)
    place.write("d7/e1/f7", b"changed")
    (place.path / "d9/e0/f9").unlink()
    assert place.save(jobs=3).root == place.look(jobs=1).root
    time.sleep(0.15)
    place.save(jobs=3)
    assert place.save(jobs=3).bytes_read == 0
    assert not _children()


def test_progress_is_told(place: Place) -> None:
    for jobs in (1, 3):
        told: list[tuple[str, int, int | None, int]] = []
        present = place.look(jobs=jobs, progress=lambda *what, told=told: told.append(what))  # type: ignore[misc]
        assert told[-1] == ("capture", 602, 602, present.bytes_read)
        assert [t[1] for t in told] == sorted(t[1] for t in told)


@pytest.mark.parametrize("jobs", [1, 3])
def test_ctrl_c_leaves_nothing_behind(place: Place, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "RELAYED", 0)
    monkeypatch.setattr("checkpointer.workspace.reading.survey._EVERY_S", 0.0)
    monkeypatch.setattr("checkpointer.workspace.reading.survey._TICKS", 1)
    monkeypatch.setattr("checkpointer.workspace.odb.packwriter._HELD", 1 << 10)
    opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for at in (1, 5, 20, 60):
        calls = 0

        def interrupt(*what: object, at: int = at) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                os.kill(os.getpid(), signal.SIGINT)

        table = Table()
        with pytest.raises(KeyboardInterrupt):
            place.save(jobs=jobs, table=table, progress=interrupt)
        assert not _children()
        assert not _temporary(place)
        assert not table.records
        if opened:
            assert len(os.listdir("/proc/self/fd")) == opened
    assert place.store.tip() is None
    assert place.save(jobs=jobs).root == place.look(jobs=1).root


def test_a_worker_that_dies_fails_the_capture(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "RELAYED", 0)
    start = Crew.start

    def killed(self: Crew, work: object, cleanup: object) -> None:
        start(self, lambda following: os.kill(os.getpid(), signal.SIGKILL), cleanup)  # type: ignore[arg-type]

    monkeypatch.setattr(Crew, "start", killed)
    table = Table()
    with pytest.raises(CaptureFailed, match="worker"):
        place.save(jobs=2, table=table)
    assert not table.records
    assert not _children()
    assert place.store.tip() is None


def test_what_a_worker_raises_is_raised(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: workers.Relay, type: str, data: bytes) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(workers.Relay, "add", broken)
    with pytest.raises(CaptureFailed, match="Input/output error"):
        place.save(jobs=4)
    assert not _children()


def test_workers_end_with_their_parent(place: Place) -> None:
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from checkpointer.workspace.odb import packwriter\n"
        "from checkpointer.workspace.reading import survey, workers\n"
        "from checkpointer.workspace.reading.capture import capture\n"
        "from checkpointer.workspace.shadow.store import Store\n"
        "from checkpointer.workspace.reading.table import Table\n"
        "workers.RELAYED = 0; packwriter._HELD = 1 << 10; survey._TICKS = 1\n"
        "add = workers.Relay.add\n"
        "def slow(self, *a):\n"
        "    time.sleep(0.02)\n"
        "    return add(self, *a)\n"
        "workers.Relay.add = slow\n"
        "gather = workers.Crew.gather\n"
        "def ready(self, *a):\n"
        "    print(*[w.pid for w in self.workers], flush=True)\n"
        "    return gather(self, *a)\n"
        "workers.Crew.gather = ready\n"
        "workers.Crew.next_, n = workers.Crew.next, os.getpid()\n"
        "workers.Crew.next = lambda self: self.next_() if os.getpid() != n else None\n"
        "store = Store(Path(sys.argv[2]))\n"
        "capture(os.fsencode(sys.argv[1]), store_dir=b'/x', base=None, table=Table(), sink=store.writer(), jobs=3)\n"
    )
    command = [sys.executable, "-c", script, str(place.path), str(place.keeping / "shadow.git")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pids = [int(p) for p in process.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.3)
        process.kill()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(_alive(p) for p in pids):
        time.sleep(0.05)
    assert not [p for p in pids if _alive(p)]
    assert not [n for n in _temporary(place) if int(n.partition("-")[0]) in pids]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def test_no_lock_is_held_across_fork(place: Place, tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    lock.acquire("testing")
    child = os.fork()
    if child == 0:
        time.sleep(100)
        os._exit(0)
    try:
        lock.release()
        other = Lock(tmp_path / "lock")
        other.acquire("testing too", wait=50.0)
        other.release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_beside_other_threads_nothing_is_forked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise AssertionError("forked beside a thread")

    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        monkeypatch.setattr(survey, "alone", workers.alone)
        monkeypatch.setattr(os, "fork", fork)
        place.look(jobs=4)
    finally:
        stop.set()
        thread.join()
