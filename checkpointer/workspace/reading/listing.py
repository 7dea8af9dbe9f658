"""The names in one open directory with their `lstat`s: the innermost loop of every scan."""

from __future__ import annotations

import os
from collections.abc import Collection, Container
from typing import NamedTuple

from checkpointer.workspace.reading.reader import stat_of
from checkpointer.workspace.reading.table import Stat, pack

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

FOREIGN = "other-filesystem"

Seen = str | tuple[str, Stat] | tuple[str, Stat, str]
"""A sub-directory; anything else; anything else that is never trusted later, with the reason."""


class Listing(NamedTuple):
    """`entries` begin with the directory's own `Stat` and go on in the order of the listing; `skipped` were passed over
    whether they are there or not.
    """

    entries: list[Stat | Seen]
    subs: list[str]
    repository: bool
    skipped: Collection[str]


def list_directory(fd: int, devices: Container[int], skip: Collection[str], only: Container[str] | None) -> Listing:
    """Look at every name but those in `skip`; with `only`, at no others. Both hold directories with a `/` behind.

    A directory `.git` is never listed, only told of. A name that vanishes meanwhile is left out. What is on none of
    `devices` is marked `FOREIGN`. Raises OSError.
    """
    entries: list[Stat | Seen] = [stat_of(os.fstat(fd))]
    subs: list[str] = []
    repository = False
    add = entries.append
    stat = stat_of
    with os.scandir(fd) as found:
        for e in found:
            name = e.name
            if e.is_dir(follow_symlinks=False):
                if name == ".git":
                    repository = True  # never ours, whatever a rule or an index says
                elif (name + "/" not in skip) if only is None else (name + "/" in only):
                    subs.append(name)
                    add(name)
            elif (name not in skip) if only is None else (name in only):
                try:
                    st = e.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if st.st_dev in devices:
                    add((name, stat(st)))
                else:
                    add((name, stat(st), FOREIGN))
    return Listing(entries, subs, repository, skip)


def is_as_recorded(parent: int, name: str, devices: Container[int], skip: Collection[str], seen: bytes) -> bool:
    """Is a directory without sub-directories of ours still what a record says? False wherever that is not plain.

    This is what most of the time of a capture goes into where little has changed.
    """
    try:
        fd = os.open(name, DIRECTORY, dir_fd=parent)
    except OSError:
        return False
    try:
        own = os.fstat(fd)
        if own.st_dev not in devices:
            return False
        if skip and any(name.endswith("/") for name in skip):  # their kinds count
            entries = list_directory(fd, devices, skip, None).entries
        else:
            stat = stat_of
            entries = [stat(own)]
            for name in os.listdir(fd):
                if name not in skip:
                    st = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    if st.st_dev not in devices:
                        return False
                    entries.append((name, stat(st)))
    except OSError:
        return False
    finally:
        os.close(fd)
    return pack(entries) == seen


def is_other_spelling(name: str, fd: int) -> bool:
    """Is this `.git` itself, by another spelling that the file system takes for it?"""
    if name == ".git" or name.lower() != ".git":
        return False
    try:
        one = os.stat(name, dir_fd=fd, follow_symlinks=False)
        other = os.stat(".git", dir_fd=fd, follow_symlinks=False)
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino) and ".git" not in os.listdir(fd)
