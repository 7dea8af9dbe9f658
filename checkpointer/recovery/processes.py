"""The processes of a call that was cut off: which still live, as far as this machine can tell.

Two traces lead to them: the process group that the call's start names, of which those count that began after it, and
`CKPT_KEY`, which a tool that passes `checkpointer.environment()` on leaves in the environment of whatever it starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from checkpointer import caller, machine
from checkpointer.events import Holder, Process

SLACK: Final = timedelta(seconds=2)
"""When a process began is known less exactly than when an event was written."""


def living(
    key: str, process: Process | None, owner: Holder | None, since: datetime | None = None
) -> tuple[int, ...] | None:
    """Process numbers that still work on a call; None where that cannot be told. `owner` is who started the call, at
    `since`.
    """
    here = machine.holder()
    if owner is not None and owner.host == here.host and owner.boot and here.boot and owner.boot != here.boot:
        return ()  # another boot: whatever it was, it is gone
    if owner is not None and (owner.host, owner.namespace) != (here.host, here.namespace):
        return None
    found = set(_marked(key))
    if process is not None and _group_lives(process):
        found |= _members(process, since)
    return tuple(sorted(found - {os.getpid(), caller.pid()}))


def _group_lives(process: Process) -> bool:
    try:
        os.killpg(process.group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    leader = machine.started(process.group)
    # Its leader may be gone while others of the group live; but a leader of another time leads another group.
    return process.group != process.pid or not leader or not process.started or leader == process.started


def _members(process: Process, since: datetime | None) -> set[int]:
    """Who lives in a group and began after `since`: what was there before the call is no work of it."""
    import psutil

    found = set()
    for pid in psutil.pids():
        try:
            if os.getpgid(pid) != process.group or machine.started(pid) == machine.GONE:
                continue
            began = datetime.fromtimestamp(psutil.Process(pid).create_time(), UTC)
        except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            continue
        except psutil.Error:
            began = None
        if began is None or since is None or began >= since - SLACK:
            found.add(pid)
    return found


def of_run(run: str, root: str) -> tuple[int, ...]:
    """Live processes that were started inside a run of the workspace at `root`, by what their environment says."""
    found = (pid for pid, held in _environments() if held.get("CKPT_RUN") == run and held.get("CKPT_WORKSPACE") == root)
    return tuple(sorted(pid for pid in found if pid not in (os.getpid(), caller.pid())))


def _marked(key: str) -> Iterator[int]:
    for pid, held in _environments():
        value = held.get("CKPT_KEY", "")
        if value == key or value.startswith(key + "/g"):
            yield pid


def _environments() -> Iterator[tuple[int, dict[str, str]]]:
    """Our variables in the environment of each live process that has any. Those of other users cannot be read."""
    if sys.platform == "linux":
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/environ", "rb") as f:
                    data = f.read()
            except OSError:
                continue
            words = (word.partition(b"=") for word in data.split(b"\0") if word.startswith(b"CKPT_"))
            held = {os.fsdecode(key): os.fsdecode(value) for key, _, value in words}
            if held and machine.started(int(name)) != machine.GONE:
                yield int(name), held
        return
    import psutil

    for process in psutil.process_iter():
        try:
            everything = process.environ()
        except (psutil.Error, OSError):
            continue
        if any(key.startswith("CKPT_") for key in everything):
            yield process.pid, everything
