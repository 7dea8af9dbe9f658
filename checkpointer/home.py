"""Where stores live and which one belongs to a directory.

A store's directory is named after the workspace's path (`<name>-<16 hex of the path's digest>`), so that finding it
needs one listing and survives a damaged `workspace.toml`. It is renamed when it follows its workspace to another path.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from checkpointer import disk
from checkpointer.config import Config, base_directory
from checkpointer.errors import CheckpointerError, Failed, ReadOnlyStore, Usage
from checkpointer.workspace import guard
from checkpointer.workspace.entry import show

if TYPE_CHECKING:
    from checkpointer.workspace.workspace import Workspace

State = Literal["here", "gone", "remade", "moved"]


class Place(NamedTuple):
    """A workspace and its store. `here`: as it was. `gone`: there is no such directory now. `remade`: another directory
    stands at the old path. `moved`: the directory came here from `old`, and its store has not followed yet.
    """

    root: bytes
    directory: Path
    state: State
    old: bytes | None = None


def home_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """`$CKPT_HOME`, else `ckpt` in the user's state directory. It need not exist."""
    named = environ.get("CKPT_HOME", "")
    return Path(os.path.abspath(named)) if named else base_directory("state", environ) / "ckpt"


def stores() -> Path:
    """The directory that holds every store."""
    return home_directory() / "workspaces"


def store_name(root: bytes) -> str:
    """The name of the store of a workspace at this resolved path."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", os.fsdecode(os.path.basename(root)))[:40].strip("._-") or "root"
    return f"{name}-{_digest(root)}"


def _digest(root: bytes) -> str:
    return hashlib.sha256(root).hexdigest()[:16]


def _by_digest() -> dict[str, Path]:
    try:
        names = os.listdir(stores())
    except OSError:
        return {}
    found = {}
    for name in names:
        directory = stores() / name
        if re.fullmatch(r".+-[0-9a-f]{16}", name) and _is_store(directory):
            found[name[-16:]] = directory
    return found


def _is_store(directory: Path) -> bool:
    """Was making it finished? A directory that a kill left half-made is taken up by the next `make`."""
    return (directory / "shadow.git").is_dir() or (directory / "workspace.toml").exists()


class _Known(NamedTuple):
    """The directory that a store was made for."""

    path: bytes
    dev: int
    ino: int
    born: int

    def is_another(self, path: bytes, st: os.stat_result) -> bool:
        """Is what stands at `path` surely another directory than the store was made for?

        Device numbers change at a restart on some file systems: they are not asked.
        """
        if self.ino not in (0, st.st_ino):
            return True
        return bool(self.born) and guard.born(path) not in (0, self.born)


def _facts(directory: Path) -> _Known | None:
    """What the store was made for; None where that cannot be read."""
    from checkpointer.workspace.facts import load

    try:
        facts = load(directory)
    except CheckpointerError:
        return None
    return _Known(facts.path, facts.dev, facts.ino, facts.born)


def _state(root: bytes, directory: Path) -> State:
    try:
        st = os.stat(root)
    except OSError:
        return "gone"
    if not stat.S_ISDIR(st.st_mode):
        return "gone"
    known = _facts(directory)
    return "remade" if known is not None and known.is_another(root, st) else "here"


def places() -> list[Place]:
    """Every store, by its workspace's path; the path is empty where `workspace.toml` is damaged."""
    found = []
    for directory in _by_digest().values():
        known = _facts(directory)
        root = known.path if known is not None else b""
        found.append(Place(root, directory, _state(root, directory) if root else "gone"))
    return sorted(found, key=lambda p: (p.root, p.directory))


def _levels(start: bytes) -> Iterator[bytes]:
    """The directories in which a search for a store looks, from `start` upward."""
    path = start
    tops = {guard.real(h) for h in guard.home_directories()}
    mounts = guard.mounts()
    while True:
        yield path
        if path == b"/" or path in tops or path in mounts or os.path.ismount(path):
            return
        if os.path.lexists(os.path.join(path, b".git")):
            return
        path = os.path.dirname(path)
        if guard.never_climb_to(path):
            return


def locate(start: bytes) -> Place | None:
    """The workspace that `start` (any spelling, existing or not) belongs to, or None. Reads, never writes."""
    start = guard.real(start)
    known = _by_digest()
    if not known:
        return None
    passed = []
    found = None
    for level in _levels(start):
        directory = known.get(_digest(level))
        if directory is not None:
            found = Place(level, directory, _state(level, directory))
            break
        passed.append(level)
    return _moved(passed, known) or found if passed else found


def _moved(levels: list[bytes], known: Mapping[str, Path]) -> Place | None:
    """A store whose workspace was moved to one of `levels`: the nearest one that is proven."""
    inodes: dict[tuple[int, int], bytes] = {}
    for level in reversed(levels):
        with contextlib.suppress(OSError):
            st = os.stat(level)
            inodes[st.st_dev, st.st_ino] = level
    hits = []
    for directory in known.values():
        facts = _facts(directory)
        if facts is None or (facts.dev, facts.ino) not in inodes or os.path.lexists(facts.path):
            continue
        root = inodes[facts.dev, facts.ino]
        if not facts.is_another(root, os.stat(root)) and _same_entries(root, directory):
            hits.append(Place(root, directory, "moved", facts.path))
    return max(hits, key=lambda p: len(p.root), default=None)


def _same_entries(root: bytes, directory: Path) -> bool:
    """Are at least half of the top-level entries that the store's last scan saw here, with the same inodes?"""
    seen = _top_level(directory / "scan")
    there = 0
    for name, inode in seen.items():
        with contextlib.suppress(OSError):
            there += os.lstat(os.path.join(root, os.fsencode(name))).st_ino == inode
    return bool(seen) and there * 2 >= len(seen)


def _top_level(scan: Path) -> dict[str, int]:
    """The inodes of the top-level entries as the last capture saw them, by name."""
    from checkpointer.workspace.table import SEEN, Table, unpack_seen

    seen: dict[str, int] = {}
    for path in scan.glob("*"):
        records = Table.load(path).records if path.is_file() else {}
        if "" not in records:
            continue
        for item in unpack_seen(records[""][SEEN])[1:]:
            if isinstance(item, str):
                if item in records:
                    seen[item] = unpack_seen(records[item][SEEN])[0][1]
            else:
                seen[item[0]] = item[1][1]
    return seen


def nearby(start: bytes) -> list[Place]:
    """Stores of directories above, below or beside `start`, for a message."""
    start = guard.real(start)
    beside = os.path.dirname(start)
    found = []
    for place in places():
        below = place.root.startswith(start.rstrip(b"/") + b"/")
        above = start.startswith(place.root + b"/")
        if place.root and (below or above or os.path.dirname(place.root) == beside):
            found.append(place)
    return found


def exactly(path: bytes) -> Place | None:
    """The store of exactly this directory (any spelling, existing or not), or the store that stands at `path`."""
    path = guard.real(path)
    directory = _by_digest().get(_digest(path))
    if directory is not None:
        return Place(path, directory, _state(path, directory))
    return next((p for p in places() if os.fsencode(p.directory.resolve()) == path), None)


def forget(place: Place) -> None:
    """Delete a store: its checkpoints and its runs. The workspace is not touched.

    Raises Busy while another process works on it or one of its runs has a live owner; Failed, ReadOnlyStore.
    """
    with contextlib.ExitStack() as held, disk.plain_errors(f"deleting {place.directory}"):
        held.enter_context(disk.Lock(place.directory / "lock").held("forgetting the workspace"))
        for lock in sorted(place.directory.glob("runs/*/lock")):
            held.enter_context(disk.Lock(lock).held("forgetting the workspace", wait=0))
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
    for left in stores().glob(".*.forgotten"):
        with contextlib.suppress(OSError):
            _delete(left)


def within(root: bytes) -> list[Place]:
    """Stores of workspaces that lie inside this one."""
    return [p for p in places() if p.root.startswith(root.rstrip(b"/") + b"/")]


def open_place(place: Place, *, read_only: bool = False) -> Workspace:
    """The workspace of a place. When it may be written, a store whose workspace moved follows it first.

    Raises ReadOnlyStore, Busy, Damaged.
    """
    from checkpointer.workspace.workspace import Workspace

    if not read_only and place.state == "moved":
        place = _follow(place)
    return Workspace(place.root, place.directory, read_only=read_only)


def find(start: bytes, *, read_only: bool = False) -> Workspace | None:
    """The workspace that a directory belongs to, or None; makes nothing."""
    place = locate(start)
    return None if place is None else open_place(place, read_only=read_only)


def _follow(place: Place) -> Place:
    directory = stores() / store_name(place.root)
    with disk.Lock(place.directory / "lock").held("following a moved workspace"), disk.plain_errors(str(directory)):
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


def make(root: bytes, *, force_root: bool = False) -> Workspace:
    """The workspace at exactly this directory; its store is made if there is none.

    What a person should know about the place stands in the workspace's `notices`. Raises RefusedRoot, Usage where the
    directory is none, ReadOnlyStore, NoSpace, Failed.
    """
    from checkpointer.workspace import facts
    from checkpointer.workspace.store import Store
    from checkpointer.workspace.workspace import Workspace

    root = guard.real(root)
    try:
        if not stat.S_ISDIR(os.stat(root).st_mode):
            raise Usage(f"{show(root)} is not a directory", kept="nothing was written")
    except OSError as e:
        raise Usage(f"{show(root)} cannot be a workspace: {e.strerror}", kept="nothing was written") from e
    known = _by_digest()
    directory = known.get(_digest(root))
    if directory is not None:
        return Workspace(root, directory)
    moved = _moved([root], known)
    if moved is not None:
        return open_place(moved)
    if not force_root:
        guard.refuse(root, os.fsencode(stores()))
    directory = stores() / store_name(root)
    with disk.plain_errors(f"making a store in {stores()}"):
        _make_private(stores())
        disk.make_directory(directory)
        with disk.Lock(directory / "lock").held("making the store"):
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
        facts = _facts(directory)
        if facts is not None and (facts.dev, facts.ino) == (st.st_dev, st.st_ino) and not os.path.lexists(facts.path):
            yield f"a new store was made; this may once have been {show(facts.path)}, which is gone: ckpt workspaces"


def _make_private(directory: Path) -> None:
    """Make a directory and what is missing above it, 0700. A directory of another user's is not taken."""
    for missing in reversed([d for d in (directory, *directory.parents) if not d.exists()]):
        disk.make_directory(missing)
    owner = os.stat(directory).st_uid
    if owner != os.getuid() and os.getuid() != 0:
        raise ReadOnlyStore(f"{directory} belongs to another user (number {owner})", next=("set CKPT_HOME",))


def configuration() -> Config:
    """The configuration in force."""
    return Config()
