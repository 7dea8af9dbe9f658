"""A bar on stderr for work that takes longer than half a second: phase, files, bytes, time left."""

from __future__ import annotations

import os
import sys
import time

from checkpointer.cli.output import Output, is_terminal
from checkpointer.cli.phrase import size, span

DELAY = 0.5
PAUSE = 0.1
WORDS = {"capture": "reading", "objects": "checking", "measure": "measuring"}
UNITS = {"measure": "s"}
"""What is counted, where that is not files."""


class Bar:
    """Called as `bar(phase, done, total, bytes)`; `total` is None where it is not known yet. Silent where stderr is no
    terminal.
    """

    def __init__(self, out: Output) -> None:
        self._shown = False
        self._started = time.monotonic()
        self._phase = ""
        self._phase_started = self._started
        self._next = self._started + DELAY
        self._on = is_terminal(sys.stderr) and not out.quiet and not out.json

    def __call__(self, phase: str, done: int, total: int | None = None, count: int = 0) -> None:
        if not self._on:
            return
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._phase_started = phase, now
        if now < self._next:
            return
        self._next = now + PAUSE
        self._draw(text(phase, done, total, count, now - self._phase_started))

    def _draw(self, line: str) -> None:
        try:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
        except OSError:
            width = 80
        sys.stderr.write("\r" + line[: max(1, width - 1)] + "\x1b[K")
        sys.stderr.flush()
        self._shown = True

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def text(phase: str, done: int, total: int | None, count: int, seconds: float) -> str:
    """What the bar says: `reading  [#####     ]  5,000 of 10,000 files  40 MB  3 s left`."""
    parts, unit = [WORDS.get(phase, phase)], UNITS.get(phase, "files")
    if total:
        share = min(1.0, done / total)
        parts.append("[" + ("#" * round(share * 20)).ljust(20) + "]")
        parts.append(f"{done:,} of {total:,} {unit}")
    else:
        parts.append(f"{done:,} {unit}")
    if count:
        parts.append(size(count))
    if total and 0 < done < total and seconds > DELAY:
        parts.append(f"{span(seconds / done * (total - done))} left")
    return "  ".join(parts)
