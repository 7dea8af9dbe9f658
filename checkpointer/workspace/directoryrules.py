"""The ignore rules for the names in one directory, derived from those of the directory above it."""

from __future__ import annotations

from collections import OrderedDict

from checkpointer.workspace import wildmatch
from checkpointer.workspace.patterns import Line, Matcher, Patterns, Rule
from checkpointer.workspace.wildmatch import Component

_KEPT_MATCHERS = 512


class Active:
    """One rule file as it stands in one directory: how far each of its whole-path patterns has been met."""

    __slots__ = ("_places", "patterns", "source")

    def __init__(self, source: bytes, patterns: Patterns, places: tuple[tuple[int, int], ...] | None = None) -> None:
        self.source = source
        self.patterns = patterns
        self._places = places  # (number of the alternative, places in it); None: where the file itself stands

    def places(self) -> tuple[tuple[int, int], ...]:
        if self._places is None:
            self._places = tuple((n, wildmatch.begin(way)) for n, (_, way) in enumerate(self.patterns.anchored))
        return self._places

    def enter(self, name: bytes) -> Active:
        """The same file as it stands in the directory `name` below."""
        places = self.places()
        if not places:
            return self
        ways = self.patterns.anchored
        moved = ((n, wildmatch.advance(ways[n][1], at, name)) for n, at in places)
        return Active(self.source, self.patterns, tuple(m for m in moved if m[1]))

    def ending(self) -> tuple[int, ...]:
        """The alternatives that a name in this directory can complete."""
        ways = self.patterns.anchored
        return tuple(n for n, at in self.places() if wildmatch.last(ways[n][1], at) is not None)


Chain = tuple[Active, ...]
_Key = tuple[tuple[Patterns, tuple[int, ...]], ...]


def _rules(source: int, patterns: Patterns, ending: tuple[int, ...]) -> list[Rule]:
    completing: dict[int, list[Component]] = {}
    for n in ending:
        index, way = patterns.anchored[n]
        completing.setdefault(index, []).append(way[-1])
    found: list[Rule] = []
    for i, line in enumerate(patterns.lines):
        components = completing.get(i, []) if line.floating is None else [line.floating]
        found.extend(Rule(component, line, source) for component in components)
    return found


class Matchers:
    """Matchers by what they are made of: most directories share one."""

    def __init__(self) -> None:
        self._made: OrderedDict[_Key, Matcher] = OrderedDict()

    def of(self, chain: Chain) -> Matcher:
        key = tuple((active.patterns, active.ending()) for active in chain)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = Matcher([rule for i, part in enumerate(key) for rule in _rules(i, *part)])
            if len(self._made) > _KEPT_MATCHERS:
                self._made.popitem(last=False)
        return found


class DirectoryRules:
    """The rules for the names in one directory, which itself is taken to be ours.

    `identity` (16 bytes) stands for the content of every rule file that can matter here: while it is equal, so are all
    answers for this directory. Made by `Rules` alone.
    """

    __slots__ = ("_above", "_added", "_chains", "_matcher", "_matchers", "_restart", "directory", "identity")

    def __init__(
        self,
        directory: bytes,
        identity: bytes,
        matchers: Matchers,
        *,
        above: DirectoryRules | None,
        restart: Chain | None = None,
        added: tuple[Chain, Chain] = ((), ()),
    ) -> None:
        """`restart` takes the place of git's rules from above; `added` are git's and our own rule files here."""
        self.directory = directory
        self.identity = identity
        self._matchers = matchers
        self._above = above
        self._restart = restart
        self._added = added
        self._chains: tuple[Chain, Chain] | None = None if above is not None else ((restart or ()) + added[0], added[1])
        self._matcher: Matcher | None = None

    def ignored(self, name: bytes, is_dir: bool) -> bool:
        """Do the rules ignore this name? `is_dir`: it is a directory, not a link to one."""
        return (self._matcher or self._made()).ignored(name, is_dir)

    def find(self, name: bytes, is_dir: bool) -> tuple[bytes, Line] | None:
        """The line that decides about this name, negative or not, and the file it stands in."""
        rule = (self._matcher or self._made()).find(name, is_dir)
        if rule is None:
            return None
        git, own = self._resolved()
        return (git + own)[rule.source].source, rule.line

    def _made(self) -> Matcher:
        git, own = self._resolved()
        self._matcher = self._matchers.of(git + own)
        return self._matcher

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
