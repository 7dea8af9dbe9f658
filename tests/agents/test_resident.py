"""The resident of `ckpt run`: the same answers as without it, to whom they belong, and never in the way."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from agents.hooking import Player, Told, told, until
from harness.world import World

from checkpointer import errand
from checkpointer.__main__ import main

KEEPS = ["run", "--", "sh", "-c", 'echo "$CKPT_RESIDENT"; exec cat']
NOT_SERVED = 98


class Around:
    """A `ckpt run` that does nothing, with its resident; `path` is the socket."""

    def __init__(self, world: World) -> None:
        world.write("a", "a\n")
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
        """Seconds of work of the forks that are over."""
        times = self.process.cpu_times()
        return float(times.children_user + times.children_system)

    @property
    def forks(self) -> list[psutil.Process]:
        return [p for p in self.process.children() if not gone(p)]


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Around]:
    """In a workspace of its own, whose store lies so deep that the socket's path is too long for a socket."""
    base = tmp_path_factory.mktemp("around")
    state = base / ("deep" * 25)
    found = Around(World(base, state=state))
    assert len(str(found.path)) > 108
    with until("it has loaded what it needs") as done:
        while not done(Asking(found).taken()):
            pass
    yield found
    found.end()
    with until("the resident ends with its run") as done:
        while not done(gone(found.process) and not found.path.exists()):
            pass


def gone(process: psutil.Process) -> bool:
    """Has it ended, whether anybody waited for it or not?"""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Carried(Player):
    """Its hooks are clients of the resident at `path`: one that is not served fails, unless it may `alone`."""

    path: Path
    alone = False

    def _hook(self, one: Told, stdin: int, stdout: int, die_at: int | None, cwd: Path) -> int:
        os.environ.clear()
        os.environ.update({**self.world.env, **one.env, errand.VARIABLE: str(self.path)})
        os.chdir(cwd)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        sys.stdin = open(0)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        words = ["hook", one.agent, *([one.event] if one.event else []), *one.argv]
        if self.alone:
            return main(words)
        answer = errand.told(words)
        if answer is None:
            return NOT_SERVED
        os.write(1, answer[1])
        return answer[0]


@pytest.fixture
def carried(world: World, around: Around) -> Carried:
    player = Carried(world)
    player.path = around.path
    return player


def logged(world: World) -> list[str]:
    """A run's log, and what its hooks keep, without what differs each time."""
    found = []
    for path in sorted([*world.store.glob("runs/*/events.jsonl"), *world.store.glob("hooks/*/session.json")]):
        found += path.read_text().replace(str(world.root), "ROOT").splitlines()
    text = [re.sub(r"[0-9a-f]{32,}|\d{4}-\d\d-\d\dT[0-9:.]+Z", "X", line) for line in found]
    return [re.sub(r'"(salt|offset|started)": ?"?[^",]*"?', "", line) for line in text]


@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_the_same_log_and_the_same_answers(tmp_path_factory: pytest.TempPathFactory, around: Around, name: str) -> None:
    seen = []
    for kind in (Player, Carried):
        world = World(tmp_path_factory.mktemp("same"))
        player = kind(world)
        player.agent = 0
        player.path = around.path  # type: ignore[attr-defined]
        said: list[str] = []
        player.play(told(name, world.root), hook=lambda one, player=player, said=said: said.append(player.hook(one)))
        player.hook(Told(name, "BeforeAgent" if name == "gemini" else "UserPromptSubmit", {
            "session_id": "other", "cwd": str(world.root), "prompt": "ckpt undo",
            "hook_event_name": "BeforeAgent" if name == "gemini" else "UserPromptSubmit",
        }))  # fmt: skip
        files = {name: (node.kind, node.mode, node.content) for name, node in world.files().items()}
        seen.append((logged(world), [one.replace(str(world.root), "ROOT") for one in said], files))
    assert seen[0][0]
    assert seen[0] == seen[1]


def test_save_prints_and_ends_as_it_does_alone(world: World, around: Around) -> None:
    world.write("a", "1\n")
    world.ckpt("save")
    outcomes = []
    for more in ({}, {errand.VARIABLE: str(around.path)}):
        before = around.worked
        for words in (["save", "--json"], ["save", "-m", "t3"], ["save", "-m", "name"]):
            result = world.ckpt(*words, env=more, ok=None)
            outcomes.append((words, result.status, result.out, result.err))
        assert (around.worked > before) == bool(more)
    assert outcomes[:3] == outcomes[3:]


def test_the_client_is_light(world: World, around: Around) -> None:
    world.ckpt("save")
    script = (
        "import sys; had = set(sys.modules); from checkpointer.__main__ import main; status = main(sys.argv[1:]);"
        "print(status, *sorted(set(sys.modules) - had))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, "hook", "claude", "PreToolUse"],
        cwd=world.root,
        env={**world.env, errand.VARIABLE: str(around.path)},
        input=json.dumps({"session_id": "s", "cwd": str(world.root), "tool_name": "Bash", "tool_use_id": "c"}).encode(),
        capture_output=True,
        check=True,
    )
    status, *loaded = done.stdout.decode().split()
    ours = {"checkpointer", "checkpointer.__main__", "checkpointer.errand", "checkpointer.release"}
    assert status == "0"
    assert ours <= set(loaded) <= {*ours, "_socket", "__future__", "_io"}


def test_what_a_call_needs_is_loaded_before(world: World) -> None:
    script = (
        "import sys; from pathlib import Path; from checkpointer.cli import program, resident;"
        "resident.Resident(Path('nowhere'), 0).warm(); had = set(sys.modules);"
        "status = program.main(sys.argv[1:]); print(status, *sorted(set(sys.modules) - had))"
    )
    stdin = {"session_id": "s", "cwd": str(world.root), "prompt": "go", "hook_event_name": "UserPromptSubmit"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, "hook", "claude", "UserPromptSubmit"],
        cwd=world.root,
        env=world.env,
        input=json.dumps(stdin).encode(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().strip() == "0"


# -- who is served


class Asking:
    """A request as a client makes it, of which a test may falsify a part; `taken` says whether it was accepted."""

    def __init__(self, around: Around, *, door: int = os.O_WRONLY, payload: bytes = b"") -> None:
        self.payload = payload
        self.path = around.path
        self.door = os.open(self.path.with_name(errand.DOOR), door)

    def taken(self, user: int | None = None, **other: bytes) -> bool:
        """Asked by this process, or by a child that is another user."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if user is not None:
                    os.setuid(user)
                status = 0 if self._ask(other) == errand.TAKEN else 3
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 3)
        return status == 0

    def _ask(self, other: dict[str, bytes]) -> bytes:
        connection = socket.socket(socket.AF_UNIX)
        os.chdir(self.path.parent)
        connection.connect(self.path.name)
        packed = errand._packed(["hook", "nobody"], self.payload)
        fields = []
        while packed:
            end = 4 + int.from_bytes(packed[:4], "big")
            fields.append(packed[4:end])
            packed = packed[end:]
        for name, value in other.items():
            fields[errand.FIELDS.index(name)] = value
        data = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
        errand._send(connection, data, [self.door])
        return connection.recv(1)


def test_an_errand_that_fits_is_taken(around: Around) -> None:
    assert Asking(around).taken()


@pytest.mark.parametrize("field", ["version", "package", "spaces", "encodings", "pid", "inode"])
def test_another_version_another_sight_or_another_process_is_not(around: Around, field: str) -> None:
    assert not Asking(around).taken(**{field: b"other"})


def test_who_may_not_write_in_the_store_is_not_served(around: Around) -> None:
    """As in an agent's sandbox, which shows its shell the store for reading only."""
    assert not Asking(around, door=os.O_RDONLY).taken()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else for a moment")
def test_another_user_is_not_served(around: Around) -> None:
    """Even where the permissions of the store and of the socket let it in."""
    opened = [d for d in around.path.parents if d.stat().st_mode & 0o077 == 0]
    for directory in opened:
        directory.chmod(0o711)
    around.path.chmod(0o666)
    try:
        assert not Asking(around).taken(user=65534, spaces=errand.spaces())
    finally:
        around.path.chmod(0o600)
        for directory in opened:
            directory.chmod(0o700)


def test_nothing_is_begun_for_a_client_that_no_longer_waits(world: World, around: Around) -> None:
    """It has given up meanwhile, and does the work itself: twice would be a turn too many."""
    stdin = {"session_id": "s", "cwd": str(world.root), "prompt": "go", "hook_event_name": "UserPromptSubmit"}
    st = world.root.stat()
    asking = Asking(around, payload=json.dumps(stdin).encode())
    assert asking.taken(
        words=b"hook\0claude\0UserPromptSubmit",
        environment="\0".join(f"{k}={v}" for k, v in world.env.items()).encode(),
        directory=os.fsencode(world.root),
        inode=b"%d %d" % (st.st_dev, st.st_ino),
    )
    waits(around, 0)
    assert not list(world.state.iterdir())


# -- in the way of nobody


def told_once(player: Player) -> str:
    """The id of the only call that is known."""
    calls = [call["id"] for call in player.session()["calls"].values()]
    assert len(calls) == 1, (calls, player.problems)
    return str(calls[0])


def begun(player: Player, around: Around) -> Held:
    """A session whose next hook waits."""
    player.say("claude", "UserPromptSubmit", session_id="s", cwd=str(player.world.root), prompt="go")
    waits(around, 0)
    return Held(player.world)


def report(world: World, call: str) -> Told:
    stdin = {"session_id": "s", "cwd": str(world.root), "tool_name": "Bash", "tool_input": {"command": call},
             "tool_use_id": call, "hook_event_name": "PreToolUse"}  # fmt: skip
    return Told("claude", "PreToolUse", stdin)


class Held:
    """The workspace lock, held: whoever works on the files waits."""

    def __init__(self, world: World) -> None:
        self.file = open(world.store / "lock", "r+")  # noqa: SIM115
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def release(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_UN)  # the clients are forks of ours, and have the file open too
        self.file.close()


def waits(around: Around, number: int) -> list[psutil.Process]:
    """So many forks are at work."""
    with until("the forks are at work") as done:
        while not done(len(around.forks) == number):
            pass
    return around.forks


def test_a_fork_that_dies_leaves_the_work_to_the_client(carried: Carried, around: Around) -> None:
    held = begun(carried, around)
    carried.alone = True
    pid, read = carried.spawn(report(carried.world, "c1"))
    (fork,) = waits(around, 1)
    fork.kill()
    with until("the client works itself") as done:
        while not done(gone(fork) and not around.forks):
            pass
    held.release()
    assert os.waitpid(pid, 0)[1] == 0
    os.close(read)
    assert told_once(carried) == "c1"


def test_a_client_that_is_killed_takes_its_fork_along(carried: Carried, around: Around) -> None:
    held = begun(carried, around)
    pid, read = carried.spawn(report(carried.world, "c1"))
    waits(around, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read)
    waits(around, 0)
    held.release()
    assert not carried.session()["calls"]
    carried.hook(report(carried.world, "c2"))
    assert told_once(carried) == "c2"


def test_clients_at_once(carried: Carried, around: Around) -> None:
    held = begun(carried, around)
    clients = [carried.spawn(report(carried.world, f"c{n}")) for n in range(3)]
    waits(around, 3)
    held.release()
    for pid, read in clients:
        assert os.waitpid(pid, 0)[1] == 0
        os.close(read)
    assert {call["id"] for call in carried.session()["calls"].values()} == {"c0", "c1", "c2"}


def test_a_resident_that_dies_is_missed_by_nobody(tmp_path: Path, carried: Carried, around: Around) -> None:
    """Who it was answering has an answer, who comes later works alone, and the next run sweeps what it left."""
    base = tmp_path / "dead"
    base.mkdir()
    dead = Around(World(base))
    carried.path, carried.alone = dead.path, True
    held = begun(carried, dead)
    pid, read = carried.spawn(report(carried.world, "c1"))
    (fork,) = waits(dead, 1)
    dead.process.kill()
    dead.end()
    assert not gone(fork)
    held.release()
    assert os.waitpid(pid, 0)[1] == 0
    os.close(read)
    assert told_once(carried) == "c1"
    assert dead.path.exists()
    carried.hook(report(carried.world, "c2"))
    assert len(carried.session()["calls"]) == 2
    again = Around(dead.world)
    assert not dead.path.exists()
    again.end()
