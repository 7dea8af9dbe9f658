"""Files of others, read with care and replaced whole: one step of an install or an uninstall.

A file is only ever replaced by the whole of its new content, keeps its mode, its owner and, behind a link, its place;
and only while it still holds the bytes that were looked at.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checkpointer import disk
from checkpointer.agents.editing.trouble import Unfit

LARGEST = 16 << 20


@dataclass(frozen=True)
class Change:
    """`path` should hold `after` where it holds `before`; None stands for no file. `mode` is for a new file.

    With `new` it is made under a name that nothing has, not even a link, or not at all.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int = 0o644
    new: bool = False


def umask() -> int:
    """The process's mask for new files."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def read(path: Path) -> bytes | None:
    """What a file holds, None where there is none. Raises Unfit for what is no regular file or cannot be read."""
    try:
        if not os.path.lexists(path):
            return None
        if not os.path.exists(path):
            raise Unfit(f"is a link to {os.path.realpath(path)}, which is not there")
        if not os.path.isfile(path):
            raise Unfit("is not a regular file")
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as f:
            if os.fstat(f.fileno()).st_size > LARGEST:
                raise Unfit("is larger than any configuration")
            return f.read()
    except OSError as e:
        raise Unfit(f"cannot be read: {e.strerror or e}") from e


def check(change: Change, within: Path | None = None) -> None:
    """Raise Unfit where a change could not be made, before anything is written.

    `within` is a project: what a link in it leads to outside of it is somebody else's.
    """
    target = Path(os.path.realpath(change.path))
    if within is not None and Path(os.path.realpath(within)) not in target.parents:
        raise Unfit(f"leads out of the project, to {target}")
    if change.before is not None:
        st = os.stat(target)
        if st.st_nlink > 1 and change.after is not None:
            raise Unfit("has another name (a hard link), which would keep the old content")
        if not st.st_mode & 0o222 or not os.access(target, os.W_OK):
            raise Unfit("is read-only")
        if change.after is not None and os.geteuid() not in (0, st.st_uid):
            raise Unfit(f"belongs to another user (number {st.st_uid})")
    place = next(d for d in target.parents if d.exists())
    if not place.is_dir():
        raise Unfit(f"cannot be written: {place} is not a directory")
    if not os.access(place, os.W_OK | os.X_OK):
        raise Unfit(f"cannot be written: {place} is read-only")


def missing_directories(path: Path) -> list[Path]:
    """The directories above a file that are not there yet, the outermost first."""
    return [d for d in reversed(path.parents) if not d.exists()]


def carry_out(changes: Sequence[Change]) -> None:
    """Make the changes in their order. On an error those made are taken back. Raises Unfit, OSError.

    A kill leaves each file as it was or as it should be.
    """
    done: list[Change] = []
    try:
        for change in changes:
            if read(change.path) != change.before:
                raise Unfit("was changed by somebody else just now")
            _make(change)
            done.append(change)
    except BaseException:
        for change in reversed(done):
            with contextlib.suppress(OSError, Unfit):
                _make(Change(change.path, change.after, change.before, change.mode))
        raise


def _make(change: Change) -> None:
    if change.after is None:
        disk.remove(change.path, missing_ok=True)
        disk.sync_directory(change.path.parent)
        return
    for directory in missing_directories(change.path):
        disk.make_directory(directory, mode=0o777 & ~umask())
        _give(directory)
    if change.new:
        target = change.path.parent.resolve() / change.path.name
    else:
        target = Path(os.path.realpath(change.path))
    owner: tuple[int, int] | None
    if not change.new and target.exists():
        st = os.stat(target)
        mode, owner = stat.S_IMODE(st.st_mode), (st.st_uid, st.st_gid)
    else:
        mode, owner = change.mode & (~umask() | 0o600), _owner_of(target.parent)
    name = f".{target.name}.ckpt-{os.getpid()}.tmp"
    write = disk.place if change.new else disk.replace
    write(target, change.after, mode=mode, owner=owner, temporary=name)


def _owner_of(directory: Path) -> tuple[int, int] | None:
    """Whose a new file is: the directory's owner's where root makes it, else the process's own."""
    st = os.stat(directory)
    return (st.st_uid, st.st_gid) if os.geteuid() == 0 and st.st_uid != 0 else None


def _give(directory: Path) -> None:
    owner = _owner_of(directory.parent)
    if owner is not None:
        os.chown(directory, *owner)


def sweep(path: Path) -> None:
    """Remove what a kill left beside a file, or beside the file that it links to. Nobody else may be at work on it."""
    for target in {path, Path(os.path.realpath(path))}:
        ours = re.compile(rf"\.{re.escape(target.name)}(?:\.before-ckpt(?:\.\d+)?)?\.ckpt-\d+\.tmp")
        with contextlib.suppress(OSError):
            for name in os.listdir(target.parent):
                if ours.fullmatch(name):
                    disk.remove(target.parent / name, missing_ok=True)
