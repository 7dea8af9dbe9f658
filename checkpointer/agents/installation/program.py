"""Which ckpt an agent's configuration should call: the one that runs now, by a path that will still be there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping

from checkpointer.errors import Usage

LASTING = ("uv tool install agent-checkpointer", "pipx install agent-checkpointer")


def running() -> str | None:
    """The script `ckpt` of the environment that runs now, None where it has none."""
    script = os.path.join(sysconfig.get_path("scripts"), "ckpt")
    return script if os.access(script, os.X_OK) else None


def chosen(environ: Mapping[str, str] = os.environ) -> str:
    """An absolute path for a configuration: how the PATH reaches this ckpt, else where it stands.

    Raises Usage where it will vanish.
    """
    script = running()
    if script is None:
        raise Usage(
            "this ckpt was not installed: it has no command that an agent could call",
            kept="nothing was written",
            next=LASTING,
        )
    found = shutil.which("ckpt", path=environ.get("PATH"))
    path = script
    if found is not None and os.path.realpath(found) == os.path.realpath(script):
        path = os.path.abspath(found)
    why = vanishing(path, environ) or vanishing(script, environ)
    if why:
        raise Usage(
            f"{path} will not stay: {why}",
            kept="nothing was written",
            next=(*LASTING, f"ckpt install --command {path} AGENT   (if you know better)"),
        )
    return path


def named(path: str) -> str:
    """A path that a person gave. Raises Usage unless it is an absolute path of a ckpt that answers."""
    if not os.path.isabs(path) or os.path.basename(path) != "ckpt":
        raise Usage(f"{path} is not an absolute path of a ckpt", kept="nothing was written")
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=30, stdin=subprocess.DEVNULL)
        answered = done.returncode == 0 and done.stdout.startswith(b"ckpt ")
    except (OSError, subprocess.SubprocessError):
        answered = False
    if not answered:
        raise Usage(f"{path} does not answer as ckpt does", kept="nothing was written", next=(f"{path} --version",))
    return path


def vanishing(path: str, environ: Mapping[str, str] = os.environ) -> str:
    """Why a program may soon be gone; empty where nothing says so."""
    real = os.path.realpath(path)
    home = environ.get("HOME", "") or os.path.expanduser("~")
    below = {
        "it lies among temporary files": [
            tempfile.gettempdir(),
            environ.get("TMPDIR", ""),
            "/tmp",
            "/var/tmp",
            "/dev/shm",
            "/private/tmp",
        ],
        "it lies in a cache of uv (was it started with uvx?)": [
            environ.get("UV_CACHE_DIR", ""),
            f"{environ.get('XDG_CACHE_HOME') or home + '/.cache'}/uv",
            f"{home}/.cache/uv",
            f"{home}/Library/Caches/uv",
        ],
        "it lies in a cache of pipx (was it started with pipx run?)": [
            f"{environ['PIPX_HOME']}/.cache" if environ.get("PIPX_HOME") else "",
            f"{home}/.local/pipx/.cache",
            f"{home}/.local/share/pipx/.cache",
            f"{environ.get('XDG_CACHE_HOME') or home + '/.cache'}/pipx",
            f"{home}/.cache/pipx",
            f"{home}/Library/Caches/pipx",
        ],
    }
    for why, places in below.items():
        for place in places:
            if place and any(p.startswith(os.path.realpath(place) + "/") for p in (real, path)):
                return why
    parts = real.split("/")
    if any(name in parts for name in (".tox", ".nox")):
        return "it lies in an environment for tests"
    return ""


def shadowed(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Programs on the PATH that are called `ckpt` and are not this one, in the order in which they are found."""
    mine = running()
    real = os.path.realpath(mine) if mine else ""
    found: list[str] = []
    for directory in (environ.get("PATH") or os.defpath).split(os.pathsep):
        candidate = os.path.join(directory or ".", "ckpt")
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate) and os.path.realpath(candidate) != real:
            found.append(candidate)
    return found


def package() -> str:
    """Where the package `checkpointer` that runs now was read from."""
    return os.path.dirname(os.path.abspath(sys.modules["checkpointer"].__file__ or ""))
