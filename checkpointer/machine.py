"""What this machine, its boot, its clocks and its processes are: the facts that `lease` judges by."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import secrets
import sys
import time
import uuid
from datetime import UTC, datetime

from checkpointer.events import Holder, Process
from checkpointer.lease import Now

GONE = ""
"""The start time of a process that is not there (or only as a zombie, which can do nothing more)."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # both go on while the machine sleeps


def _text(path: str) -> str:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as f:
        return f.read().strip()
    return ""


def _sysctl(name: str) -> str:
    """A text value of the macOS kernel; empty elsewhere."""
    if sys.platform != "darwin":
        return ""
    import ctypes

    libc = ctypes.CDLL(None)
    size = ctypes.c_size_t(256)
    buffer = ctypes.create_string_buffer(size.value)
    if libc.sysctlbyname(name.encode(), buffer, ctypes.byref(size), None, 0) != 0:
        return ""
    return buffer.value.decode("ascii", "replace")


@functools.cache
def host() -> str:
    """A name of this machine that outlives a boot. Two copies of one disk image may share it."""
    known = _text("/etc/machine-id") or _text("/var/lib/dbus/machine-id")
    return known or f"{platform.node()}-{uuid.getnode():012x}"


@functools.cache
def boot() -> str:
    """A name of the machine's current boot; empty where the system does not say."""
    return _text("/proc/sys/kernel/random/boot_id") or _sysctl("kern.bootsessionuuid")


def namespace() -> str:
    """The space in which process numbers count; empty where there is only one."""
    with contextlib.suppress(OSError):
        return str(os.stat("/proc/self/ns/pid").st_ino)
    return ""


def started(pid: int) -> str | None:
    """When a process started, in the system's own units. `GONE` without one; None where it cannot be told."""
    if sys.platform == "linux":
        stat = _text(f"/proc/{pid}/stat")
        if stat:
            fields = stat[stat.rindex(")") + 2 :].split()
            return GONE if fields[0] in "ZX" else fields[19]
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return GONE
        except OSError:
            return None
        return started(pid) if _text(f"/proc/{pid}/stat") else None
    import psutil

    try:
        process = psutil.Process(pid)
        return GONE if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.3f}"
    except psutil.NoSuchProcess:
        return GONE
    except psutil.Error:
        return None


def holder(pid: int | None = None) -> Holder:
    """A process of this machine as the owner of a run; this one by default."""
    number = os.getpid() if pid is None else pid
    return Holder(host=host(), boot=boot(), namespace=namespace(), pid=number, started=started(number) or "")


def group() -> Process | None:
    """This process as the start of a call names it: where it leads a group of its own, what a tool starts stays in that
    group. None where others share the group, which then tells nothing.
    """
    pid = os.getpid()
    return Process(pid=pid, group=pid, started=started(pid) or "") if os.getpgrp() == pid else None


def moment(text: str | None) -> datetime | None:
    """The time that an event carries; None where it is none."""
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(text) if text else None
    return None


def monotonic_ms() -> int:
    """Milliseconds since the machine booted, sleep included; never set back."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970, as the machine believes."""
    return time.time_ns() // 1_000_000


def file_system(path: str) -> str:
    """The type of the file system that holds `path` (`ext4`, `nfs4`), empty where the system does not say."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in _text("/proc/self/mountinfo").split("\n"):
        fields = line.split(" ")
        if len(fields) > 6 and fields[2] == number:
            return fields[fields.index("-") + 1]
    if sys.platform == "linux":
        return ""
    import psutil

    real = os.path.realpath(path)
    mounts = [p for p in psutil.disk_partitions(all=True) if os.path.commonpath([p.mountpoint, real]) == p.mountpoint]
    return str(max(mounts, key=lambda p: len(p.mountpoint)).fstype) if mounts else ""


class World:
    """The clocks, this process and chance, as one thing that a test can replace."""

    def now(self) -> Now:
        return Now(boot(), monotonic_ms(), wall_ms())

    def at(self) -> str:
        """The time as events carry it: RFC 3339, UTC, microseconds."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def here(self) -> Holder:
        return holder()

    def started(self, pid: int) -> str | None:
        return started(pid)

    def event_id(self) -> str:
        return uuid.uuid4().hex

    def salt(self) -> str:
        return secrets.token_hex(16)
