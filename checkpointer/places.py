"""Which store a directory has: found by the path it is named after, upward, and where the directory was moved to.

A store's directory is named after the workspace's path (`<name>-<16 hex of the path's digest>`), so that finding it
needs one listing and survives a damaged `workspace.toml`. Nothing here writes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from checkpointer.config import base_directory
from checkpointer.errors import CheckpointerError, Failed
from checkpointer.workspace import guard

State = Literal["here", "gone", "remade", "moved", "imported"]

IMPORTED = "imported"
"""The file in a store that holds a run from elsewhere: what it was made of. Such a store can only be looked at."""


class Place(NamedTuple):
    """A workspace and its store. `here`: as it was. `gone`: there is no such directory now. `remade`: another directory
    stands at the old path. `moved`: the directory came here from `old`, and its store has not followed yet. `imported`:
    the store holds a run from elsewhere, to be looked at; the directory is but a name.
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
    return f"{name}-{digest(root)}"


def digest(root: bytes) -> str:
    """What the name of a store ends with."""
    return hashlib.sha256(root).hexdigest()[:16]


def by_digest() -> dict[str, Path]:
    """Every store's directory, by the digest of the path it is named after."""
    try:
        names = os.listdir(stores())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as e:
        raise Failed(
            f"{stores()} cannot be read: {e.strerror}", kept="nothing was written", next=("ckpt doctor",)
        ) from e
    found = {}
    for name in names:
        directory = stores() / name
        if re.fullmatch(r".+-[0-9a-f]{16}", name) and _is_store(directory):
            found[name[-16:]] = directory
    return found


def _is_store(directory: Path) -> bool:
    """Was making it finished? A directory that a kill left half-made is taken up by the next `make`."""
    return (directory / "shadow.git").is_dir() or (directory / "workspace.toml").exists()


class Known(NamedTuple):
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


def known_facts(directory: Path) -> Known | None:
    """What the store was made for; None where that cannot be read."""
    from checkpointer.workspace.facts import load

    try:
        facts = load(directory)
    except CheckpointerError:
        return None
    return Known(facts.path, facts.dev, facts.ino, facts.born)


def imported(directory: Path) -> dict[str, Any] | None:
    """What a store says of the bundle that it was made of; None where it was made of none.

    `run`, `handle`, `workspace` (a path in JSON: where the run's files were), `exported` (when), `manifest` (SHA-256).
    """
    try:
        found = json.loads((directory / IMPORTED).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _state(root: bytes, directory: Path) -> State:
    if os.path.exists(directory / IMPORTED):
        return "imported"
    try:
        st = os.stat(root)
    except OSError:
        return "gone"
    if not stat.S_ISDIR(st.st_mode):
        return "gone"
    known = known_facts(directory)
    return "remade" if known is not None and known.is_another(root, st) else "here"


def places() -> list[Place]:
    """Every store, by its workspace's path; the path is empty where `workspace.toml` is damaged."""
    found = []
    for directory in by_digest().values():
        known = known_facts(directory)
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
    known = by_digest()
    if not known:
        return None
    passed = []
    found = None
    for level in _levels(start):
        directory = known.get(digest(level))
        if directory is not None:
            found = Place(level, directory, _state(level, directory))
            break
        passed.append(level)
    return moved(passed, known) or found if passed else found


def moved(levels: list[bytes], known: Mapping[str, Path]) -> Place | None:
    """A store whose workspace was moved to one of `levels`: the nearest one that is proven."""
    inodes: dict[tuple[int, int], bytes] = {}
    for level in reversed(levels):
        with contextlib.suppress(OSError):
            st = os.stat(level)
            inodes[st.st_dev, st.st_ino] = level
    hits = []
    for directory in known.values():
        facts = known_facts(directory)
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
    from checkpointer.workspace.reading.table import Record, Table, unpack_seen

    seen: dict[str, int] = {}
    for path in scan.glob("*"):
        records = Table.load(path).records if path.is_file() else {}
        if "" not in records:
            continue
        for item in unpack_seen(Record(*records[""]).seen)[1:]:
            if isinstance(item, str):
                if item in records:
                    seen[item] = unpack_seen(Record(*records[item]).seen)[0][1]
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
    directory = by_digest().get(digest(path))
    if directory is not None:
        return Place(path, directory, _state(path, directory))
    return next((p for p in places() if os.fsencode(p.directory.resolve()) == path), None)


def within(root: bytes) -> list[Place]:
    """Stores of workspaces that lie inside this one."""
    return [p for p in places() if p.root.startswith(root.rstrip(b"/") + b"/")]
