"""Walk a workspace by directory descriptors and say what each directory holds, reading only what can have changed.

No path is ever handed to the system whole, no link is followed, nothing is opened that could block, and few descriptors
are open at a time. A directory whose names and `lstat`s are those of its record in the table costs the looking alone.
What was changed, and the git trees above it, go to a sink. Whatever cannot be read completely raises.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from checkpointer.errors import CaptureFailed, Damaged
from checkpointer.workspace.entry import show
from checkpointer.workspace.odb.objects import Sink
from checkpointer.workspace.reading.contents import Contents
from checkpointer.workspace.reading.found import Found, Unread
from checkpointer.workspace.reading.frame import OPEN_AT_ONCE, Frame
from checkpointer.workspace.reading.listing import DIRECTORY, FOREIGN, Listing, is_as_recorded, list_directory
from checkpointer.workspace.reading.ours import Inside
from checkpointer.workspace.reading.reader import KEPT, Moved, Unreadable, classify, failed, stat_of
from checkpointer.workspace.reading.rights import Rights
from checkpointer.workspace.reading.table import (
    BELOW,
    FILES,
    KEPT_NAMES,
    MATCHED,
    SEEN,
    TREE,
    Record,
    Stat,
    is_leaf,
    pack,
)
from checkpointer.workspace.reading.terms import Terms
from checkpointer.workspace.trees.gittree import TREE as TREE_MODE
from checkpointer.workspace.trees.gittree import encode_tree

_NONE = (b"", 0)

PASSES = 5
"""How often a directory that changes while it is read is listed again."""


class Scan:
    """One process's walk. `records` are the table's and are not changed; `close` must be called at the end."""

    def __init__(
        self,
        terms: Terms,
        sink: Sink,
        records: Mapping[str, Record],
        tick: Callable[[], None] = lambda: None,
        blobs: Sink | None = None,
    ) -> None:
        """`sink` gets the trees, and the content of files where `blobs` is not given."""
        self.terms = terms
        self.sink = sink
        self.records = records
        self.found = Found()
        self.tick = tick
        self.contents = Contents(terms, blobs or sink, tick)
        self.contents.tally = self.found.tally
        self._rights = Rights(terms.root)
        self._device = terms.device
        self._quick = not terms.ours.must and terms.trusted_before_ns is None

    def collect(self) -> Found:
        """What was found since the last call."""
        found = self.found
        self.found = Found()
        self.contents.tally = self.found.tally
        return found

    def close(self) -> None:
        """Give back the mode of every directory that was opened up."""
        self._rights.give_back()

    # One directory

    def root(self, fd: int) -> Frame:
        """The frame of the workspace itself, looked at."""
        old = self._record("")
        frame = Frame(None, "", fd, stat_of(os.fstat(fd)), old, False)
        self.examine(frame)
        return frame

    def _record(self, path: str) -> Record | None:
        old = self.records.get(path)
        return None if old is None else Record(*old)

    def enter(self, parent: Frame, name: str) -> Frame | None:
        """Open and look at a sub-directory; None where it is not ours to look at, or gone: the parent knows then."""
        path = f"{parent.path}/{name}" if parent.path else name
        try:
            try:
                return self._enter(parent, name, path)
            except Unreadable:
                if not self._must_hold(path):
                    raise
                self._rights.take(path, stat_of(os.stat(name, dir_fd=parent.fd, follow_symlinks=False))[0])
                return self._enter(parent, name, path)
        except Unreadable:
            with contextlib.suppress(FileNotFoundError):
                st = stat_of(os.stat(name, dir_fd=parent.fd, follow_symlinks=False))
                self._unread(parent, name, path, st, "unreadable")
                return None
            parent.relist = True
        except Moved:
            parent.relist = True
        except OSError as e:
            raise failed(os.fsencode(path), e) from e
        return None

    def _enter(self, parent: Frame, name: str, path: str) -> Frame | None:
        try:
            fd = os.open(name, DIRECTORY, dir_fd=parent.fd)
        except OSError as e:
            meaning = classify(e)
            if meaning is None:
                raise
            raise meaning from e
        entered = False
        try:
            st = os.fstat(fd)
            if (st.st_dev, st.st_ino) == self.terms.store:
                self._done(parent, name, path, b"")
                return None
            if st.st_dev != self._device:
                self._unread(parent, name, path, stat_of(st), FOREIGN)
                return None
            inside = parent.inside or name + "/" in parent.kept
            frame = Frame(parent, name, fd, stat_of(st), self._record(path), inside)
            frame.rules_same = parent.rules_same
            self.examine(frame)
            entered = True
            return frame
        finally:
            if not entered:
                os.close(fd)

    def examine(self, frame: Frame) -> None:
        """List a directory and compare; read what differs. Raises `Moved` where it is deleted, `Unreadable`."""
        frame.same = False
        for attempt in range(PASSES):
            try:
                listing = self._list(frame)
                frame.stat = listing.entries[0]  # type: ignore[assignment]
                if self._is_same(frame, listing):
                    frame.same = True
                    self.found.tally.files += frame.old.files if frame.old is not None else 0
                    break
                if listing.skipped and frame.old is not None and frame.rules != frame.old.rules:
                    frame.rules_same = False  # they are other rules: nothing may be skipped by the old ones
                    listing = self._list(frame)
                    frame.stat = listing.entries[0]  # type: ignore[assignment]
                if self.contents.settle(frame, listing, last=attempt == PASSES - 1):
                    break
                if os.fstat(frame.fd).st_nlink == 0:
                    raise Moved
            except OSError as e:
                meaning = classify(e)
                if meaning is not None:
                    raise meaning from e
                raise failed(os.fsencode(frame.path), e) from e
        if not frame.same:
            frame.rules_same = frame.inside or (frame.old is not None and frame.old.rules == frame.rules)
        self.tick()
        self._expect(frame)

    def _list(self, frame: Frame) -> Listing:
        if frame.inside:
            only = Inside(self.terms.ours, os.fsencode(frame.path))
            return list_directory(frame.fd, self.contents.devices, (), only)
        old = frame.old
        skip = frozenset(old.matched) if old is not None and old.matched and self._may_skip(frame, old) else ()
        return list_directory(frame.fd, self.contents.devices, skip, None)

    def _must_hold(self, path: str) -> bool:
        """Must something in this directory, or it itself, be covered whatever it takes?"""
        ours = self.terms.ours
        return bool(ours.must) and ours.requires_below(os.fsencode(path))

    def _may_skip(self, frame: Frame, old: Record) -> bool:
        if not self.terms.ours_same or self._must_hold(frame.path):
            return False
        return frame.rules_same or (frame.parent is None and not frame.rules)

    def _is_same(self, frame: Frame, listing: Listing) -> bool:
        old = frame.old
        if old is None or pack(listing.entries) != old.seen or frame.inside != old.inside:
            if not frame.inside:
                self.contents.identify(frame, listing)
            return False
        if self.terms.trusted_before_ns is not None or self._must_hold(frame.path):
            return False
        if not self.terms.ours_same and (old.matched or old.kept or old.inside):
            return False
        if not frame.rules_same or listing.repository or old.repository:
            frame.rules_same = self.contents.identify(frame, listing) == old.rules
        return frame.rules_same

    def _expect(self, frame: Frame) -> None:
        """Which sub-directories are to be done, and which are gone."""
        if frame.same:
            assert frame.old is not None
            frame.subs, frame.kept = frame.old.subs, list(frame.old.kept)
        elif frame.old is not None:
            for name in set(frame.old.subs).difference(frame.subs):
                self.found.drop(self.records, f"{frame.path}/{name}" if frame.path else name)
        for name in set(frame.children).difference(frame.subs):
            self.found.drop(self.records, f"{frame.path}/{name}" if frame.path else name)
            del frame.children[name]
        frame.pending = [name for name in frame.subs if name not in frame.children]

    # What is not entered

    def _done(self, parent: Frame, name: str, path: str, tree: bytes) -> None:
        if path in self.records or path in self.found.changed:
            self.found.drop(self.records, path)
            parent.differs = True
        parent.children[name] = (tree, 0)

    def _unread(self, parent: Frame, name: str, path: str, st: Stat, reason: str) -> None:
        if reason == "unreadable" and self._must_hold(path):
            raise CaptureFailed(f"{show(os.fsencode(path))} cannot be read, so what is in it cannot be kept", kept=KEPT)
        tree = self.terms.ours.covered_directory(os.fsencode(path))
        self._done(parent, name, path, tree or b"")
        parent.differs = True
        self.found.unread[path] = Unread(st, reason, tree)

    # Whole trees

    def descend(self, top: Frame) -> None:
        """Do a directory that was looked at with everything below it."""
        way = [top]
        try:
            while way:
                frame = way[-1]
                if not frame.pending:
                    if self.finish(frame):
                        way.pop()
                    continue
                name = frame.pending.pop()
                if frame.fd < 0:
                    self._reach(frame)
                if frame.rules_same and self._quick and self._is_leaf_same(frame, name):
                    continue
                child = self.enter(frame, name)
                if child is not None:
                    way.append(child)
                    if len(way) > OPEN_AT_ONCE and (outer := way[-OPEN_AT_ONCE]).parent is not None:
                        outer.close()
        finally:
            for frame in way:
                if frame.parent is not None:
                    frame.close()

    def _is_leaf_same(self, parent: Frame, name: str) -> bool:
        """Do a directory without sub-directories, where nothing in it or about it has changed: the usual case."""
        path = f"{parent.path}/{name}" if parent.path else name
        r: Any = self.records.get(path)
        if r is None or not is_leaf(r) or parent.inside:
            return False
        if not self.terms.ours_same and (r[MATCHED] or r[KEPT_NAMES]):
            return False
        if not is_as_recorded(parent.fd, name, self.contents.devices, r[MATCHED], r[SEEN]):
            return False
        if self.found.removed:
            self.found.removed.discard(path)
        self.found.tally.files += r[FILES]
        parent.children[name] = (r[TREE], r[BELOW])
        self.tick()
        return True

    def _reach(self, frame: Frame) -> None:
        try:
            frame.reopened()
        except OSError as e:
            if classify(e) is Moved:
                raise CaptureFailed(f"{show(os.fsencode(frame.path))} was moved while it was read", kept=KEPT) from e
            raise failed(os.fsencode(frame.path), e) from e

    def finish(self, frame: Frame) -> bool:
        """Make the directory's git tree when all below it is done. False: it changed, there is more to do."""
        if frame.relist:
            frame.relist = False
            frame.relisted += 1
            self._reach(frame)
            if frame.relisted <= PASSES:
                self.examine(frame)
                if frame.pending:
                    return False
            elif any(name not in frame.children and frame.has_directory(name) for name in frame.subs):
                raise CaptureFailed(f"{show(os.fsencode(frame.path))} changes faster than it can be read", kept=KEPT)
        try:
            self._conclude(frame)
        except Damaged:
            if frame.old is None:
                raise
            frame.old = None  # what the record rests on is not in the store: read the directory anew
            self._reach(frame)
            self.examine(frame)
            if frame.pending:
                return False
            self._conclude(frame)
        if frame.parent is not None:
            frame.close()
        return True

    def _conclude(self, frame: Frame) -> None:
        old = frame.old
        parent = frame.parent
        if frame.same and not frame.differs and old is not None:
            tree, total = old.tree, old.below
            if self.found.removed:
                self.found.removed.discard(frame.path)
        else:
            items = self.contents.old_items(frame) if frame.same else frame.items
            below_it = ((sub, frame.children.get(sub, _NONE)[0]) for sub in frame.subs)
            items = items + [(os.fsencode(sub), TREE_MODE, tree) for sub, tree in below_it if tree]
            tree = self.sink.add("tree", encode_tree(items)) if items or parent is None else b""
            below = sum(total for _, total in frame.children.values())
            if self._rights.taken(frame.path):
                self._rights.give_back(frame.path)
                self._reach(frame)
                frame.look_again(self.terms.usual[2])
            if frame.same and old is not None:
                record = old._replace(tree=tree, below=old.files + below)
            else:
                record = frame.record(tree, below)
            total = record.below
            if record != old:
                self.found.changed[frame.path] = record
            self.found.removed.discard(frame.path)
        if parent is not None:
            parent.children[frame.name] = (tree, total)
            if old is None or tree != old.tree or total != old.below:
                parent.differs = True
