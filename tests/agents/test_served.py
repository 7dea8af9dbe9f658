"""Whom the resident of a `ckpt run` answers: who could do the work alone, and nobody for more. Others do it alone."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agents.residing import KEEPS, Around, Asking, Neighbour, linux, standing, waits
from harness.machine import NOBODY, needs_root
from harness.world import World

from checkpointer import errand
from checkpointer.cli import rights

pytestmark = linux
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_SET_SECCOMP = 38, 24, 22
CAP_SYS_TIME = 25
CLONE_NEWNS = 0x20000
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
WRITING = 0b1111111110010
"""Landlock's rights to make, to write and to remove."""


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Around]:
    yield from standing(tmp_path_factory.mktemp("around"))


@pytest.fixture
def neighbour(tmp_path: Path, around: Around) -> World:
    found = Neighbour(tmp_path, around.world)
    found.write("n", "n\n")
    return found


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def gains_nothing() -> None:
    assert libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0


def filtered() -> None:
    """A filter of system calls that lets all of them pass."""
    gains_nothing()
    code = ctypes.create_string_buffer(struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000))
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(code))
    assert libc().prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(program), 0, 0) == 0


def confine(*writable: Path) -> bool:
    """From here on this process writes only below these. False where the kernel has no Landlock."""
    call = libc().syscall
    attr = struct.pack("Q", WRITING)
    ruleset = call(LANDLOCK_CREATE_RULESET, attr, len(attr), 0)
    if ruleset < 0:
        return False
    for path in writable:
        rule = struct.pack("<Qi", WRITING, os.open(path, os.O_PATH))
        assert call(LANDLOCK_ADD_RULE, ruleset, 1, rule, 0) == 0
    if call(LANDLOCK_RESTRICT_SELF, ruleset, 0) != 0:  # root may without
        gains_nothing()
        assert call(LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
    return True


def test_an_errand_that_fits_is_taken(around: Around, neighbour: World) -> None:
    assert Asking(around).taken()
    assert Asking(around).taken("save", "-q", "--json", "-m", "it")
    assert Asking(around, where=around.world.root / "below").taken("save")
    assert Asking(around, where=neighbour.root).taken("hook", "claude", "Stop")


@pytest.mark.parametrize("field", ["version", "package", "encodings", "pid", "directory"])
def test_another_version_another_process_or_another_place_is_not(around: Around, neighbour: World, field: str) -> None:
    assert not Asking(around).taken(**{field: os.fsencode(neighbour.root)})


# -- what is asked for


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--unprotected", "--", "true"], ["undo", "-y"], ["restore", "1", "-y"], ["-q", "save"], ["--", "save"],
        ["save", "-C", "/"], ["save", "-C/"], ["save", "--force-root"], ["save", "-m", "-C"], ["save", "--help"],
        ["hook", "--help"], [""],
    ],
    ids=" ".join,
)  # fmt: skip
def test_nothing_but_a_hook_and_a_plain_save_is_carried_out(around: Around, words: list[str]) -> None:
    assert not Asking(around).taken(*words)


def test_a_save_of_another_workspace_is_not(around: Around, neighbour: World) -> None:
    """Nor where the caller says that it stands in the run's, or comes by a link in there."""
    assert not Asking(around, where=neighbour.root).taken("save")
    assert not Asking(around, where=neighbour.root).taken("save", directory=os.fsencode(around.world.root))
    link = around.world.root / "below" / "link"
    link.symlink_to(neighbour.root)
    try:
        assert not Asking(around, where=link).taken("save", directory=os.fsencode(link))
    finally:
        link.unlink()
    assert not Asking(around, where=around.world.root.parent).taken("save")


@pytest.mark.parametrize(
    "name",
    ["HOME", "CKPT_HOME", "CKPT_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMPDIR", "TEMP", "CKPT_WORKSPACE"],
)
def test_variables_that_lead_elsewhere_are_not_obeyed(around: Around, tmp_path: Path, name: str) -> None:
    for words in (["save"], ["hook", "claude", "Stop"]):
        assert not Asking(around).taken(*words, env={name: str(tmp_path)})
    assert Asking(around).taken(env={"CKPT_WORKSPACE": str(around.world.root.resolve()), "CKPT_DEBUG": "1"})


def test_who_is_not_answered_does_it_alone(around: Around, neighbour: World, tmp_path: Path) -> None:
    found = {errand.VARIABLE: str(around.path)}
    assert neighbour.ckpt("save", env=found).status == 0
    assert (neighbour.store / "shadow.git").is_dir()
    elsewhere = tmp_path / "elsewhere"
    assert around.world.ckpt("save", env={**found, "CKPT_HOME": str(elsewhere)}).status == 0
    assert list(elsewhere.glob("workspaces/*/shadow.git"))


# -- who asks


def test_who_may_not_write_in_the_store_is_not_served(around: Around) -> None:
    """As in an agent's sandbox, which shows its shell the store for reading only."""
    assert not Asking(around, door=os.O_RDONLY).taken()


def test_who_may_not_look_into_the_resident_is_not_served(around: Around, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    assert not Asking(around, inside=other).taken()


@needs_root
def test_another_user_is_not_served(around: Around) -> None:
    """Even where the permissions of the store and of the socket let it in."""
    opened = [d for d in around.path.parents if d.stat().st_mode & 0o077 == 0]
    for directory in opened:
        directory.chmod(0o711)
    around.path.chmod(0o666)
    try:
        assert not Asking(around).taken(first=lambda: os.setuid(NOBODY))
    finally:
        around.path.chmod(0o600)
        for directory in opened:
            directory.chmod(0o700)


@pytest.mark.parametrize("less", [gains_nothing, filtered])
def test_who_is_confined_is_not_served(around: Around, less: Callable[[], None]) -> None:
    """What it holds open is from before; what it may do now, the kernel says."""
    assert not Asking(around).taken(first=less)


@needs_root
@pytest.mark.parametrize("how", ["groups", "space", "bound"])
def test_who_is_less_in_any_other_way_is_not_served(around: Around, how: str) -> None:
    """In other groups, before other mounts, or never to have a capability that the run may have."""
    less: dict[str, Callable[[], object]] = {
        "groups": lambda: os.setgroups([NOBODY]),
        "space": lambda: libc().unshare(CLONE_NEWNS),
        "bound": lambda: libc().prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0),
    }
    before = rights.of(os.getpid())
    assert not Asking(around).taken(first=less[how])
    assert before == rights.of(os.getpid()) == rights.of(around.process.pid)


def test_a_sandbox_of_landlock_is_not_left(around: Around) -> None:
    """The kernel tells of it nowhere, and the store and the workspace are writable in it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said: object = "died"
        try:
            os.environ.clear()
            os.environ.update({**around.world.env, errand.VARIABLE: str(around.path)})
            os.chdir(around.world.root)
            sys.stdin = open(os.devnull)  # noqa: SIM115
            free = errand.told(["hook", "nobody"])
            confined = confine(around.world.root, around.world.state)
            said = [free is not None, confined, errand.told(["hook", "nobody"]) is not None]
        finally:
            os.write(write, json.dumps(said).encode())
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with open(read, "rb") as f:
        free, confined, after = json.loads(f.read())
    assert free
    if not confined:
        pytest.skip("this kernel has no Landlock")
    assert not after


def test_a_number_that_is_another_process_by_now_is_not_it() -> None:
    """Who connected has ended; whoever has its number is somebody else."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("")
    listener.listen()
    child = os.fork()
    if child == 0:
        try:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(listener.getsockname())
            connection.recv(1)
        finally:
            os._exit(0)
    connection, _ = listener.accept()
    assert errand.peer(connection)[0] == child
    since = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert rights.same(connection, child, since)
    connection.send(b".")
    os.waitpid(child, 0)
    assert not rights.same(connection, child, since)
    listener.close()
    connection.close()


def test_where_the_kernel_names_no_peer_the_start_of_a_process_tells() -> None:
    """As before Linux 6.5; a socket that nobody connected to has no peer either."""
    since = time.clock_gettime(time.CLOCK_BOOTTIME)
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    with socket.socket(socket.AF_UNIX) as nobody:
        assert rights.same(nobody, os.getpid(), since)
        assert not rights.same(nobody, child.pid, since - 1)
        child.communicate()
        assert not rights.same(nobody, child.pid, time.clock_gettime(time.CLOCK_BOOTTIME))


# -- nobody waits for what is no door


def test_a_door_that_is_none_is_not_waited_for(
    around: Around, neighbour: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe is not opened, with a reader or without; what listens beside it hears nothing."""
    door = tmp_path / errand.DOOR
    os.mkfifo(door)
    listener = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(tmp_path)
    listener.bind("socket-1")
    listener.listen()
    listener.setblocking(False)
    found = {errand.VARIABLE: str(tmp_path / "socket-1")}
    assert neighbour.ckpt("save", env=found).status == 0
    reader = os.open(door, os.O_RDONLY | os.O_NONBLOCK)
    assert neighbour.ckpt("save", env=found).status == 0
    os.close(reader)
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert (neighbour.store / "shadow.git").is_dir()
    door.unlink()
    door.symlink_to(around.path.with_name(errand.DOOR))
    assert neighbour.ckpt("hook", "claude", "Stop", input=b"{}", env=found).status == 0
    with pytest.raises(BlockingIOError):
        listener.accept()
    listener.close()


def test_a_run_beside_a_door_that_is_none_has_no_resident(world: World) -> None:
    world.write("a", "a\n")
    world.ckpt("save")
    place = world.store / "resident"
    place.mkdir(exist_ok=True)
    os.mkfifo(place / errand.DOOR)
    words, env = world.words([*KEEPS[:-1], 'echo ".$CKPT_RESIDENT"'], None)
    done = subprocess.run(words, cwd=world.root, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert done.stdout == b".\n"


# -- in time


def test_nothing_is_begun_for_a_client_that_no_longer_waits(neighbour: World, around: Around) -> None:
    """It has given up meanwhile, and does the work itself: twice would be a turn too many."""
    stdin = {"session_id": "s", "cwd": str(neighbour.root), "prompt": "go", "hook_event_name": "UserPromptSubmit"}
    asking = Asking(around, where=neighbour.root)
    assert asking.taken("hook", "claude", "UserPromptSubmit", payload=json.dumps(stdin).encode())
    waits(around, 0)
    assert not neighbour.store.exists()
