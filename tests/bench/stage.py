"""Where rows are measured: a place of its own, real commands, ours and the baseline in turn."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Row:
    """One line of the table. `ours` and `base` are medians in seconds (or what `unit` says); lower is better."""

    name: str
    ours: float
    base: float | None
    ratio: float
    mark: float
    unit: str = "s"


class Bench:
    """A place to work in, and a command line that is really started each time."""

    def __init__(self, place: Path, rounds: int, *, long: bool = False) -> None:
        self.place = place
        self.rounds = rounds
        self.long = long
        self.rows: list[Row] = []
        installed = Path(sys.executable).with_name("ckpt")
        self.command = [str(installed)] if installed.exists() else [sys.executable, "-P", "-m", "checkpointer"]
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(place / "home"),
            "CKPT_HOME": str(place / "state"),
            "CKPT_CONFIG": str(place / "config.toml"),
        }
        (place / "home").mkdir()

    def ckpt(self, root: Path, *args: str) -> None:
        self.run([*self.command, *args, "-q"], root)

    def python(self, root: Path, *args: str) -> str:
        """Run one of this directory's scripts; what it printed."""
        return self.run([sys.executable, "-P", *args], root)

    def run(self, words: Sequence[str], root: Path) -> str:
        done = subprocess.run(words, cwd=root, env=self.env, capture_output=True)
        if done.returncode:
            raise SystemExit(f"{words}: {done.stderr.decode()}")
        return done.stdout.decode()

    def forget(self) -> None:
        shutil.rmtree(self.place / "state", ignore_errors=True)

    def pair(
        self,
        name: str,
        mark: float,
        ours: Callable[[], object],
        base: Callable[[], object],
        before_ours: Callable[[], object] = lambda: None,
        before_base: Callable[[], object] = lambda: None,
    ) -> None:
        """Time both alternately, each after its preparation."""
        mine, theirs = [], []
        for _ in range(self.rounds):
            before_base()
            theirs.append(timed(base))
            before_ours()
            mine.append(timed(ours))
        row = Row(name, statistics.median(mine), statistics.median(theirs), 0.0, mark)
        row.ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
        self.tell(row)

    def tell(self, row: Row) -> None:
        self.rows.append(row)
        base = "" if row.base is None else f"{row.base:9.3f} {row.unit}"
        print(f"{row.name:58} {row.ours:9.3f} {row.unit} {base:12} {row.ratio:7.2f}  (<= {row.mark})", flush=True)


def timed(work: Callable[[], object]) -> float:
    """How long `work` takes, in seconds; or what it says itself, where it gives a number."""
    os.sync()
    began = time.perf_counter()
    said = work()
    return said if isinstance(said, float) else time.perf_counter() - began
