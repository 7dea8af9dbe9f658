"""A `ckpt run` that does nothing, with its resident, and whoever asks that for something."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from agents.hooking import until
from harness.world import World

from checkpointer import errand
from checkpointer.places import store_name

linux = pytest.mark.skipif(sys.platform != "linux", reason="there is a resident on Linux alone")
KEEPS = ["run", "--", "sh", "-c", 'echo "$CKPT_RESIDENT"; exec cat']


class Around:
    """The run; `path` is the socket."""

    def __init__(self, world: World) -> None:
        world.write("a", "a\n")
        world.write("below/b", "b\n")
        words, env = world.words(KEEPS, None)
        self.run = subprocess.Popen(
            words, cwd=world.root, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.run.stdout is not None
        self.path = Path(self.run.stdout.readline().decode().strip())
        self.world = world
        self.process = next(p for p in psutil.Process(self.run.pid).children() if p.name() != "cat")
        with until("it listens") as done:
            while not done(self.path.exists()):
                pass

    def end(self) -> None:
        """Kill all of it but the resident, which is in no group with it."""
        os.killpg(self.run.pid, signal.SIGKILL)
        self.run.communicate()

    @property
    def worked(self) -> float:
        """Seconds of work of all forks so far, once they are over."""
        with until("no fork is left") as done:
            while not done(not self.process.children()):
                pass
        times = self.process.cpu_times()
        return float(times.children_user + times.children_system)

    @property
    def forks(self) -> list[psutil.Process]:
        return [p for p in self.process.children() if not gone(p)]


def standing(base: Path) -> Iterator[Around]:
    """A run while a module is tested, in a workspace of its own, whose store lies so deep that the socket's path is too
    long for a socket.
    """
    found = Around(World(base, state=base / ("deep" * 25)))
    assert len(str(found.path)) > 108
    with until("it has loaded what it needs") as done:
        while not done(Asking(found).taken()):
            pass
    yield found
    found.end()
    with until("the resident ends with its run") as done:
        while not done(gone(found.process) and not found.path.exists()):
            pass


class Neighbour(World):
    """Another workspace of the same person: the same home, configuration and place for stores. The ids that tests give
    to sessions are known to nobody any more.
    """

    def __init__(self, base: Path, other: World) -> None:
        super().__init__(base, state=other.state)
        self.home = other.home
        self.env = dict(other.env)
        shutil.rmtree(self.state / "sessions", ignore_errors=True)

    @property
    def store(self) -> Path:
        return self.state / "workspaces" / store_name(os.fsencode(self.root.resolve()))


class Asking:
    """A request as a client makes it from `where`, of which a test may falsify a part; `taken` says whether it was
    accepted.
    """

    def __init__(
        self, around: Around, *, where: Path | None = None, door: int = os.O_WRONLY, inside: Path | None = None
    ) -> None:
        self.path = around.path
        self.where = where or around.world.root
        self.env = around.world.env
        self.door = os.open(self.path.with_name(errand.DOOR), door)
        process = around.process.pid
        self.inside = os.open(inside, os.O_RDONLY) if inside else errand.inside(str(self.path), process)

    def taken(
        self,
        *words: str,
        first: Callable[[], object] | None = None,
        payload: bytes = b"",
        env: dict[str, str] | None = None,
        **other: bytes,
    ) -> bool:
        """Asked by a child, after it has done what is to be done `first`."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if first is not None:
                    first()
                os.environ.clear()
                os.environ.update({**self.env, **(env or {})})
                said = self._ask(words or ("hook", "nobody"), payload, other)
                status = {errand.TAKEN: 0, b"": 3}[said]
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 3)
        return status == 0

    def _ask(self, words: tuple[str, ...], payload: bytes, other: dict[str, bytes]) -> bytes:
        connection = socket.socket(socket.AF_UNIX)
        os.chdir(self.path.parent)
        connection.connect(self.path.name)
        os.chdir(self.where)
        packed = errand._packed(words, payload)
        fields = []
        while packed:
            end = 4 + int.from_bytes(packed[:4], "big")
            fields.append(packed[4:end])
            packed = packed[end:]
        for name, value in other.items():
            fields[errand.FIELDS.index(name)] = value
        data = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
        errand._send(connection, data, [self.door, self.inside])
        return connection.recv(1)


def gone(process: psutil.Process) -> bool:
    """Has it ended, whether anybody waited for it or not?"""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def waits(around: Around, number: int) -> list[psutil.Process]:
    """So many forks are at work."""
    with until("the forks are at work") as done:
        while not done(len(around.forks) == number):
            pass
    return around.forks
