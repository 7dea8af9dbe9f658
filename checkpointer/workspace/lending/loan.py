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
from checkpointer.workspace.rules.indexfile import LARGEST, known_files

SLACK_NS = 100_000_000
COARSE_SLACK_NS = 2_000_000_000
_COARSE = 10_000_000

Offer = tuple[int, tuple[int, int, int], bytes, tuple[str, str]]
"""What `lstat` must say (as in `Known`), the blob, and the kind: files of a kind are converted alike, if at all."""

Offers = dict[str, dict[str, Offer]]
"""By directory and name."""

_NOTHING: Mapping[str, Offer] = {}


class Loan:
    """The offers for a workspace, by directory and name as the file system gives them. Close it at the end.

    `files` counts them, `others` what git tracks besides.
    """

    def __init__(self, offers: Offers, tracked: int, packs: ProjectPacks) -> None:
        self.files = sum(map(len, offers.values()))
        self.others = tracked - self.files
        self._offers = offers
        self._packs = packs

    def close(self) -> None:
        self._packs.close()

    def below(self, directory: str) -> Mapping[str, Offer]:
        """What is offered for the names in a directory."""
        return self._offers.get(directory, _NOTHING)

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
        if git is None or object_format(git) != "sha1":
            return None
        inner = root[len(git.top) :].strip(b"/")
        offers, tracked = _files(git, inner + b"/" if inner else b"", limit, started_ns)
        wanted = {offer[2] for here in offers.values() for offer in here.values()}
        packs = ProjectPacks(os.path.join(git.common, b"objects", b"pack"), wanted)
        sizes = packs.sizes
        if sizes:
            for where, here in offers.items():  # a blob of another size was made of the file, and is not it
                offers[where] = {name: o for name, o in here.items() if sizes.get(o[2]) == o[1][0]}
            return Loan(offers, tracked, packs)
        packs.close()
    return None


def _files(git: GitDir, prefix: bytes, limit: int, started_ns: int) -> tuple[Offers, int]:
    """The files below the prefix that are as git's index says, and as git took them in, by directory and name.

    Beside them, how many names the index has.

    Git may write a new index meanwhile: what is read is one or the other, whole, and not older than `written`.
    """
    path = os.path.join(git.path, b"index")
    written = min(os.stat(path).st_mtime_ns, started_ns)
    known, others = known_files(read_plain(path, limit=LARGEST, follow=True) or b"")
    tracked = {n.rpartition(b"/")[0] for n in others if n.endswith(NAME)}
    tracked.update(n.rpartition(b"/")[0] for n, _, _, _ in known if n.endswith(NAME))
    touched = Touched(git, tracked)
    fine, coarse = written - SLACK_NS, written - COARSE_SLACK_NS
    offers: Offers = {}
    inside: bytes | None = None
    for name, inode, seen, oid in known:
        size, mtime, ctime = seen
        before = fine if ctime % _COARSE else coarse
        if mtime >= before or ctime >= before or size > limit or not name.startswith(prefix):
            continue
        directory, _, last = name.rpartition(b"/")
        if directory != inside:
            inside = directory
            reach = touched.reach(directory)
            where = directory[len(prefix) :].decode(*ENCODING)
            top = where.partition("/")[0]
            here = offers.setdefault(where, {})
        if not reach or not reach.includes(last):
            text = last.decode(*ENCODING)
            here[text] = (inode, seen, oid, (top, text.rpartition(".")[2]))
    return offers, len(known) + len(others)
