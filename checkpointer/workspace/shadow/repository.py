"""The shadow repository's directory: made whole or not at all, and made whole again where small files were damaged."""

from __future__ import annotations

import contextlib
import os

from checkpointer import disk

TIMELINE = "refs/heads/timeline"
PENDING = "refs/ckpt/pending"
KEEP = "refs/ckpt/keep/"
"""Pinned by a person."""
OLD = "refs/ckpt/old/"
"""Older than the timeline's kept end, and kept all the same: labelled, or taken before a restore not long ago."""

# gc.*: a user's `git gc` packs but removes nothing, and never starts by itself. bigFileThreshold: it makes no deltas of
# large files, which could then not be streamed. sharedRepository: what it writes is private too. hooksPath,
# attributesFile: nothing of the user's is run or obeyed.
CONFIG = b"""\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tlogAllRefUpdates = false
\tsharedRepository = 0600
\tbigFileThreshold = 16m
\thooksPath = /dev/null
\tattributesFile = /dev/null
\tfsmonitor = false
[gc]
\tauto = 0
\tautoPackLimit = 0
\tpruneExpire = never
\treflogExpire = never
\treflogExpireUnreachable = never
[maintenance]
\tauto = false
[receive]
\tautogc = false
"""
HEAD = f"ref: {TIMELINE}\n".encode()
_DESCRIPTION = b"Checkpoints of a workspace, made by ckpt. Look with git as you like; change with ckpt only.\n"
_DIRECTORIES = (
    "objects",
    "objects/pack",
    "objects/info",
    "refs",
    "refs/heads",
    "refs/ckpt",
    "refs/ckpt/keep",
    "refs/ckpt/old",
    "info",
)
_FILES = {"HEAD": HEAD, "config": CONFIG, "description": _DESCRIPTION}


def make(path: str) -> None:
    """Make the repository at `path`, whole and durable or not at all; an existing one is left as it is.

    Raises `NoSpace`, `ReadOnlyStore`, `Failed`.
    """
    if os.path.isdir(path):
        return
    temporary = f"{path}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
    with disk.plain_errors("making the store"):
        try:
            disk.make_directory(temporary)
            fill(temporary)
            try:
                disk.rename(temporary, path)
            except OSError:
                if not os.path.isdir(path):
                    raise  # else another process was faster
        finally:
            import shutil

            shutil.rmtree(temporary, ignore_errors=True)
        disk.sync_directory(os.path.dirname(path))


def fill(path: str) -> None:
    """Make every directory and fixed file that is missing. Raises OSError."""
    for name in _DIRECTORIES:
        directory = os.path.join(path, name)
        if not os.path.isdir(directory):
            disk.make_directory(directory)
    for name, content in _FILES.items():
        if not os.path.exists(os.path.join(path, name)):
            disk.replace(os.path.join(path, name), content)
    for name in ("refs/heads", "refs/ckpt", "refs", "objects", ""):
        disk.sync_directory(os.path.join(path, name))


def heal(path: str, notices: list[str]) -> None:
    """Put back what git needs to know this for a repository: `HEAD`, `config`, directories. Ours need none of it.

    A configuration that a person changed is left alone while it is text. Raises OSError.
    """
    broken = [name for name in _DIRECTORIES if not os.path.isdir(os.path.join(path, name))]
    for name, content in (("HEAD", HEAD), ("config", CONFIG)):
        file = os.path.join(path, name)
        found = b""
        with contextlib.suppress(FileNotFoundError), open(file, "rb") as f:
            found = f.read(1 << 16)
        fine = found == content or (name == "config" and b"\0" not in found and b"repositoryformatversion" in found)
        if not fine:
            disk.replace(file, content)
            broken.append(name)
    if broken:
        fill(path)
        notices.append(f"the store was damaged and is whole again: {', '.join(broken)} in {path}")
