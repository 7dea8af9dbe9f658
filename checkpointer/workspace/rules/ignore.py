"""What is not ours: git's ignore rules as git applies them, and `.ckptignore`, which is stronger than all of them.

Weakest first: `core.excludesFile`, `info/exclude`, every `.gitignore` from the top of the work tree down, then every
`.ckptignore`. The last match decides; below an ignored directory nothing is asked. What cannot be read never makes more
ignored: its place is taken by a rule that brings everything back.

Where this is more careful than git: case always counts; rules from above the workspace that would ignore it, or
whatever is in it, are dropped; a nested repository starts anew with its own rules (as git there would), while
`.ckptignore` files go on; a rule file above 512 KiB counts as one that cannot be read.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Container, Generator
from hashlib import blake2b
from typing import NamedTuple

from checkpointer.workspace.directories import Directories
from checkpointer.workspace.entry import parents
from checkpointer.workspace.project.gitdir import GitDir, git_above, git_at
from checkpointer.workspace.project.plainfile import read_plain
from checkpointer.workspace.rules.directoryrules import Active, Chain, DirectoryRules, find
from checkpointer.workspace.rules.gitconfig import Environment, excludes_file
from checkpointer.workspace.rules.patterns import BRING_ALL_BACK, Line, Patterns

__all__ = ["CKPTIGNORE", "GITIGNORE", "DirectoryRules", "Origin", "Read", "Rules"]

GITIGNORE = b".gitignore"
CKPTIGNORE = b".ckptignore"
LONGEST = 512 << 10
_KEPT_DIRECTORIES = 1 << 14
_KEPT_PARSED = 1 << 11
_SOME_NAME = b"\x7f" * 9  # no rule means it
_GONE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))

Read = Callable[[bytes], bytes | None]
"""The content of a file by its name; None where there is none. OSError: there is one and it cannot be read."""

_Found = tuple[bytes, Patterns, bytes]  # source, patterns, digest of the content


class Origin(NamedTuple):
    """Which line of which file decided, for people. `negative`: it brings the path back."""

    source: bytes
    line: int
    pattern: bytes
    negative: bool


class Rules:
    """Every ignore rule that applies to a workspace.

    Rule files are read when first needed and then not again: make new `Rules` after they may have changed. With `read`,
    the rule files inside the workspace come from it (those of a checkpoint, say) and all others from where they are.
    """

    def __init__(self, root: bytes, *, read: Read | None = None, environment: Environment | None = None) -> None:
        self.root = os.path.realpath(root)
        self._read = read
        self._environment = environment
        self._parsed: OrderedDict[bytes, Patterns] = OrderedDict()
        self._known: OrderedDict[bytes, DirectoryRules] = OrderedDict()
        self._decided: dict[bytes, bool] = {}
        self._outer_identity = b""
        git = git_above(self.root)
        self._outer = self._surrounding(git)
        self._top: DirectoryRules | None = None

    def at(self, directory: bytes, *, fd: int | None = None, names: Container[bytes] | None = None) -> DirectoryRules:
        """The rules for the names in a directory of the workspace.

        `fd`, the directory opened, and `names`, all names in it, spare looking for it and for files it has not.
        """
        found = self._known.get(directory) if directory else self._top
        if found is not None:
            if directory:
                self._known.move_to_end(directory)
            return found
        if fd is not None and self._read is None:
            above = self.at(directory.rpartition(b"/")[0]) if directory else None
            return self._enter(above, directory, _looking(fd, names), names)
        *_, found = self._down(directory)
        return found

    def ignored(self, path: bytes, is_dir: bool = False) -> bool:
        """Is the path, or a directory above it, ignored? A question to the rules alone: it need not exist."""
        if not path:
            return False
        directory, _, name = path.rpartition(b"/")
        return self._buried(directory) or self.at(directory).ignored(name, is_dir)

    def _buried(self, directory: bytes) -> bool:
        """Is the directory ignored, or one above it?"""
        waiting = []
        while directory and directory not in self._decided:
            waiting.append(directory)
            directory = directory.rpartition(b"/")[0]
        buried = self._decided[directory] if directory else False
        for below in reversed(waiting):
            if len(self._decided) >= _KEPT_DIRECTORIES:
                self._decided.clear()
            above, _, name = below.rpartition(b"/")
            buried = self._decided[below] = buried or self.at(above).ignored(name, True)
        return buried

    def explain(self, path: bytes, is_dir: bool = False) -> Origin | None:
        """The line that decides about a path: that of the outermost ignored directory, or the path's own."""
        if not path:
            return None
        directory = path.rpartition(b"/")[0]
        with contextlib.closing(self._down(directory)) as chain:
            for rules, part in zip(chain, path.split(b"/"), strict=True):
                last = rules.directory == directory
                found = rules.find(part, is_dir or not last)
                if found is not None and (last or not found[1].negative):
                    source, line = found
                    return Origin(source, line.number, line.text, line.negative)
        return None

    def _down(self, directory: bytes) -> Generator[DirectoryRules, None, None]:
        """The rules of the root and of every directory down to this one, each looked for only when asked for."""
        rules: DirectoryRules | None = None
        with contextlib.ExitStack() as stack:
            places: Directories | None = None
            for path in [b"", *parents(directory), *([directory] if directory else [])]:
                known = self._known.get(path) if path else self._top
                if known is None and self._read is not None:
                    known = self._enter(rules, path, self._look(path))
                elif known is None:
                    try:
                        places = places or stack.enter_context(Directories(self.root))
                        known = self._enter(rules, path, _looking(places.fd(path)))
                    except OSError as e:
                        known = self._enter(rules, path, _failing(e))
                rules = known
                yield rules

    def _look(self, directory: bytes) -> Read:
        read = self._read
        assert read is not None
        return lambda name: read(directory + b"/" + name if directory else name)

    def _enter(
        self, above: DirectoryRules | None, directory: bytes, look: Read, names: Container[bytes] | None = None
    ) -> DirectoryRules:
        """The rules of a directory from those above it (None: the root) and the rule files in it."""
        restart = None if above is not None else self._outer
        digests = []
        if above is not None and (names is None or b".git" in names):
            git = git_at(os.path.join(self.root, directory))
            if git is not None:
                base = self._base(git)
                restart = tuple(Active(source, patterns) for source, patterns, _ in base)
                digests += [b"restart", *(digest for _, _, digest in base)]
        added: list[Chain] = []
        for name in (GITIGNORE, CKPTIGNORE):
            if names is not None and name not in names:
                added.append(())
                continue
            found = self._file(os.path.join(directory, name), lambda n=name: look(n))  # type: ignore[misc]
            added.append(() if found is None else (Active(found[0], found[1]),))
            if found is not None:
                digests += [name, found[2]]
        identity = above.identity if above is not None else self._outer_identity
        if digests:
            identity = _digest(identity, directory, *digests)
        made = DirectoryRules(directory, identity, above=above, restart=restart, added=(added[0], added[1]))
        if above is None:
            self._top = made
        else:
            self._known[directory] = made
            if len(self._known) > _KEPT_DIRECTORIES:
                self._known.popitem(last=False)
        return made

    def _file(self, source: bytes, read: Callable[[], bytes | None]) -> _Found | None:
        try:
            content = read()
        except OSError:
            return source, BRING_ALL_BACK, b"unreadable"
        if content is None:
            return None
        if len(content) > LONGEST:
            return source, BRING_ALL_BACK, b"unreadable"
        digest = _digest(content)
        patterns = self._parsed.get(digest)
        if patterns is None:
            patterns = self._parsed[digest] = Patterns(content)
            if len(self._parsed) > _KEPT_PARSED:
                self._parsed.popitem(last=False)
        return source, patterns, digest

    def _base(self, git: GitDir | None) -> list[_Found]:
        """The rules beside the work tree: the user's own and the repository's."""
        paths = []
        excludes = excludes_file(git, self._environment)
        if excludes is not None:
            paths.append(os.path.join(self.root, excludes))
        if git is not None:
            paths.append(os.path.join(git.common, b"info/exclude"))
        found = [self._file(p, lambda p=p: read_plain(p, limit=LONGEST, follow=True)) for p in paths]  # type: ignore[misc]
        return [f for f in found if f is not None]

    def _surrounding(self, git: GitDir | None) -> Chain:
        """The rules from outside the workspace as they stand in its root, without those that ignore it all."""
        levels = [self._base(git)]
        names: list[bytes] = []
        if git is not None and git.top != self.root:
            names = self.root[len(git.top) :].strip(b"/").split(b"/")
            for depth in range(len(names)):
                path = os.path.join(git.top, *names[:depth], GITIGNORE)
                found = self._file(path, lambda p=path: read_plain(p, limit=LONGEST))  # type: ignore[misc]
                levels[-1] += [found] if found is not None else []
                levels.append([])
        digests = [b"%d" % len(level) + b"".join(digest for _, _, digest in level) for level in levels]
        self._outer_identity = _digest(b"rules 1", *names, *digests)
        while names:
            too_much = self._too_much(levels, names)
            if too_much is None:
                break
            levels = [[(s, p.without(too_much), d) for s, p, d in level] for level in levels]
        return self._entered(levels, names)[-1]

    def _entered(self, levels: list[list[_Found]], names: list[bytes]) -> list[Chain]:
        """The rules in each directory from the top of the work tree to the workspace."""
        chains: list[Chain] = [tuple(Active(source, patterns) for source, patterns, _ in levels[0])]
        for name, level in zip(names, levels[1:], strict=True):
            here = tuple(active.enter(name) for active in chains[-1])
            chains.append(here + tuple(Active(source, patterns) for source, patterns, _ in level))
        return chains

    def _too_much(self, levels: list[list[_Found]], names: list[bytes]) -> Line | None:
        """A line outside the workspace that ignores it, a directory above it, or whatever is in it."""
        *above, inside = self._entered(levels, names)
        asked = [(chain, name, True) for chain, name in zip(above, names, strict=True)]
        for chain, name, is_dir in [*asked, (inside, _SOME_NAME, True), (inside, _SOME_NAME, False)]:
            found = find(chain, name, is_dir)
            if found is not None and not found[1].negative:
                return found[1]
        return None


def _looking(fd: int, names: Container[bytes] | None = None) -> Read:
    def look(name: bytes) -> bytes | None:
        if names is not None and name not in names:
            return None
        return read_plain(name, limit=LONGEST, dir_fd=fd)

    return look


def _failing(error: OSError) -> Read:
    def look(name: bytes) -> bytes | None:
        if error.errno in _GONE:
            return None
        raise error

    return look


def _digest(*parts: bytes) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.digest()
