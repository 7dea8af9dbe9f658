"""Which of many checkpoints broke something: the search, and one try in a directory of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar

T = TypeVar("T")
Verdict = Literal["good", "bad", "skip"]
SKIP = 125
"""The exit status that says: this one tells nothing (it does not build, say)."""


class Found(NamedTuple):
    """Between which it broke: the last good one and the first bad one, as indexes. `skipped` between them told nothing,
    so it may be any of those.
    """

    good: int
    bad: int
    skipped: tuple[int, ...]


class Stopped(Exception):
    """The command could not be tried, or was stopped by a signal: its outcome says nothing about the files."""


def search(count: int, ask: Callable[[int], Verdict]) -> Found:
    """Where it broke among `count` candidates, of which the first is good and the last is bad.

    Asks about log2(count) of them, more where some tell nothing.
    """
    good, bad = 0, count - 1
    skipped: set[int] = set()
    while True:
        open_ones = [i for i in range(good + 1, bad) if i not in skipped]
        if not open_ones:
            return Found(good, bad, tuple(i for i in range(good + 1, bad)))
        middle = (good + bad) / 2
        at = min(open_ones, key=lambda i: abs(i - middle))
        verdict = ask(at)
        if verdict == "good":
            good = at
        elif verdict == "bad":
            bad = at
        else:
            skipped.add(at)


def tried(command: Sequence[str], directory: bytes, environ: dict[str, str], out: int) -> Verdict:
    """Run the command in a directory: 0 is good, 125 tells nothing, anything else is bad. What it prints goes to `out`.

    Raises `Stopped` where it cannot be started, or a signal ended it.
    """
    try:
        done = subprocess.run(
            command, cwd=directory, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        )
    except OSError as e:
        raise Stopped(f"{command[0]} cannot be started: {e.strerror}") from e
    status = done.returncode
    if status < 0 or status in (126, 127):
        why = signal.Signals(-status).name if status < 0 else os.strerror(13 if status == 126 else 2)
        raise Stopped(f"{command[0]} ended by {why}" if status < 0 else f"{command[0]}: {why}")
    return "good" if status == 0 else "skip" if status == SKIP else "bad"
