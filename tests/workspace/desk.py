"""A directory with a store beside it, worked on through `Workspace`: the user's and the agent's hands for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.manifest import Manifest

from checkpointer.workspace import facts
from checkpointer.workspace.outcome import Outcome, Saved
from checkpointer.workspace.shadow.store import Store
from checkpointer.workspace.undoing.selection import Selector
from checkpointer.workspace.workspace import Workspace

NEWEST = Selector()


class Desk:
    """`root` is the workspace, `state` its store's directory. Every call opens the workspace anew."""

    def __init__(self, base: Path, *, make: bool = True) -> None:
        self.base = base
        self.root = base / "w"
        self.state = base / "state"
        self.turn = 0
        if make:
            self.root.mkdir()
            self.root.chmod(0o755)
            self.state.mkdir(0o700)
            Store.create(self.state / "shadow.git")
            st = self.root.stat()
            facts.save(self.state, facts.Facts(path=os.fsencode(self.root), dev=st.st_dev, ino=st.st_ino))

    def workspace(self, **more: Any) -> Workspace:
        return Workspace(os.fsencode(self.root), self.state, **more)

    def write(self, path: str, text: str | bytes, mode: int | None = None) -> None:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(text.encode() if isinstance(text, str) else text)
        if mode is not None:
            full.chmod(mode)

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def files(self) -> Manifest:
        return Manifest.of(self.root)

    def stored(self) -> Manifest:
        return Manifest.of(self.state)

    def save(self, **more: Any) -> Saved:
        return self.workspace().save(**more)

    def step(self, act: Callable[[], object] | str, *, run: str = "r1", new_turn: bool = True) -> Saved:
        """One step of an agent: a shell script run in the workspace, or a function."""
        self.save(kind="outside")
        if new_turn or not self.turn:
            taken = [u.turn or 0 for u in self.workspace(read_only=True).timeline().units]
            self.turn = max([self.turn, *taken]) + 1
            self._steps = 0
        self._steps += 1
        if isinstance(act, str):
            subprocess.run(["sh", "-euc", act], cwd=self.root, check=True)
        else:
            act()
        return self.save(kind="step", runs=(run,), steps=(f"t{self.turn}.{self._steps}",))

    def undo(self, selector: Selector = NEWEST, **more: Any) -> Outcome:
        return self.workspace().undo(selector, **more)

    def redo(self, selector: Selector = NEWEST, **more: Any) -> Outcome:
        return self.workspace().redo(selector, **more)

    def restore(self, number: int, paths: Sequence[bytes] = (), **more: Any) -> Outcome:
        return self.workspace().restore(number, paths, **more)

    def kinds(self) -> list[str]:
        return [c.kind for c in self.workspace(read_only=True).store.checkpoints()]


def fsck(directory: Path) -> None:
    """The store in this directory is sound, as git sees it."""
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(directory / "shadow.git"), "fsck", "--strict", "--no-dangling"],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
