"""One call of the command line: its flags, its directory, its workspace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from checkpointer import home
from checkpointer.cli.output import Output, is_terminal
from checkpointer.cli.phrase import directory as named
from checkpointer.config import Config
from checkpointer.errors import CheckpointerError, NeedsPerson, NoStore, Usage
from checkpointer.home import Place
from checkpointer.workspace import guard
from checkpointer.workspace.entry import show

if TYPE_CHECKING:
    from checkpointer.cli.progress import Bar
    from checkpointer.workspace.workspace import Workspace


class Call:
    """What the common flags said, and what every command asks for first."""

    def __init__(self) -> None:
        self.out = Output()
        self.verbose = False
        self.of_person = False
        """Set where a person is known to have asked, whatever the process was started in."""
        self._directories: list[str] = []
        self._config: Config | None = None
        self._place: Place | None = None
        self._above: str | None = None

    def take(self, params: dict[str, Any]) -> None:
        """Take the common flags out of a parsed command's parameters; what was given last wins."""
        self._directories.extend(params.pop("directories", None) or ())
        self.out.json |= bool(params.pop("json", False))
        self.out.quiet |= bool(params.pop("quiet", False))
        self.verbose |= bool(params.pop("verbose", False))
        self.out.color = params.pop("color", None) or self.out.color

    @property
    def config(self) -> Config:
        if self._config is None:
            self._config = home.configuration()
            if self.out.color == "auto":
                self.out.color = str(self._config["ui.color"])
            for problem in self._config.problems:
                self.out.note(f"note: {problem}")
        return self._config

    @property
    def directory(self) -> bytes:
        """Where the call is about: the current directory, or what `-C` says. It need not exist."""
        try:
            base = os.getcwdb()
        except OSError as e:
            # The shell stands in a directory that was removed; it still knows its name.
            base = os.fsencode(os.environ.get("PWD", ""))
            if not base.startswith(b"/") and not any(d.startswith("/") for d in self._directories):
                raise Usage("the current directory is gone", next=("cd to where it was, or ckpt -C DIR",)) from e
        for d in self._directories:
            base = os.path.join(base, os.path.expanduser(os.fsencode(d)) if d.startswith("~") else os.fsencode(d))
        if os.path.exists(base) and not os.path.isdir(base):
            raise Usage(f"{show(base)} is not a directory")
        return base

    def must_be_somewhere(self) -> None:
        """Raise Usage where `-C` names a directory that is not there and that no store knows either."""
        if not self._directories or os.path.isdir(self.directory):
            return
        place = home.locate(self.directory)
        if place is None or place.state not in ("gone", "imported"):
            raise Usage(
                f"there is no directory {show(self.directory)}", kept="nothing was written", next=("ckpt workspaces",)
            )

    def place(self) -> Place:
        """The workspace this call is about. Raises NoStore naming stores nearby."""
        if self._place is None:
            place = home.locate(self.directory)
            if place is None:
                raise self.no_store()
            if place.state not in ("gone", "imported") and not os.path.isdir(self.directory):
                raise Usage(f"there is no directory {show(self.directory)}", kept="nothing was written")
            self._place = place
        return self._place

    def no_store(self) -> NoStore:
        here = guard.real(self.directory)
        near = home.nearby(here)
        return NoStore(
            f"nothing is protected in {named(here)}: it has no store",
            kept="nothing was written",
            next=("ckpt save", "ckpt run -- COMMAND", *(f"ckpt -C {_quoted(p.root)} status" for p in near[:5])),
            nearby=[os.fsdecode(p.root) for p in near],
        )

    def workspace(self, *, write: bool = False) -> Workspace:
        """Open it, and say what there is to say about it. Raises NoStore, ReadOnlyStore, Damaged."""
        return self.opened(home.open_place(self.place(), read_only=not write))

    def acting(self, *, dry_run: bool = False) -> Workspace:
        """The same for what would write, whether or not it does: it is refused for what it would be refused for."""
        home.refuse_imported(self.place().directory)
        return self.workspace(write=not dry_run)

    def opened(self, workspace: Workspace) -> Workspace:
        """Give a workspace the configuration, and print its notices."""
        workspace.limit = self.config.integer("capture.limit")
        workspace.wait = float(self.config.integer("lock.wait"))
        workspace.jobs = self.config.integer("capture.jobs") or None
        self.notices(workspace)
        return workspace

    def notices(self, workspace: Workspace) -> None:
        """Print what the workspace or its store has to say, once."""
        for text in (*workspace.notices, *workspace.store.notices):
            self.out.note(f"note: {text}")
        workspace.notices.clear()
        workspace.store.notices.clear()

    def others(self) -> list[Workspace]:
        """Workspaces inside this one, or around it, whose locks a restore takes too."""
        root = self.place().root
        around = [p for p in home.places() if p.root and root.startswith(p.root.rstrip(b"/") + b"/")]
        return [home.open_place(p) for p in (*home.within(root), *around) if p.state not in ("moved", "imported")]

    def progress(self) -> Bar:
        """A bar on stderr for what takes longer than half a second."""
        from checkpointer.cli.progress import Bar

        return Bar(self.out)

    def relative(self, words: Sequence[str]) -> list[bytes]:
        """Paths of the workspace for what was typed, relative to the call's directory.

        Raises Usage for a path outside the workspace or inside a `.git`.
        """
        root = self.place().root
        here = guard.real(self.directory)
        found = []
        for word in words:
            raw = os.fsencode(word)
            if not raw:
                raise Usage("an empty path names nothing", next=("-- . for everything here",))
            # Only the directory is resolved: a link at the end is meant itself.
            joined = os.path.normpath(os.path.join(here, raw))
            if joined.startswith(b"//"):
                joined = joined[1:]
            if joined != root and not joined.startswith(root.rstrip(b"/") + b"/"):
                joined = os.path.join(guard.real(os.path.dirname(joined)), os.path.basename(joined))
            if joined != root and not joined.startswith(root.rstrip(b"/") + b"/"):
                raise Usage(f"{show(raw)} is outside {named(root)}", kept="nothing was written")
            found.append(joined[len(root) :].strip(b"/") if root != b"/" else joined[1:])
        return found

    def inside_agent(self) -> str | None:
        """The run whose agent made this call, or None for a person's."""
        if self.of_person:
            return None
        told = os.environ.get("CKPT_RUN")
        if (not told or self.elsewhere()) and self._above is None:
            self._above = ""
            try:
                store = self.place().directory
            except CheckpointerError:
                return told or None
            if os.path.isdir(store / "hooks"):  # else no hook told of anybody
                from checkpointer.agents.belonging import run_above

                self._above = run_above(store, elsewhere=bool(told)) or ""
        return self._above or told or None

    def elsewhere(self) -> bool:
        """Is the run around us one of another workspace than this call is about?"""
        inside = os.environ.get("CKPT_WORKSPACE", "")
        try:
            return bool(inside) and self.place().root != os.fsencode(inside)
        except CheckpointerError:
            return False

    def person_only(self, what: str) -> None:
        """Raise NeedsPerson if an agent made this call. This guards against accidents, not against malice."""
        run = self.inside_agent()
        if run is not None:
            raise NeedsPerson(
                f"{what} is for a person to do, and this call comes from inside run {run}",
                kept="nothing was written",
                next=("ask the person at the terminal",),
            )

    def confirm(self, question: str, *, yes: bool, flag: str = "--yes") -> None:
        """Ask a person. Raises NeedsPerson where nobody can be asked, or where the answer is no."""
        import sys

        if yes:
            return
        asking = is_terminal(sys.stdin) and is_terminal(sys.stderr) and not self.out.json
        if not asking or self.inside_agent() is not None:
            raise NeedsPerson(question, kept="nothing was written", next=(f"the same command with {flag}",))
        sys.stdout.flush()
        sys.stderr.write(f"{question}\nGo on? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise NeedsPerson("not done: the answer was no", kept="nothing was written")


def _quoted(path: bytes) -> str:
    import shlex

    return shlex.quote(os.fsdecode(path))
