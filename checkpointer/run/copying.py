"""Files written beside the place where they belong, and put there in one step."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress

from checkpointer import disk, machine
from checkpointer.errors import Usage
from checkpointer.places import home_directory, stores
from checkpointer.workspace import guard
from checkpointer.workspace.entry import show
from checkpointer.workspace.workspace import Workspace


def must_be_free(root: bytes, source: Workspace) -> None:
    """Raises `Usage`, `RefusedRoot` where a fork's files cannot go."""
    guard.refuse(root, os.fsencode(stores()))
    for above, what in ((source.root, "the workspace itself"), (os.fsencode(home_directory()), "where stores lie")):
        if (root + b"/").startswith(above.rstrip(b"/") + b"/"):
            raise Usage(f"{show(root)} is in {what}", kept="nothing was written", next=("a directory elsewhere",))
    if b".git" in root.split(b"/"):
        raise Usage(f"{show(root)} is in a .git: nothing is ever written there", kept="nothing was written")
    if os.path.lexists(root):
        if not os.path.isdir(root) or os.listdir(root):
            raise Usage(
                f"{show(root)} is there and is not empty", kept="nothing was written", next=("a directory that is not",)
            )
        with suppress(OSError):
            if os.path.samefile(root, b"."):
                raise Usage(
                    f"{show(root)} is the directory you are in, which a fork would replace",
                    kept="nothing was written",
                    next=("cd .., and the same again",),
                )


class Copy:
    """The files of a fork beside their place, until they are put there. What forks to the same place left there when
    they were killed goes first.
    """

    def __init__(self, root: bytes) -> None:
        self._root = root
        above, name = os.path.split(os.fsdecode(root))
        self._above = above
        self._left = re.compile(re.escape(f".{name}.") + r"(\d+)\.ckpt-tmp")
        self.path = os.path.join(above, f".{name}.{os.getpid()}.ckpt-tmp")

    def __enter__(self) -> Copy:
        with disk.plain_errors(self._above):
            os.makedirs(self._above, exist_ok=True)
            for name in os.listdir(self._above):
                left = self._left.fullmatch(name)
                if left and (machine.started(int(left[1])) == machine.GONE or int(left[1]) == os.getpid()):
                    _remove(os.path.join(self._above, name))
        return self

    def __exit__(self, *exc: object) -> None:
        if os.path.lexists(self.path):
            _remove(self.path)

    def put(self) -> None:
        """The files are where they belong from here on."""
        with disk.plain_errors(show(self._root)):
            disk.rename(self.path, self._root)  # an empty directory gives way
            disk.sync_directory(self._above)


def _remove(path: str) -> None:
    for where, _, _ in os.walk(path):
        with suppress(OSError):
            os.chmod(where, 0o700)
    shutil.rmtree(path, ignore_errors=True)
