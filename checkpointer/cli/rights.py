"""What a process may do and what it sees, as the kernel says: nothing here is anybody's own word. Linux only.

A sandbox of Landlock shows in none of it. Who is in one cannot look into a process outside of it, and that is asked
for, too: see `checkpointer.errand.inside`.
"""

from __future__ import annotations

import os
import signal
import socket

from checkpointer import machine

_SPACES = ("user", "mnt", "pid", "net", "ipc")
_TOLD = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
_FILTERS = "Seccomp_filters"
_PEERPIDFD = 77


def of(pid: int) -> tuple[str, ...]:
    """Users, capabilities, filters, namespaces, root directory and label of a process: where two processes have the
    same, neither is confined in a way that the other is not, but for Landlock. Raises OSError where the system does not
    tell all of it.
    """
    found = [os.readlink(f"/proc/{pid}/ns/{space}") for space in _SPACES]
    root = os.stat(f"/proc/{pid}/root")
    found.append(f"{root.st_dev} {root.st_ino}")
    try:
        with open(f"/proc/{pid}/attr/current", "rb") as f:
            found.append(os.fsdecode(f.read()))
    except OSError:  # no module of the kernel gives labels
        found.append("")
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="surrogateescape") as f:
        lines = dict(line.rstrip("\n").partition(":")[::2] for line in f)
    if not lines.keys() >= {*_TOLD} or (lines["Seccomp"].strip() != "0" and _FILTERS not in lines):
        raise OSError("the system does not tell what a process may do")
    return (*found, *(lines[name] for name in _TOLD), lines.get(_FILTERS, ""))


def same(connection: socket.socket, pid: int, since: float) -> bool:
    """Is this number still that of the process that connected, so that whatever was read about it was about that one?
    `since`: seconds since boot when the connection was accepted. Before Linux 6.5 a process that ended before that, and
    whose number was given away again, is not told apart.
    """
    try:
        held = connection.getsockopt(socket.SOL_SOCKET, _PEERPIDFD)
    except OSError:
        started = machine.started(pid)
        return started is not None and started.isdigit() and int(started) <= since * os.sysconf("SC_CLK_TCK")
    try:
        signal.pidfd_send_signal(held, 0)  # not waited for: its number is nobody else's
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(held)
