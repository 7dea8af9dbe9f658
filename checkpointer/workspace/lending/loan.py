"""What a first checkpoint need not read: files that the project's git knows unchanged, whose blobs it has in a pack.

An index says what `lstat` said of each file when git last compared it with its blob. While inode, size, mtime and ctime
are all the same, and were not too near to the writing of the index, the file is the blob - unless git was told to look
away, or to convert, or is not sure itself: such files are not offered, and are read as ever.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Set

from checkpointer.workspace.entry import ENCODING
from checkpointer.workspace.lending.attributes import NAME, Touched
from checkpointer.workspace.lending.projectpacks import ProjectPacks
from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.project.gitdir import GitDir, git_above
from checkpointer.workspace.project.plainfile import read_plain
from checkpointer.workspace.rules.gitconfig import object_format
from checkpointer.workspace.rules.indexfile import LARGEST, Known, known_at, known_files

SLACK_NS = 100_000_000
COARSE_SLACK_NS = 2_000_000_000
_COARSE = 10_000_000

Offers = dict[str, dict[str, int]]
"""By directory and name, as the file system gives them: where in the index the entry of a file begins."""

_NOTHING: Mapping[str, int] = {}


class Loan:
    """The offers for a workspace. Close it at the end. `files` counts them, `others` what git tracks besides."""

    def __init__(self, index: bytes, offers: Offers, tracked: int, packs: ProjectPacks) -> None:
        self.files = sum(map(len, offers.values()))
        self.others = tracked - self.files
        self._index = index
        self._offers = offers
        self._packs = packs

    def close(self) -> None:
        self._packs.close()

    def below(self, directory: str) -> Mapping[str, int]:
        """What is offered for the names in a directory, to be asked of `known`."""
        return self._offers.get(directory, _NOTHING)

    def known(self, offer: int) -> Known:
        """What `lstat` must say of a file, and which blob it is then."""
        return known_at(self._index, offer)

    def copy(self, blobs: Set[bytes], writer: PackWriter) -> bool:
        """Add blobs that were offered. False where that cannot be done any more: read the files then."""
        return self._packs.copy(blobs, writer)


def offered(root: bytes, limit: int, started_ns: int) -> Loan | None:
    """What the project's git offers for the files up to `limit` bytes of a workspace; None where it is nothing.

    `started_ns` is the time of day. Never raises for anything that stands in the project.
    """
    with contextlib.suppress(OSError, ValueError):
        root = os.path.realpath(root)
        git = git_above(root)
        if git is None or object_format(git) != "sha1" or _replaced(git):
            return None
        directory = os.path.join(git.common, b"objects", b"pack")
        if not any(name.endswith(b".idx") for name in os.listdir(directory)):
            return None
        inner = root[len(git.top) :].strip(b"/")
        path = os.path.join(git.path, b"index")
        written = min(os.stat(path).st_mtime_ns, started_ns)  # what is read may be newer, and is one index, whole
        index = read_plain(path, limit=LARGEST, follow=True) or b""
        offers, wanted, tracked = _files(git, index, written, inner + b"/" if inner else b"", limit)
        packs = ProjectPacks(directory, wanted)
        if packs.sizes:
            _sized(index, offers, packs.sizes)
            packs.sizes.clear()
            return Loan(index, offers, tracked, packs)
        packs.close()
    return None


def _replaced(git: GitDir) -> bool:
    """Does the repository have objects that stand for others? A file may then be another blob than its index names."""
    loose = os.path.join(git.common, b"refs", b"replace")
    if os.path.lexists(loose) and (not os.path.isdir(loose) or os.listdir(loose)):
        return True
    packed = read_plain(os.path.join(git.common, b"packed-refs"), limit=LARGEST, follow=True)
    return b" refs/replace/" in (packed or b"")


def _files(git: GitDir, index: bytes, written: int, prefix: bytes, limit: int) -> tuple[Offers, set[bytes], int]:
    """The files below the prefix that are as git's index says, and as git took them in; their blobs.

    Beside them, how many names the index has. `written` is when it was written, or earlier.
    """
    touched = Touched(git)
    fine, coarse = written - SLACK_NS, written - COARSE_SLACK_NS
    offers: Offers = {}
    wanted: set[bytes] = set()
    told: list[bytes] = []
    tracked = 0
    inside: bytes | None = None
    for name, at in known_files(index):
        tracked += 1
        directory, _, last = name.rpartition(b"/")
        if last == NAME:
            told.append(directory)
        if at < 0 or not name.startswith(prefix):
            continue
        _, size, mtime, ctime, oid = known_at(index, at)
        if mtime >= fine or ctime >= fine or size > limit:
            continue
        if not ctime % _COARSE and (mtime >= coarse or ctime >= coarse):
            continue
        if directory != inside:
            inside = directory
            reach = touched.reach(directory) or None
            here = offers.setdefault(directory[len(prefix) :].decode(*ENCODING), {})
        if reach is None or not reach.includes(last):
            here[last.decode(*ENCODING)] = at
            wanted.add(oid)
    for directory in told:
        if not os.path.lexists(os.path.join(git.top, directory, NAME)):  # then git takes what it knows
            _take_back(offers, directory + b"/" if directory else b"", prefix)
    return offers, wanted, tracked


def _take_back(offers: Offers, directory: bytes, prefix: bytes) -> None:
    """Offer nothing in this directory and below it. Both are empty or end with `/`."""
    if prefix.startswith(directory):
        offers.clear()
    elif directory.startswith(prefix):
        inner = directory[len(prefix) :].decode(*ENCODING)
        for where in offers:
            if f"{where}/".startswith(inner):
                offers[where] = {}


def _sized(index: bytes, offers: Offers, sizes: Mapping[bytes, int]) -> None:
    """Only files whose blobs are there: one of another size was made of the file, and is not it."""
    for where, here in offers.items():
        offers[where] = {
            name: at
            for name, at in here.items()
            if sizes.get(index[at + 40 : at + 60]) == int.from_bytes(index[at + 36 : at + 40], "big")
        }
