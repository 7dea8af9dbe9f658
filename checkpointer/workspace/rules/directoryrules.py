"""The ignore rules for the names in one directory, derived from those of the directory above it."""

from __future__ import annotations

from checkpointer.workspace.rules import wildmatch
from checkpointer.workspace.rules.patterns import Here, Line, Patterns

Places = tuple[tuple[int, int], ...]
"""Numbers of alternatives, each with the places it has been met up to."""


class Active:
    """One rule file as it stands in one directory: how far each of its whole-path patterns has been met."""

    __slots__ = ("_named", "_others", "_places", "patterns", "source")

    def __init__(self, source: bytes, patterns: Patterns, places: Places | None = None) -> None:
        self.source = source
        self.patterns = patterns
        self._places = places  # None: where the file itself stands
        self._named: dict[bytes, list[tuple[int, int]]] | None = None  # those that only these names can meet
        self._others: list[tuple[int, int]] = []

    def places(self) -> Places:
        if self._places is None:
            self._places = tuple((n, wildmatch.begin(way)) for n, (_, way) in enumerate(self.patterns.anchored))
        return self._places

    def enter(self, name: bytes) -> Active:
        """The same file as it stands in the directory `name` below."""
        if not self.places():
            return self
        if self._named is None:
            self._named = self._sorted_out()
        ways = self.patterns.anchored
        waiting = [*self._named.get(name, ()), *self._others]
        moved = ((n, wildmatch.advance(ways[n][1], at, name)) for n, at in waiting)
        return Active(self.source, self.patterns, tuple(m for m in moved if m[1]))

    def _sorted_out(self) -> dict[bytes, list[tuple[int, int]]]:
        named: dict[bytes, list[tuple[int, int]]] = {}
        for n, at in self.places():
            names = wildmatch.only_names(self.patterns.anchored[n][1], at)
            if names is None:
                self._others.append((n, at))
            else:
                for name in names:
                    named.setdefault(name, []).append((n, at))
        return named

    def here(self, is_dir: bool) -> Here:
        """What of it can match a name in this directory."""
        ways = self.patterns.anchored
        ending = tuple(n for n, at in self.places() if wildmatch.last(ways[n][1], at) is not None)
        return self.patterns.here(ending, is_dir=is_dir)


Chain = tuple[Active, ...]
"""Weakest first."""


def find(chain: Chain, name: bytes, is_dir: bool) -> tuple[bytes, Line] | None:
    """The line that decides about a name, negative or not, and the file it stands in."""
    for active in reversed(chain):
        line = active.here(is_dir).find(name)
        if line is not None:
            return active.source, line
    return None


class DirectoryRules:
    """The rules for the names in one directory, which itself is taken to be ours.

    `identity` (16 bytes) stands for the content of every rule file that can matter here: while it is equal, so are all
    answers for this directory. Made by `Rules` alone.
    """

    __slots__ = ("_above", "_added", "_chains", "_directories", "_files", "_restart", "directory", "identity")

    def __init__(
        self,
        directory: bytes,
        identity: bytes,
        *,
        above: DirectoryRules | None,
        restart: Chain | None = None,
        added: tuple[Chain, Chain] = ((), ()),
    ) -> None:
        """`restart` takes the place of git's rules from above; `added` are git's and our own rule files here."""
        self.directory = directory
        self.identity = identity
        self._above = above
        self._restart = restart
        self._added = added
        self._chains: tuple[Chain, Chain] | None = None if above is not None else ((restart or ()) + added[0], added[1])
        self._files: tuple[Here, ...] | None = None
        self._directories: tuple[Here, ...] | None = None

    def ignored(self, name: bytes, is_dir: bool) -> bool:
        """Do the rules ignore this name? `is_dir`: it is a directory, not a link to one."""
        sources = self._directories if is_dir else self._files
        if sources is None:
            sources = self._sources(is_dir)
        for here in sources:
            line = here.find(name)
            if line is not None:
                return not line.negative
        return False

    def find(self, name: bytes, is_dir: bool) -> tuple[bytes, Line] | None:
        """The line that decides about this name, negative or not, and the file it stands in."""
        git, own = self._resolved()
        return find(git + own, name, is_dir)

    def _sources(self, is_dir: bool) -> tuple[Here, ...]:
        """Strongest first, without those that have nothing to say."""
        git, own = self._resolved()
        every = [active.here(is_dir) for active in reversed(git + own)]
        found = tuple(here for here in every if not here.floating.empty or here.anchored is not None)
        if is_dir:
            self._directories = found
        else:
            self._files = found
        return found

    def _resolved(self) -> tuple[Chain, Chain]:
        """Git's rule files and our own, weakest first, as they stand here. Without recursion: trees can be deep."""
        waiting = []
        at: DirectoryRules | None = self
        while at is not None and at._chains is None:
            waiting.append(at)
            at = at._above
        assert at is not None
        chains = at._chains
        assert chains is not None
        for below in reversed(waiting):
            name = below.directory.rpartition(b"/")[2]
            git, own = chains
            git = below._restart if below._restart is not None else _entered(git, name)
            chains = below._chains = (git + below._added[0], _entered(own, name) + below._added[1])
            below._above = None
        return chains


def _entered(chain: Chain, name: bytes) -> Chain:
    return tuple(active.enter(name) for active in chain)
