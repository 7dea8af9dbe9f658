"""What a set of replacements asks of each path and directory: what goes, what is made, where to stage; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from checkpointer.workspace.entry import Entry, parents

OPENED = 0o700
"""Bits a directory has while we work in it and its own mode is not set yet."""


class Replacement(NamedTuple):
    """What stands at a path now, and what must stand there; None is nothing."""

    current: Entry | None
    wanted: Entry | None


def is_dir(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == "dir"


def deepest_first(path: bytes) -> tuple[int, bytes]:
    return (-path.count(b"/"), path)


class Replacements(dict[bytes, Replacement]):
    """Replacements by path, sorted. The root `b""` may change its mode, never go."""

    def __init__(self, changes: Mapping[bytes, Replacement]) -> None:
        super().__init__((path, changes[path]) for path in sorted(changes))

    def gives_way(self, path: bytes) -> bool:
        """Must what stands there go before anything else can stand there?"""
        current, wanted = self[path]
        return bool(path) and current is not None and (wanted is None or is_dir(current) != is_dir(wanted))

    def going(self) -> list[bytes]:
        """What must go, deepest first."""
        return sorted(filter(self.gives_way, self), key=deepest_first)

    def made(self) -> list[bytes]:
        """Directories to make, outermost first."""
        return [p for p, c in self.items() if is_dir(c.wanted) and not is_dir(c.current)]

    def staying(self) -> list[bytes]:
        """Directories that stay and change their mode."""
        return [p for p, c in self.items() if is_dir(c.current) and is_dir(c.wanted)]

    def opened(self) -> list[bytes]:
        """Directories that may need to be opened while we work in them, outermost first."""
        return sorted({*self.staying(), *(p for p in self.going() if is_dir(self[p].current))})

    def placed(self) -> Iterator[bytes]:
        """Paths where a file, link or fifo of other content must stand, in order."""
        for path, (current, wanted) in self.items():
            if wanted is not None and wanted.kind != "dir" and (current is None or current.content != wanted.content):
                yield path

    def reset(self) -> Iterator[bytes]:
        """Files and fifos that change nothing but their mode."""
        for path, (current, wanted) in self.items():
            if current is None or wanted is None or wanted.kind == "dir":
                continue
            if current.content == wanted.content and current.mode != wanted.mode:
                yield path

    def room(self, path: bytes) -> bytes:
        """The nearest directory above that is there, stays there and can be written before anything is opened."""
        room = b""
        for above in parents(path):
            change = self.get(above)
            if change is not None:
                current, wanted = change
                if current is None or not is_dir(current) or not is_dir(wanted) or current.mode & OPENED != OPENED:
                    break
            room = above
        return room

    def below_new(self, path: bytes) -> bool:
        """Does it stand below a directory that is not there yet?"""
        return any(
            is_dir(self[above].wanted) and not is_dir(self[above].current) for above in parents(path) if above in self
        )

    def below_opened(self, path: bytes) -> bool:
        """Does it stand in a directory that will be opened, if need be, before it is touched?"""
        return any(is_dir(self[above].current) for above in (b"", *parents(path)) if above in self)

    def below_closed(self, path: bytes) -> bool:
        """Does it stand below a directory whose mode may keep its owner out until it is opened?"""
        for above in (b"", *parents(path)):
            current = self[above].current if above in self else None
            if current is not None and current.kind == "dir" and current.mode & OPENED != OPENED:
                return True
        return False
