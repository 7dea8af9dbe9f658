"""Where a demonstration plays: a temporary directory with a home and a store of its own; what is claimed there."""

from __future__ import annotations

import os
import shlex
import site
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import checkpointer

Say = Callable[[str], None]


@dataclass(frozen=True)
class Claim:
    """Something that was looked at. `found` is what was there, in words."""

    text: str
    held: bool
    found: str


class Stage:
    """Use it as a block; all of it is gone afterwards. Nothing of it reaches the user's own store or configuration."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.claims: list[Claim] = []
        self._made = tempfile.TemporaryDirectory(prefix="ckpt-demo-")
        self.base = Path(os.path.realpath(self._made.name))
        self.home = self.base / "home"
        self.home.mkdir()
        self.env = _environment(self.base, self.home)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._made.cleanup()

    def claim(self, text: str, held: bool, found: str = "") -> None:
        """Say whether something is so."""
        self.claims.append(Claim(text, held, found))
        self.say(f"  {'yes' if held else 'NO '}  {text}" + (f": {found}" if found else ""))

    @property
    def held(self) -> bool:
        """Was everything so that was claimed? Not without any claim."""
        return bool(self.claims) and all(one.held for one in self.claims)

    def type(self, words: Sequence[str], directory: Path) -> int:
        """A command as a person types it, and what it says. Gives its exit status."""
        self.say("$ " + shlex.join(words))
        command = [sys.executable, "-P", "-m", "checkpointer", *words[1:]] if words[0] == "ckpt" else list(words)
        done = subprocess.run(
            command,
            cwd=directory,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            self.say(f"  {line}")
        return done.returncode


def _environment(base: Path, home: Path) -> dict[str, str]:
    """That of this process, without what would lead a child into the user's store, or into a run around us."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CKPT_", "GIT_", "XDG_"))}
    package = os.path.dirname(os.path.dirname(os.path.abspath(checkpointer.__file__)))
    above = [path for path in (env.get("PYTHONPATH"),) if path]
    return env | {
        "HOME": str(home),
        "CKPT_HOME": str(base / "store"),
        "CKPT_CONFIG": str(base / "config.toml"),
        "PYTHONUSERBASE": site.getuserbase(),  # packages that were installed for this user stay importable
        "PYTHONPATH": os.pathsep.join([package, *above]),
        "NO_COLOR": "1",
    }
