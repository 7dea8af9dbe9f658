"""What everything stands on: the ckpt that runs, and the place of the stores."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from checkpointer import disk, places, release
from checkpointer.agents.checkup.finding import Finding, broken, note, ok
from checkpointer.agents.installation import program
from checkpointer.workspace import guard

DISTRIBUTION = "agent-checkpointer"
SUBJECT = "ckpt"
LITTLE = 200 << 20


def of_program() -> Iterator[Finding]:
    """Is this ckpt the one that everybody reaches, and will it stay?"""
    script = program.running()
    said = f"{release.VERSION}, {script or program.package()}"
    reached = shutil.which("ckpt")
    strangers = program.shadowed()
    if reached is None:
        yield note(
            SUBJECT, "not-on-path", f"{said}; no ckpt is on the PATH, so it cannot be typed", "uv tool update-shell"
        )
    elif reached in strangers:
        yield broken(
            SUBJECT,
            "shadowed",
            f"{said}; what is typed as ckpt is another program: {reached}",
            f"put {os.path.dirname(script) if script else 'its directory'} before "
            f"{os.path.dirname(reached)} in the PATH, or remove the other one",
        )
    else:
        yield ok(SUBJECT, "program", said)
    for stranger in strangers:
        if stranger != reached:
            yield note(SUBJECT, "second-ckpt", f"another program of this name stands further down the PATH: {stranger}")
    if script is not None and (why := program.vanishing(reached or script) or program.vanishing(script)):
        yield note(SUBJECT, "vanishing", f"agents cannot be told of this ckpt: {why}", *program.LASTING)
    for other in _others():
        yield broken(
            SUBJECT,
            "shadowed-package",
            f"the package {other} also brings a module named checkpointer into this environment",
            f"install ckpt apart from it: {program.LASTING[0]}",
        )


def _others() -> list[str]:
    """Other packages that put a module of our name where ours is."""
    with contextlib.suppress(Exception):  # what broken metadata of any package may raise
        owners = set(metadata.packages_distributions().get("checkpointer", ()))
        return sorted(owners - {DISTRIBUTION})
    return []


def of_stores() -> Iterator[Finding]:
    """Can stores be written, and will they last?"""
    place = places.stores()
    above = next(d for d in (place, *place.parents) if d.exists())
    kind = guard.file_system(os.fsencode(above))
    shown = f"{place}" + (f" ({kind})" if kind else "")
    why = writable(above)
    if why:
        yield broken("stores", "not-writable", f"{shown} cannot be written: {why}", "CKPT_HOME=DIR, or mend its rights")
        return
    yield ok("stores", "stores", shown)
    if kind in guard.FLEETING:
        yield broken(
            "stores", "fleeting", f"{kind} does not survive a restart of the machine", "CKPT_HOME=DIR on a disk"
        )
    if kind in guard.NETWORK:
        yield note("stores", "network", f"locks and syncs may not hold on {kind}", "CKPT_HOME=DIR on a local disk")
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(above).free
        if free < LITTLE:
            yield note("stores", "little-space", f"only {free >> 20} MB are free there", "ckpt gc")


def writable(directory: Path) -> str:
    """Why nothing can be written in a directory, tried out; empty where it can."""
    name = directory / f".ckpt-{os.getpid()}.tmp"
    try:
        os.close(disk.create(name))
        disk.remove(name)
    except OSError as e:
        return e.strerror or str(e)
    return ""
