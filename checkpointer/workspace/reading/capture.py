"""The workspace as it is now, as the tree of a checkpoint: everything that is ours, or an error, never less."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from hashlib import blake2b

from checkpointer.collector import uncollected
from checkpointer.workspace.entry import PERMISSIONS, below, show
from checkpointer.workspace.odb.objects import MemorySink, Objects, Sink
from checkpointer.workspace.odb.packs import PackedObjects
from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.project.gitdir import git_at
from checkpointer.workspace.reading.contents import COARSE_SLACK_NS
from checkpointer.workspace.reading.found import Found, Unread
from checkpointer.workspace.reading.gathering import Gathering
from checkpointer.workspace.reading.listing import FOREIGN
from checkpointer.workspace.reading.ours import Ours
from checkpointer.workspace.reading.present import Present
from checkpointer.workspace.reading.reader import failed
from checkpointer.workspace.reading.survey import Progress, survey
from checkpointer.workspace.reading.table import REPOSITORY, Header, Record, Table, unpack_seen
from checkpointer.workspace.reading.terms import Terms
from checkpointer.workspace.rules.gitindex import Tracked
from checkpointer.workspace.rules.ignore import Rules
from checkpointer.workspace.rules.indexfile import stamp
from checkpointer.workspace.trees.extras import Extras
from checkpointer.workspace.trees.tree import Tree, write_root

__all__ = ["LIMIT", "Present", "Progress", "capture"]

LIMIT = 1 << 30
"""Bytes above which a file that was never covered is listed as too large."""

NO_WAY_BACK = "a repository is in no checkpoint, so no undo brings it back"
"""How the notice ends that a `.git` which was there is not."""


def capture(
    root: bytes,
    *,
    store_dir: bytes,
    base: Tree | None,
    table: Table,
    sink: Sink,
    limit: int = LIMIT,
    must_cover: Collection[bytes] = (),
    progress: Progress | None = None,
    jobs: int | None = None,
    borrow: bool = True,
) -> Present:
    """Read the workspace at `root` (absolute) and add to `sink` whatever of it is not stored.

    `store_dir` is never looked into, wherever it is. `base` is the newest checkpoint: what it covers stays ours, its
    usual modes are inherited, and what cannot be read now keeps the content it has there. `table` says what need not
    be read again; it is brought up to date in memory, to be saved when the checkpoint is durable. `must_cover` are
    paths to be captured whatever rules and sizes say; where they are unreadable and belong to us, they are made
    readable for the moment. `jobs` is the number of processes, None for as many as pay. Without `borrow`, a first
    checkpoint takes nothing from the project's own git.

    Raises `CaptureFailed` where anything that is ours could not be read completely, and what the sink raises; then the
    table is as it was and no process of ours is left. What was added to the sink then is of no use.
    """
    stored = _stored(base, sink)
    old = _usable(table, base, stored)
    gathering = Gathering(sink, stored)
    tracked = Tracked(root)
    stamps = _stamps(root, old.records)
    same_base = base is not None and old.header.root == base.root
    same = same_base and old.header.tracked == _identity(tracked, stamps)
    ours = Ours(Rules(root), tracked, base, must_cover)
    with uncollected(), _opened(root) as fd:
        terms = _terms(root, os.fstat(fd).st_dev, store_dir, ours, same, stored, old.header, limit)
        look = partial(survey, sink=gathering, table=old, fd=fd, jobs=jobs, progress=progress)
        files, found = _walked(terms, sink, look, borrow=borrow and base is None and not must_cover)
        usual = _choose_modes(found) if base is None else terms.usual
        records = _merged(old.records, found)
        if base is not None and same_base and not (found.changed or found.removed or found.unread):
            root_id = base.root
        else:
            gathering.everything = True
            root_id = _assemble(files, usual, base, records, found.unread, gathering)
    gone = {path for path, r in old.records.items() if r[REPOSITORY]}
    gone -= {path for path, r in records.items() if r[REPOSITORY]}
    stamps = {path: stamps.get(path, b"") for path, r in records.items() if r[REPOSITORY]}
    if old is not table:
        table.forget()
    table.update(Header(root_id, usual, _identity(tracked, stamps), terms.started_ns), found.changed, found.removed)
    return Present(
        tree=_tree(gathering, root_id, base),
        records=records,
        unread=found.unread,
        rules=ours.rules,
        files=Record(*records[""]).below,
        bytes_read=found.tally.bytes,
        notices=[*tracked.notices, *map(_gone, sorted(gone))],
    )


def _walked(
    terms: Terms, sink: Sink, look: Callable[[Terms], tuple[bytes, Found]], *, borrow: bool
) -> tuple[bytes, Found]:
    """What the walk found. With `borrow` what the project's git has is left unread, unless it vanishes meanwhile."""
    if borrow and isinstance(sink, PackWriter):
        from checkpointer.workspace.lending.loan import offered

        loan = offered(terms.root, terms.limit, terms.started_ns)
        if loan is not None:
            with contextlib.closing(loan):
                files, found = look(terms._replace(loan=loan))
                if loan.copy(found.tally.lent, sink):
                    return files, found
    return look(terms)


def _tree(gathering: Gathering, root: bytes, base: Tree | None) -> Tree:
    """The present as a tree; the newest checkpoint's own where nothing changed."""
    if base is None:
        return Tree(gathering, root, "the present")
    return Tree(gathering, root, base.name if root == base.root else "the present", base.decoded)


def _gone(directory: str) -> str:
    git = os.fsencode(f"{directory}/.git" if directory else ".git")
    return f"{show(git)} is gone: {NO_WAY_BACK}"


def _terms(
    root: bytes,
    device: int,
    store_dir: bytes,
    ours: Ours,
    ours_same: bool,
    stored: Objects | None,
    header: Header,
    limit: int,
) -> Terms:
    now = time.time_ns()
    return Terms(
        root=root,
        device=device,
        store=_identity_of(store_dir),
        started_ns=now,
        trusted_before_ns=now - COARSE_SLACK_NS if now < header.started_ns else None,
        ours=ours,
        ours_same=ours_same,
        objects=stored,
        limit=limit,
        usual=header.usual,
        reopenable=isinstance(stored, MemorySink),
    )


@contextlib.contextmanager
def _opened(root: bytes) -> Iterator[int]:
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as e:
        raise failed(b"", e) from e
    try:
        yield fd
    finally:
        os.close(fd)


def _stored(base: Tree | None, sink: Sink) -> Objects | None:
    if isinstance(sink, MemorySink):
        return sink
    if base is not None:
        return base.objects
    return sink.objects if isinstance(sink, PackWriter) else None


def _usable(table: Table, base: Tree | None, stored: Objects | None) -> Table:
    """The table, or an empty one with the usual modes where its records cannot belong to what is stored."""
    usual = base.extras.usual_modes() if base is not None else Header().usual
    header = table.header
    if isinstance(stored, PackedObjects) and stored.doubts:
        table = Table()  # its records rest on objects that may be gone: read every file
    if base is not None and table.records and header.root and header.usual == usual:
        known = header.root == base.root or (stored is not None and header.root in stored)
        if known:
            return table
    empty = Table()
    empty.header = Header(usual=usual)
    return empty


def _identity_of(directory: bytes) -> tuple[int, int] | None:
    try:
        st = os.stat(directory)
    except OSError:
        return None
    return st.st_dev, st.st_ino


def _stamps(root: bytes, records: Mapping[str, Record]) -> dict[str, bytes]:
    """What the index of each nested repository that is known looks like."""
    out = {}
    for path, record in records.items():
        if record[REPOSITORY] and path:
            git = git_at(os.path.join(root, os.fsencode(path)))
            out[path] = b"none" if git is None else stamp(os.path.join(git.path, b"index"))
    return out


def _identity(tracked: Tracked, stamps: Mapping[str, bytes]) -> bytes:
    digest = blake2b(tracked.identity, digest_size=16)
    for path in sorted(stamps):
        if path:
            digest.update(b"\0%b\0%b" % (os.fsencode(path), stamps[path]))
    return digest.digest()


def _choose_modes(found: Found) -> tuple[int, int, int]:
    """The most common mode of files, of executables and of directories; the records say the exceptions from them."""
    chosen = []
    for kind, default in zip(("file", "executable", "dir"), Header().usual, strict=True):
        counts = [(-n, mode) for (k, mode), n in found.tally.modes.items() if k == kind]
        chosen.append(min(counts)[1] if counts else default)
    usual = chosen[0], chosen[1], chosen[2]
    if usual != Header().usual:
        found.changed = {path: _with_modes(record, usual) for path, record in found.changed.items()}
    return usual


def _with_modes(record: Record, usual: tuple[int, int, int]) -> Record:
    """The record with its exceptions from other usual modes."""
    own, *entries = unpack_seen(record.seen)
    modes: dict[str, int] = {}
    if own[0] & PERMISSIONS != usual[2]:
        modes[""] = own[0] & PERMISSIONS
    uncovered = record.own.get("uncovered", {})
    for e in entries:
        if type(e) is tuple and (e[1][0] & 0o170000) == 0o100000 and e[0] not in uncovered and e[0] != ".git":
            mode = e[1][0] & PERMISSIONS
            if mode != usual[mode & 0o100 != 0]:
                modes[e[0]] = mode
    rest = {section: values for section, values in record.own.items() if section != "modes"}
    return record._replace(own={**rest, "modes": modes} if modes else rest)


def _merged(records: Mapping[str, Record], found: Found) -> dict[str, Record]:
    merged = dict(records)
    for path in found.removed:
        merged.pop(path, None)
    merged.update(found.changed)
    return merged


def _assemble(
    files: bytes,
    usual: tuple[int, int, int],
    base: Tree | None,
    records: Mapping[str, Record],
    unread: Mapping[str, Unread],
    sink: Gathering,
) -> bytes:
    """Write `extras.json` and the root tree."""
    modes: dict[bytes, int] = {}
    directories: set[bytes] = set()
    fifos: dict[bytes, int] = {}
    uncovered: dict[bytes, str] = {}
    torn: set[bytes] = set()
    for path, packed in records.items():
        record = Record(*packed)
        if not record.tree and path:
            directories.add(os.fsencode(path))
        if not record.own:
            continue
        prefix = path + "/" if path else ""
        for section, target in (("modes", modes), ("fifos", fifos), ("uncovered", uncovered)):
            for name, value in record.own.get(section, {}).items():
                target[os.fsencode(prefix + name if name else path)] = value
        torn.update(os.fsencode(prefix + name) for name in record.own.get("torn", {}))
    for path, what in unread.items():
        where = os.fsencode(path)
        uncovered[where] = what.reason
        if what.tree is not None and base is not None:
            _keep_below(where, what, base.extras, usual, modes, directories, fifos, uncovered, torn)
    extras = Extras(*usual, modes, frozenset(directories), fifos, uncovered, frozenset(torn))
    return write_root(sink, files, extras)


def _keep_below(
    where: bytes,
    what: Unread,
    was: Extras,
    usual: tuple[int, int, int],
    modes: dict[bytes, int],
    directories: set[bytes],
    fifos: dict[bytes, int],
    uncovered: dict[bytes, str],
    torn: set[bytes],
) -> None:
    """What the checkpoint before said of a directory that cannot be read now, and of everything in it, holds on."""

    def inside(paths: Iterable[bytes]) -> list[bytes]:
        return [p for p in paths if below(p, where)]

    modes.update((p, was.modes[p]) for p in inside(was.modes))
    directories.update(inside(was.directories))
    fifos.update((p, was.fifos[p]) for p in inside(was.fifos))
    uncovered.update((p, was.uncovered[p]) for p in inside(was.uncovered) if p != where)
    torn.update(inside(was.torn))
    if what.reason != FOREIGN:  # of a mount point, what is below the mount was meant
        modes.pop(where, None)
        mode = what.stat[0] & PERMISSIONS
        if mode != usual[2]:
            modes[where] = mode
