"""The processes of a call that was cut off: which still live, as far as this machine can tell.

Two traces lead to them: the group that the call's start names, and `CKPT_KEY`, which a tool that passes
`checkpointer.environment()` on leaves in the environment of whatever it starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from checkpointer import machine
from checkpointer.events import Holder, Process


def living(key: str, process: Process | None, owner: Holder | None) -> tuple[int, ...] | None:
    """Process numbers that still work on a call; None where that cannot be told. `owner` is who started the call."""
    here = machine.holder()
    if owner is not None and owner.host == here.host and owner.boot and here.boot and owner.boot != here.boot:
        return ()  # another boot: whatever it was, it is gone
    if owner is not None and (owner.host, owner.namespace) != (here.host, here.namespace):
        return None
    found = set(_marked(key))
    if process is not None and _group_lives(process):
        found.add(process.group)
    return tuple(sorted(found - {os.getpid()}))


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


def _marked(key: str) -> Iterator[int]:
    """Live processes whose environment names the key. Those of other users cannot be read, and could not be ours."""
    wanted = b"CKPT_KEY=" + os.fsencode(key)
    if sys.platform == "linux":
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/environ", "rb") as f:
                        held = f.read().split(b"\0")
                except OSError:
                    continue
                ours = any(one == wanted or one.startswith(wanted + b"/g") for one in held)
                if ours and machine.started(int(name)) != machine.GONE:
                    yield int(name)
        return
    import psutil

    for process in psutil.process_iter():
        try:
            value = process.environ().get("CKPT_KEY", "")
        except (psutil.Error, OSError):
            continue
        if value == key or value.startswith(key + "/g"):
            yield process.pid
