"""Where stores live: made, opened, followed when their workspace moves, forgotten; and the configuration in force."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from checkpointer import disk
from checkpointer.config import Config
from checkpointer.errors import Failed, ReadOnlyStore, Usage
from checkpointer.lock import Lock
from checkpointer.places import (
    Place,
    by_digest,
    digest,
    exactly,
    home_directory,
    imported,
    known_facts,
    locate,
    moved,
    nearby,
    places,
    store_name,
    stores,
    within,
)
from checkpointer.workspace import guard
from checkpointer.workspace.entry import show

if TYPE_CHECKING:
    from checkpointer.workspace.workspace import Workspace

__all__ = [
    "Place",
    "accept",
    "adopt",
    "configuration",
    "exactly",
    "find",
    "forget",
    "home_directory",
    "imported",
    "locate",
    "make",
    "nearby",
    "open_place",
    "places",
    "planted",
    "planting",
    "refuse_imported",
    "store_name",
    "stores",
    "sweep",
    "within",
]


def open_place(place: Place, *, read_only: bool = False) -> Workspace:
    """The workspace of a place. When it may be written, a store whose workspace moved follows it first.

    Raises ReadOnlyStore, also for a store that only holds a run from elsewhere; Busy, Damaged.
    """
    from checkpointer.workspace.workspace import Workspace

    if not read_only:
        refuse_imported(place.directory)
    followed = not read_only and place.state == "moved"
    if followed:
        place = _follow(place)
    workspace = Workspace(place.root, place.directory, read_only=read_only)
    if followed and place.old is not None:
        workspace.notices.append(f"this directory was {show(place.old)}; its store has followed")
    return workspace


def refuse_imported(directory: Path) -> None:
    """Raises `ReadOnlyStore` for a store that holds a run from elsewhere, to be looked at."""
    known = imported(directory)
    if known is None:
        return
    handle = known.get("handle", "a run")
    raise ReadOnlyStore(
        f"this is {handle}, imported to be looked at: its files were never here, and it stands where it came from",
        kept="nothing was written",
        next=("ckpt restore P --to DIR (its files, elsewhere)", f"ckpt fork {handle} DIR (go on from it)"),
    )


def find(start: bytes, *, read_only: bool = False) -> Workspace | None:
    """The workspace that a directory belongs to, or None; makes nothing."""
    place = locate(start)
    return None if place is None else open_place(place, read_only=read_only)


def make(root: bytes, *, force_root: bool = False) -> Workspace:
    """The workspace at exactly this directory; its store is made if there is none.

    What a person should know about the place stands in the workspace's `notices`. Raises RefusedRoot, Usage where the
    directory is none, ReadOnlyStore, NoSpace, Failed.
    """
    from checkpointer.workspace import facts
    from checkpointer.workspace.shadow.store import Store
    from checkpointer.workspace.workspace import Workspace

    root = guard.real(root)
    try:
        if not stat.S_ISDIR(os.stat(root).st_mode):
            raise Usage(f"{show(root)} is not a directory", kept="nothing was written")
    except OSError as e:
        raise Usage(f"{show(root)} cannot be a workspace: {e.strerror}", kept="nothing was written") from e
    known = by_digest()
    directory = known.get(digest(root))
    if directory is not None:
        refuse_imported(directory)
        return Workspace(root, directory)
    came = moved([root], known)
    if came is not None:
        return open_place(came)
    if not force_root:
        guard.refuse(root, os.fsencode(stores()))
    directory = stores() / store_name(root)
    with disk.plain_errors(f"making a store in {stores()}"):
        _make_private(stores())
        disk.make_directory(directory)
        with Lock(directory / "lock").held("making the store"):
            if not (directory / "shadow.git").is_dir():
                Store.create(directory / "shadow.git")
            if not (directory / "workspace.toml").exists():
                st = os.stat(root)
                facts.save(directory, facts.Facts(path=root, dev=st.st_dev, ino=st.st_ino, born=guard.born(root)))
        disk.sync_directory(directory.parent)
    workspace = Workspace(root, directory)
    workspace.notices.extend(guard.notes(root, os.fsencode(directory)))
    workspace.notices.extend(_lookalikes(root, known))
    return workspace


def _lookalikes(root: bytes, known: Mapping[str, Path]) -> Iterator[str]:
    """Stores that may be this directory's older one, but nothing proves it."""
    st = os.stat(root)
    for directory in known.values():
        facts = known_facts(directory)
        if facts is not None and (facts.dev, facts.ino) == (st.st_dev, st.st_ino) and not os.path.lexists(facts.path):
            yield f"a new store was made; this may once have been {show(facts.path)}, which is gone: ckpt workspaces"


def _make_private(directory: Path) -> None:
    """Make a directory and what is missing above it, 0700. A directory of another user's is not taken."""
    for missing in reversed([d for d in (directory, *directory.parents) if not d.exists()]):
        disk.make_directory(missing)
    beside_temporary_files = (d for d in directory.parents if d.name == f"ckpt-{os.getuid()}")
    for mine in (directory, *beside_temporary_files):
        owner = os.stat(mine).st_uid
        if owner != os.getuid() and os.getuid() != 0:
            raise ReadOnlyStore(f"{mine} belongs to another user (number {owner})", next=("set CKPT_HOME",))


def adopt(root: bytes, place: Place) -> Place:
    """Give a directory the store of another one that is gone. Its files stay as they are.

    Raises Usage where the directory has a store or may not be a workspace, or where the other one is still there;
    Busy, ReadOnlyStore, Failed.
    """
    root = guard.real(root)
    if not os.path.isdir(root):
        raise Usage(f"{show(root)} is not a directory", kept="nothing was written")
    if place.root == root:
        raise Usage(f"{show(root)} has this store already", kept="nothing was written")
    if os.path.lexists(place.root):
        raise Usage(
            f"{show(place.root)} is still there, and its store is its own",
            kept="nothing was written",
            next=(f"ckpt restore P --to {show(root)}",),
        )
    own = by_digest().get(digest(root))
    if own is not None:
        raise Usage(
            f"{show(root)} has a store of its own",
            kept="nothing was written",
            next=(f"ckpt forget {show(root)}", "then the same again"),
        )
    guard.refuse(root, os.fsencode(stores()))
    return _follow(Place(root, place.directory, "moved", place.root))


def _follow(place: Place) -> Place:
    directory = stores() / store_name(place.root)
    with Lock(place.directory / "lock").held("following a moved workspace"), disk.plain_errors(str(directory)):
        if directory.exists():
            raise Failed(f"{directory} is in the way", next=("ckpt doctor",))
        disk.rename(place.directory, directory)
        disk.sync_directory(directory.parent)
        _note_identity(directory, place.root)
    return Place(place.root, directory, "here", place.old)


def _note_identity(directory: Path, root: bytes) -> None:
    from checkpointer.workspace import facts

    st = os.stat(root)
    known = facts.load(directory)
    known.path, known.dev, known.ino, known.born = root, st.st_dev, st.st_ino, guard.born(root)
    facts.save(directory, known)


def accept(workspace: Workspace) -> None:
    """From now on the directory that stands at the workspace's path is the one its store belongs to."""
    with contextlib.suppress(FileNotFoundError), workspace.locked("noting which directory this is"):
        _note_identity(workspace.directory, workspace.root)


def forget(place: Place) -> None:
    """Delete a store: its checkpoints and its runs. The workspace is not touched.

    Raises Busy while another process works on it or one of its runs has a live owner; Failed, ReadOnlyStore.
    """
    with contextlib.ExitStack() as held, disk.plain_errors(f"deleting {place.directory}"):
        held.enter_context(Lock(place.directory / "lock").held("forgetting the workspace"))
        for lock in sorted(place.directory.glob("runs/*/lock")):
            held.enter_context(Lock(lock).held("forgetting the workspace", wait=0))
        gone = place.directory.with_name(f".{place.directory.name}.{os.getpid()}.forgotten")
        disk.rename(place.directory, gone)  # from here on there is no store, whatever stops us
        disk.sync_directory(gone.parent)
        _delete(gone)


def _delete(directory: Path) -> None:
    for where, directories, files in os.walk(directory, topdown=False):
        for name in files:
            disk.remove(os.path.join(where, name), missing_ok=True)
        for name in directories:
            inside = os.path.join(where, name)
            disk.remove(inside) if os.path.islink(inside) else disk.remove_directory(inside)
    disk.remove_directory(directory)


def sweep() -> None:
    """Finish deletions that were cut short."""
    for left in (*stores().glob(".*.forgotten"), *stores().glob(".*.planted")):
        if left.suffix == ".planted" and _at_work(left):
            continue
        with contextlib.suppress(OSError):
            _delete(left)


@contextlib.contextmanager
def planting(root: bytes) -> Iterator[Path]:
    """A directory in which to make the store of `root`; `planted` gives it its name. What was not is removed.

    A kill leaves it under a name that nobody looks at, until `sweep`. Raises `ReadOnlyStore`, `NoSpace`, `Failed`.
    """
    with disk.plain_errors(f"making a store in {stores()}"):
        sweep()
        _make_private(stores())
        directory = stores() / f".{store_name(root)}.{os.getpid()}.planted"
        disk.make_directory(directory)
        try:
            yield directory
        finally:
            if directory.exists():
                _delete(directory)


def planted(directory: Path, root: bytes) -> Path:
    """Put what was made in its place, durably and in one step. Raises `Usage` where `root` got a store meanwhile."""
    target = stores() / store_name(root)
    os.close(disk.open_lock(directory / "lock"))
    disk.sync_directory(directory)
    try:
        disk.rename(directory, target)
    except OSError as e:
        if target.exists():
            raise Usage(f"{show(root)} has got a store meanwhile", kept="nothing was written") from e
        raise
    disk.sync_directory(target.parent)
    return target


def _at_work(directory: Path) -> bool:
    """Does the process live that makes a store there?"""
    from checkpointer import machine

    pid = directory.name.split(".")[-2]
    return pid.isdigit() and int(pid) != os.getpid() and machine.started(int(pid)) != machine.GONE


def configuration() -> Config:
    """The configuration in force; what it says of secrets is in force from here on."""
    found = Config()
    usual = all(found.origin(name) == "default" for name in ("secrets.redact", "secrets.pattern"))
    if usual and "checkpointer.redaction" not in sys.modules:
        return found  # its own rules will be in force when it is loaded
    from checkpointer import redaction

    try:
        redaction.use(redaction.rules(bool(found["secrets.redact"]), str(found["secrets.pattern"])))
    except ValueError as e:
        found.problems.append(f"{found.path}: secrets.pattern should be {e}; it is not used")
        redaction.use(redaction.rules(bool(found["secrets.redact"])))
    return found
