"""What tests need of the machine: another user, a small file system, processes by group."""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

NOBODY = 65534
STRANGER = 54321
"""A user that no passwd entry names."""

REPOSITORY = Path(__file__).resolve().parents[2]
IS_ROOT = os.geteuid() == 0
SLOW = bool(os.environ.get("CKPT_SLOW"))

needs_root = pytest.mark.skipif(not IS_ROOT, reason="needs root: to become another user or to mount")


def need(tool: str) -> str:
    """The path of a program of the machine, else skip."""
    found = shutil.which(tool)
    if not found:
        pytest.skip(f"{tool} is not installed here")
    return found


@contextmanager
def tmpfs(directory: Path, size: str) -> Iterator[Path]:
    """A real small file system on `directory`, gone afterwards; skips where mounting is not allowed."""
    directory.mkdir(exist_ok=True)
    if sys.platform != "linux" or not IS_ROOT:
        pytest.skip("mounting a tmpfs needs root on Linux")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(directory)], capture_output=True
    )
    if done.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {done.stderr.decode(errors='replace').strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(path: Path, leave: int = 0) -> None:
    """Write to `path` until its file system is full, then give `leave` bytes back."""
    with path.open("wb", buffering=0) as f:
        for block in (1 << 16, 4096, 1):
            try:
                while True:
                    f.write(b"\xff" * block)
            except OSError:
                pass
        if leave:
            f.truncate(max(0, f.tell() - leave))


def group(pgid: int) -> list[int]:
    """Living processes of a process group (zombies left out). Linux only."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == pgid and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


def group_memory(pgid: int) -> int:
    """Bytes of private memory, summed over a process group. Linux only."""
    total = 0
    for pid in group(pgid):
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(("Private_Clean:", "Private_Dirty:")):
                    total += int(line.split()[1]) * 1024
        except (OSError, ProcessLookupError):
            continue
    return total


def wait_until(true: object, seconds: float = 10.0, what: str = "it") -> None:
    """Poll the callable `true` until it answers yes."""
    assert callable(true)
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.01)


@cache
def reachable() -> bool:
    """Can another user read the interpreter's packages and the code under test?"""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", "import checkpointer, pygit2, click"],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
        )
    except PermissionError:
        return False
    return done.returncode == 0


@cache
def bound() -> Path:
    """A world-readable directory to which what others may not reach can be bound (see `command`)."""
    place = Path(tempfile.mkdtemp(prefix="ckpt-bound-"))
    place.chmod(0o755)
    for name in ("packages", "code", "python"):
        (place / name).mkdir()
    (place / "checkpointer").symlink_to(place / "code")
    atexit.register(_drop, place)
    return place


def _drop(place: Path) -> None:
    """Never recursively: should a mount ever show through here, what it shows must stay."""
    (place / "checkpointer").unlink()
    for name in ("packages", "code", "python"):
        (place / name).rmdir()
    place.rmdir()


def command(uid: int | None) -> tuple[list[str], dict[str, str]]:
    """How to start the command line under test as this user: words, and further environment.

    Where the interpreter, its packages or the checkout lie below a directory that is closed to others, they are shown
    to the other user in a private mount namespace.
    """
    if uid in (None, os.geteuid()) or reachable():
        return [sys.executable, "-P", "-m", "checkpointer"], {}
    place = bound()
    packages = next(p for p in sys.path if p.endswith("site-packages"))
    python = os.path.realpath(sys.executable)
    script = (
        f"mount --bind {packages} {place}/packages && mount --bind {REPOSITORY}/checkpointer {place}/code && "
        f"mount --bind {sys.base_prefix} {place}/python && "
        'uid=$1 && shift && exec setpriv --reuid=$uid --regid=$uid --clear-groups "$@"'
    )
    inner = [f"{place}/python/{os.path.relpath(python, sys.base_prefix)}", "-P", "-m", "checkpointer"]
    words = ["unshare", "-m", "sh", "-c", script, "sh", str(uid), *inner]
    more = {"PYTHONPATH": f"{place}:{place}/packages", "PYTHONHOME": f"{place}/python"}
    more["LD_LIBRARY_PATH"] = f"{place}/python/lib"
    if not shown(tuple(words), tuple(more.items())):
        pytest.skip("another user can neither read this interpreter and checkout nor be shown them")
    return words, more


@cache
def shown(words: tuple[str, ...], more: tuple[tuple[str, str], ...]) -> bool:
    """Does the way round work?"""
    environment = {"PATH": os.environ["PATH"], **dict(more)}
    return subprocess.run([*words, "--version"], env=environment, cwd="/", capture_output=True).returncode == 0


@contextmanager
def descriptors(count: int) -> Iterator[None]:
    """Only so many descriptors beside those that this process, which ran other tests before, has open."""
    highest = max(int(name) for name in os.listdir("/dev/fd"))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
