"""What one listed directory holds that is ours: names sorted out, contents read where they can have changed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from functools import partial

from checkpointer.errors import CaptureFailed, Damaged
from checkpointer.workspace.directories import Directories
from checkpointer.workspace.entry import ENCODING, PERMISSIONS, show
from checkpointer.workspace.odb.objects import CHUNK, Sink
from checkpointer.workspace.reading.borrowing import Borrower
from checkpointer.workspace.reading.found import Tally
from checkpointer.workspace.reading.frame import Frame
from checkpointer.workspace.reading.listing import Listing, Seen, is_other_spelling
from checkpointer.workspace.reading.reader import (
    KEPT,
    Content,
    Moved,
    Unreadable,
    failed,
    is_gitdir_file,
    open_file,
    read_file,
    read_link,
    read_listed,
    stat_of,
)
from checkpointer.workspace.reading.rights import Rights
from checkpointer.workspace.reading.table import Stat, pack, unpack_seen
from checkpointer.workspace.reading.terms import Terms
from checkpointer.workspace.trees.gittree import EXECUTABLE, FILE, LINK, TREE, Item, decode_tree

SLACK_NS = 100_000_000
COARSE_SLACK_NS = 2_000_000_000
_COARSE = 10_000_000
_FORMAT = 0o170000
_SPECIAL = frozenset((".git", ".gitignore", ".ckptignore"))


def _reopen(root: bytes, path: bytes) -> int:
    with Directories(root) as directories:
        return directories.open_file(path)


class Contents:
    """Fills a `Frame` from its `Listing`."""

    def __init__(self, terms: Terms, sink: Sink, tick: Callable[[], None]) -> None:
        self.terms = terms
        self.sink = sink
        self.tally = Tally()
        self.tick = tick
        self.counting = terms.ours.base is None
        self.devices = {terms.device}
        """Where files of the workspace may lie: an overlay file system names the layer that a file comes from."""
        self._plain = 0 if terms.reopenable else min(CHUNK, terms.limit + 1)
        """Regular files smaller than this need no more than being read at once."""
        self._borrower = Borrower(terms.loan, sink)
        self.racy_from_ns = terms.started_ns - SLACK_NS
        self.coarse_racy_from_ns = terms.started_ns - COARSE_SLACK_NS

    def identify(self, frame: Frame, listing: Listing) -> bytes:
        """The identity of the rules for the names in this directory."""
        if frame.inside:
            return b""
        if not frame.rules:
            names = {os.fsencode(e[0]) for e in listing.entries[1:] if type(e) is tuple and e[0] in _SPECIAL}
            if listing.repository:
                names.add(b".git")
            frame.matcher = self.terms.ours.rules.at(os.fsencode(frame.path), fd=frame.fd, names=names)
            frame.rules = frame.matcher.identity
        return frame.rules

    def settle(self, frame: Frame, listing: Listing, *, last: bool) -> bool:
        """Sort the names out and read what must be read. False: the directory changed meanwhile, list it again.

        With `last` a name that vanished is left out, and one that cannot be held still raises `CaptureFailed`.
        """
        rules = self.identify(frame, listing)
        frame.clear()
        frame.rules = rules
        frame.repository = listing.repository
        if self.terms.loan is not None:
            frame.lent = self.terms.loan.below(frame.path)
        trusted, olds = self._trusted(frame)
        entries, subs = self._sort_out(frame, listing)
        seen: list[Stat | Seen] = [frame.stat]
        lent = frame.lent
        steady = True
        for e in entries:
            if isinstance(e, str):
                seen.append(e)
                continue
            try:
                oid = self._borrower.blob(frame, e[0], e[1], self.tally) if e[0] in lent and len(e) == 2 else None
                if oid is not None:
                    self._add(frame, e[0], e[1], e[0].encode(*ENCODING), oid)
                    seen.append(e)
                else:
                    self._entry(frame, e, trusted, olds, seen)
            except Moved:
                steady = False
                if last and _exists(e[0], frame.fd):
                    path = show(frame.path_of(e[0]))
                    raise CaptureFailed(f"{path} changes faster than it can be read", kept=KEPT, path=path) from None
            except OSError as e2:
                raise failed(frame.path_of(e[0]), e2) from e2
        frame.subs = tuple(subs)
        mode = frame.stat[0] & PERMISSIONS
        if self.counting:
            self.tally.modes["dir", mode] += 1
        if mode != self.terms.usual[2]:
            frame.note("modes", "", mode)
        frame.seen = pack(seen)
        now = stat_of(os.fstat(frame.fd))
        return last or (steady and now == frame.stat)

    def _trusted(self, frame: Frame) -> tuple[dict[str, Stat], dict[bytes, Item]]:
        """Signatures from the table that count, and the git tree that was made of them."""
        old = frame.old
        if old is None:
            return {}, {}
        before = self.terms.trusted_before_ns
        trusted = {
            e[0]: e[1]
            for e in unpack_seen(old.seen)[1:]
            if len(e) == 2 and type(e) is tuple and (before is None or (e[1][3] < before and e[1][4] < before))
        }
        try:
            return trusted, {item[0]: item for item in self.old_items(frame)} if trusted else {}
        except Damaged:
            return {}, {}  # everything in it is read again

    def old_items(self, frame: Frame) -> list[Item]:
        """The git tree of the record, files and links only. Raises `MissingObject`, `Damaged`."""
        old = frame.old
        if old is None or not old.tree or self.terms.objects is None:
            return []
        kind, data = self.terms.objects.get(old.tree)
        if kind != "tree":
            raise Damaged(f"object {old.tree.hex()} is a {kind}, not a tree")
        return [item for item in decode_tree(data) if item[1] != TREE]

    def _sort_out(self, frame: Frame, listing: Listing) -> tuple[list[Seen], list[str]]:
        """The listed names that are ours; those that a rule ignores are noted in the frame."""
        entries: list[Seen] = listing.entries[1:]  # type: ignore[assignment]
        if frame.inside:  # only what is ours was listed
            return entries, listing.subs
        old = frame.old if frame.old is not None and frame.old.rules == frame.rules else None
        unmatched: set[str] = set()
        matched: set[str] = set()
        if old is not None and not old.inside:
            matched.update(old.matched, old.kept)
            unmatched.update(e + "/" if isinstance(e, str) else e[0] for e in unpack_seen(old.seen)[1:])
            unmatched -= matched
        rules = frame.matcher
        assert rules is not None
        ours: list[Seen] = []
        subs: list[str] = []
        for e in entries:
            is_dir = type(e) is str
            name: str = e if is_dir else e[0]  # type: ignore[assignment]
            key = name + "/" if is_dir else name
            if key not in unmatched:
                if key in matched or rules.ignored(name.encode(*ENCODING), is_dir):
                    if not self.terms.ours.keeps(frame.path_of(name), is_dir):
                        frame.matched.append(key)
                        continue
                    frame.kept.append(key)
                if len(name) == 4 and is_other_spelling(name, frame.fd):
                    continue
            ours.append(e)
            if is_dir:
                subs.append(name)
        frame.matched.extend(listing.skipped)
        return ours, subs

    def _entry(
        self,
        frame: Frame,
        e: tuple[str, Stat] | tuple[str, Stat, str],
        trusted: dict[str, Stat],
        olds: dict[bytes, Item],
        seen: list[Stat | Seen],
    ) -> None:
        name, st = e[0], e[1]
        kind = st[0] & _FORMAT
        encoded = name.encode(*ENCODING)
        why = ""
        if len(e) == 3 and self._is_foreign(frame, name):
            why = e[2]
            self._tell(frame, name, why)
            self._add(frame, name, st, encoded, self._keep(frame, name, st))
        elif kind == stat.S_IFREG or kind == stat.S_IFLNK:
            old = olds.get(encoded)
            if old is not None and trusted.get(name) == st and (old[1] == LINK) == (kind == stat.S_IFLNK):
                oid = old[2]
            elif name == ".git" and (kind == stat.S_IFLNK or trusted.get(name) == st or is_gitdir_file(name, frame.fd)):
                frame.repository = True
                seen.append((name, st, "racy") if self._is_racy(st) else (name, st))
                return
            else:
                oid, st, why = self._content(frame, name, st)
            self._add(frame, name, st, encoded, oid)
        elif kind == stat.S_IFIFO:
            frame.note("fifos", name, st[0] & PERMISSIONS)
            frame.files += 1
        else:
            self._tell(frame, name, "socket" if kind == stat.S_IFSOCK else "device")
        seen.append((name, st, why) if why else (name, st))

    def _is_foreign(self, frame: Frame, name: str) -> bool:
        """Is the file, on another device than its directory, really on another file system: a mount of its own?"""
        st = os.stat(name, dir_fd=frame.fd, follow_symlinks=False)
        if stat.S_ISREG(st.st_mode):
            try:
                fd = open_file(name, frame.fd)
            except Unreadable:
                return True
            try:
                if os.fstatvfs(fd).f_fsid != os.fstatvfs(frame.fd).f_fsid:
                    return True
            finally:
                os.close(fd)
        self.devices.add(st.st_dev)
        return False

    def _add(self, frame: Frame, name: str, st: Stat, encoded: bytes, oid: bytes) -> None:
        """Into the git tree of the directory, if it has any content."""
        self.tally.files += 1
        if not oid:
            return
        frame.files += 1
        if st[0] & _FORMAT == stat.S_IFLNK:
            frame.items.append((encoded, LINK, oid))
            return
        mode = st[0] & PERMISSIONS
        executable = mode & 0o100 != 0
        frame.items.append((encoded, EXECUTABLE if executable else FILE, oid))
        if self.counting:
            self.tally.modes["executable" if executable else "file", mode] += 1
        if mode != self.terms.usual[executable]:
            frame.note("modes", name, mode)

    def _keep(self, frame: Frame, name: str, st: Stat) -> bytes:
        """What was covered before and cannot be read now stays as it was, with its mode as seen."""
        if not stat.S_ISREG(st[0]):
            return b""
        return self.terms.ours.covered_file(frame.path_of(name)) or b""

    def _content(self, frame: Frame, name: str, st: Stat) -> tuple[bytes, Stat, str]:
        """Id, signature, and why it must not be trusted later (`""`: it may be)."""
        known = frame.known.get(name)
        if known is not None and known[0] == st:
            if known[3] in ("torn", "unreadable", "too-large"):
                self._tell(frame, name, known[3])
            return known[1:]
        now, why = st, ""
        if st[0] & _FORMAT == stat.S_IFREG and st[2] < self._plain:
            oid = read_listed(name, frame.fd, st, self.sink)
            if oid is not None:
                self.tally.bytes += st[2]
                self.tick()
        else:
            oid = None
        if oid is None:
            oid, now, why = self._read(frame, name, st)
        if not why and self._is_racy(now):
            why = "racy"
        frame.known[name] = (now, oid, now, why)
        return oid, now, why

    def _tell(self, frame: Frame, name: str, why: str) -> None:
        if why == "torn":
            frame.note("torn", name, 1)
        else:
            frame.note("uncovered", name, why)

    def _is_racy(self, st: Stat) -> bool:
        """Could the file be changed once more without a new time?"""
        coarse = st[4] % _COARSE == 0
        since = self.coarse_racy_from_ns if coarse else self.racy_from_ns
        return st[4] >= since or since <= st[3] <= time.time_ns() + COARSE_SLACK_NS

    def _read(self, frame: Frame, name: str, st: Stat) -> tuple[bytes, Stat, str]:
        try:
            if stat.S_ISLNK(st[0]):
                content = read_link(name, frame.fd, self.sink)
            elif st[2] > self.terms.limit and self._is_too_large(frame.path_of(name)):
                self._tell(frame, name, "too-large")
                return b"", st, "too-large"
            else:
                content = self._file(frame, name)
        except Unreadable:
            path = frame.path_of(name)
            if not self.terms.ours.requires(path):
                self._tell(frame, name, "unreadable")
                return self._keep(frame, name, st), st, "unreadable"
            content = self._made_readable(frame, name, path, st)
        self.tally.bytes += content.read
        self.tick()
        if content.torn:
            self._tell(frame, name, "torn")
        return content.oid, content.stat, "torn" if content.torn else ""

    def _is_too_large(self, path: bytes) -> bool:
        return not self.terms.ours.requires(path) and self.terms.ours.covered_file(path) is None

    def _file(self, frame: Frame, name: str) -> Content:
        reopen = partial(_reopen, self.terms.root, frame.path_of(name)) if self.terms.reopenable else None
        return read_file(name, frame.fd, self.sink, reopen)

    def _made_readable(self, frame: Frame, name: str, path: bytes, st: Stat) -> Content:
        """Read a file that must be covered by giving ourselves the right to, for as long as that takes."""
        rights = Rights(self.terms.root)
        try:
            rights.take(os.fsdecode(path), st[0])
            try:
                content = self._file(frame, name)
            finally:
                rights.give_back()
            now = stat_of(os.stat(name, dir_fd=frame.fd, follow_symlinks=False))
        except (OSError, Unreadable) as e:
            raise CaptureFailed(
                f"{show(path)} cannot be read, so it cannot be kept",
                kept=KEPT,
                next=(f"make {show(path)} readable, then the same again",),
                path=show(path),
            ) from e
        return content._replace(stat=now)


def _exists(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True
