"""Carry changes out on the files of a workspace: each path checked right before, atomically, nothing else touched.

Order: everything new is staged in temporary files and synced; every path is checked against what was captured; then
directories that must be opened are opened, what must go goes (deepest first), directories are made, staged files are
renamed into place and read again, directory modes are set (deepest first), names are synced.

Strict (a fresh operation): the first path that is not what was captured, and any error, takes everything back to how
it stood. Lenient (settling, taking back): such a path is left as it is and named. Cut short at any moment, running the
same changes again, with what stands then as `current`, reaches the same end.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from checkpointer import disk
from checkpointer.errors import CheckpointerError, NoSpace
from checkpointer.workspace.directories import Directories, split
from checkpointer.workspace.entry import PERMISSIONS, Entry, Signature, show, signature
from checkpointer.workspace.restoring.captured import Captured
from checkpointer.workspace.restoring.carried import DENIED, FULL, Carried, Leave, in_words
from checkpointer.workspace.restoring.patience import uninterrupted
from checkpointer.workspace.restoring.replacements import OPENED, Replacement, Replacements, deepest_first, is_dir
from checkpointer.workspace.restoring.staging import Staging, same, sync_singly, without_ctime
from checkpointer.workspace.restoring.standing import is_directory, standing

if TYPE_CHECKING:
    from checkpointer.workspace.odb.objects import Objects

Progress = Callable[[str, int, int | None, int], None]

_EFFECTIVE = os.access in os.supports_effective_ids


class Carrier:
    """One use: `run` once. `expect` gives the signature a path must have to be replaced or removed.

    `seen_ns` is when these were begun to be taken (see `Captured`).
    """

    def __init__(
        self,
        directories: Directories,
        objects: Objects,
        changes: Mapping[bytes, Replacement],
        expect: Callable[[bytes], Signature | None],
        token: str,
        *,
        lenient: bool = False,
        first: int = 0,
        seen_ns: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.directories = directories
        self.objects = objects
        self.changes = Replacements(changes)
        self.token = token
        self.lenient = lenient
        self.progress = progress
        self.carried = Carried()
        self.over = False
        """Did it end, done or taken back? While false, the files stand somewhere between."""
        self._root = os.geteuid() == 0
        self._touched: dict[bytes, Entry | None] = {}  # what we made of it, for taking back
        self._asking = True  # nothing is touched yet: what is denied is gathered, to be named as a whole
        self._put: dict[bytes, Signature] = {}
        self._captured = Captured(directories, expect, seen_ns)
        self._names: set[bytes] = set()  # directories whose names we changed
        self._staging = Staging(directories, objects, token, count=sum(1 for _ in self.changes.placed()), first=first)

    def run(self) -> Carried:
        """Raises (strict) `Interfered`, `NoSpace`, `Failed`, `Damaged`; then everything stands as before.

        What could not be taken back is in the error's `not_taken_back`, as paths to show.
        """
        try:
            self._prepare()
            self._carry_out()
        except BaseException as e:
            with uninterrupted():
                self._staging.discard(traceless=not self._touched)
                lost = self._take_back() if self._touched and not self.lenient else {}
                self.over = True
            explained = in_words(e, self.carried.left, began=bool(self._touched), lost=lost)
            if explained is e:
                raise
            raise explained from e
        self._staging.discard()
        self.over = True
        self.carried.unlinked.extend(self._captured.twins)
        for paths in (self.carried.written, self.carried.removed, self.carried.stayed, self.carried.unlinked):
            paths.sort()
        return self.carried

    def _prepare(self) -> None:
        self._each(self._allowed, self.changes, looks=True)
        staged = [*self.changes.placed(), *filter(self._has_twins, self.changes.reset())]
        self._each(self._stage, sorted(staged), "staging")
        self._refuse_denied()
        self._staging.flush()
        self._each(self._check, [p for p in self.changes if not self._out_of_sight(p)], looks=True)
        self._refuse_denied()

    def _carry_out(self) -> None:
        self._asking = False
        staged = self._staging.paths()
        made = self.changes.made()
        self._each(self._open_up, self.changes.opened())
        self._each(self._remove, self.changes.going())
        self._each(self._make_directory, made)
        self._each(self._place, staged, "restoring")
        self._each(self._change_mode, [p for p in self.changes.reset() if p not in set(staged)])
        self._each(self._verify, [*self._put], looks=True)
        self._each(self._close_up, sorted({*self.changes.staying(), *made}, key=deepest_first))
        self._sync_names()

    def _each(
        self, act: Callable[[bytes], None], paths: Iterable[bytes], phase: str = "", *, looks: bool = False
    ) -> None:
        """Act on each path that was not left. Strict: before anything is touched what is denied is gathered.

        Ctrl-C waits for the act at hand, unless it only `looks`.
        """
        for done, path in enumerate(paths):
            if path in self.carried.left:
                continue
            if phase and self.progress is not None:
                self.progress(phase, done, len(self.changes), 0)
            try:
                try:
                    if looks:
                        act(path)
                    else:
                        with uninterrupted():
                            act(path)
                except OSError as e:
                    if e.errno in FULL:
                        raise NoSpace(f"no space left to write {show(path)}") from e
                    raise Leave(path, e.strerror or str(e), denied=e.errno in DENIED) from e
            except Leave as e:
                self.carried.left[path] = e.reason
                if not self.lenient and not (self._asking and e.denied):
                    raise

    def _refuse_denied(self) -> None:
        if self.carried.left and not self.lenient:
            path, reason = next(iter(self.carried.left.items()))
            raise Leave(path, reason, denied=True)

    def _has_twins(self, path: bytes) -> bool:
        """A mode is never changed through one of several hard links: the others may lie outside."""
        try:
            st = self.directories.lstat(path)
        except OSError:
            return False
        return st is not None and st.st_nlink > 1

    def _out_of_sight(self, path: bytes) -> bool:
        """Can it be looked at only once directories are made and opened?"""
        return self.changes.below_new(path) or (not self._root and self.changes.below_closed(path))

    # -- acts, one path each

    def _allowed(self, path: bytes) -> None:
        """What would only fail half-way: a directory we may not write in, a file we could not give its owner again."""
        current, wanted = self.changes[path]
        if current is None or self._root or self._out_of_sight(path):
            return
        directory, name = split(path)
        replaced = wanted is None or wanted.content != current.content
        fd = self.directories.fd(directory)
        opened = self.changes.below_opened(path) and os.fstat(fd).st_uid == os.geteuid()
        writes = path and replaced and not opened
        if writes and not os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=_EFFECTIVE):
            raise OSError(errno.EACCES, "the directory is not writable")
        st = self.directories.lstat(path)
        if st is None or wanted is None or current.kind == "link" or st.st_uid == os.geteuid():
            return
        if not replaced or not os.access(name, os.W_OK, dir_fd=fd, effective_ids=_EFFECTIVE):
            raise OSError(errno.EPERM, "it belongs to somebody else")

    def _stage(self, path: bytes) -> None:
        current, wanted = self.changes[path]
        assert wanted is not None
        existing = None
        if current is not None and not self._out_of_sight(path):
            existing = self.directories.lstat(path)
        self._staging.add(path, wanted, self.changes.room(path), existing)

    def _check(self, path: bytes, *, closely: bool = False) -> None:
        self._captured.check(path, self.changes[path], closely=closely)

    def _open_up(self, path: bytes) -> None:
        """Make a directory that goes, or whose mode changes, writable for us while we work in it."""
        current = self.changes[path].current
        assert current is not None
        if current.mode & OPENED == OPENED or self._root:
            return
        self._check(path)
        opened = current.mode | OPENED
        self.directories.set_mode(path, opened)
        self._touched[path] = current._replace(mode=opened)

    def _remove(self, path: bytes) -> None:
        current, wanted = self.changes[path]
        self._check(path, closely=True)
        directory, name = split(path)
        fd = self.directories.fd(directory)
        if is_dir(current):
            try:
                disk.remove_directory(name, dir_fd=fd)
            except OSError as e:
                if e.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                if wanted is not None:
                    raise Leave(path, "the directory is not empty") from e
                self._stay(path)
                return
            self.directories.forget(path)
        else:
            self._captured.loses_a_name(path)
            disk.remove(name, dir_fd=fd)
        self._touched[path] = None
        self._names.add(directory)
        if wanted is None or (is_dir(wanted) and not is_dir(current)):
            self.carried.removed.append(path)

    def _stay(self, path: bytes) -> None:
        """A directory that had to go holds what is not ours to remove: it keeps its own mode."""
        self.carried.stayed.append(path)
        current = self.changes[path].current
        if path in self._touched and current is not None:
            self.directories.set_mode(path, current.mode)
            del self._touched[path]

    def _make_directory(self, path: bytes) -> None:
        wanted = self.changes[path].wanted
        assert wanted is not None
        directory, name = split(path)
        self.directories.confirm(directory)
        fd = self.directories.fd(directory)
        st = self.directories.lstat(path)
        if st is not None and not is_directory(st):
            raise Leave(path, "it was made meanwhile")
        if st is None:
            opened = wanted.mode | OPENED
            disk.make_directory(name, mode=opened, dir_fd=fd)
            self._touched[path] = wanted._replace(mode=opened)
            if self._root:
                owner = os.fstat(fd)
                os.chown(name, owner.st_uid, owner.st_gid, dir_fd=fd, follow_symlinks=False)
                self.directories.set_mode(path, opened)
        self._names.add(directory)
        self.carried.written.append(path)

    def _place(self, path: bytes) -> None:
        directory, name = split(path)
        staged = self._staging.take(path)
        if not self.changes.gives_way(path):
            self._check(path, closely=True)
        else:  # a directory stood here and was just removed
            self.directories.confirm(directory)
            if self.directories.lstat(path) is not None:
                raise Leave(path, "it was made meanwhile")
        self._captured.loses_a_name(path)
        source = self.directories.fd(staged.directory)
        disk.rename(staged.name, name, src_dir_fd=source, dst_dir_fd=self.directories.fd(directory))
        self._staging.done(path)
        self._put[path] = staged.signature
        self._changed(path)

    def _change_mode(self, path: bytes) -> None:
        wanted = self.changes[path].wanted
        assert wanted is not None
        self._check(path)
        self.directories.set_mode(path, wanted.mode)
        st = self.directories.lstat(path)
        if st is not None:
            self._put[path] = without_ctime(signature(st))
        self._changed(path)

    def _changed(self, path: bytes) -> None:
        self._touched[path] = self.changes[path].wanted
        self._names.add(split(path)[0])
        self.carried.written.append(path)

    def _verify(self, path: bytes) -> None:
        """Read again what was written. An edit made since is the editor's; other bytes in our own file are an error."""
        put, wanted = self._put[path], self.changes[path].wanted
        assert wanted is not None
        if wanted.kind == "file" and not wanted.mode & 0o400 and not self._root:
            return  # nobody can read it, neither can we
        entry, seen = standing(self.directories, path)
        if entry is None or seen is None or not same(put, seen):
            return
        if entry.content != wanted.content or (entry.kind != "link" and entry.mode != wanted.mode):
            raise Leave(path, "it does not hold what was written")

    def _close_up(self, path: bytes) -> None:
        wanted = self.changes[path].wanted
        assert wanted is not None
        st = self.directories.lstat(path)
        if st is None or not is_directory(st):
            raise Leave(path, "it is no directory any more")
        self.directories.fd(path)  # its names can be synced later even if we may not open it any more
        if st.st_mode & PERMISSIONS != wanted.mode:
            self.directories.set_mode(path, wanted.mode)
            self._touched[path] = wanted
        self._names.add(path)
        if path not in self.carried.written:
            self.carried.written.append(path)

    def _sync_names(self) -> None:
        if self._names and not sync_singly(len(self._names)):
            disk.sync_file_system(self.directories.root)
            return
        for directory in sorted(self._names):
            try:
                fd = self.directories.fd(directory)
            except OSError:
                continue  # removed after its names were changed: the directory above is synced
            disk.sync_directory_fd(fd)

    # -- taking back

    def _take_back(self) -> dict[bytes, str]:
        """Undo what was done, path by path, as leniently as settling. Returns what could not be."""
        changes = {path: Replacement(made, self.changes[path].current) for path, made in self._touched.items()}
        back = Carrier(
            self.directories,
            self.objects,
            changes,
            self._put.get,
            self.token,
            lenient=True,
            first=self._staging.next,
            seen_ns=time.time_ns(),
        )
        try:
            carried = back.run()
        except CheckpointerError as e:
            return {path: e.message for path in changes if path not in back.carried.written}
        return {**carried.left, **dict.fromkeys(carried.stayed, "the directory is not empty")}
