"""Asks ckpt itself, in a process of its own, as a person at a terminal would: the same words, the same exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PATIENCE = 600.0
"""Seconds after which an answer is no longer waited for. What was asked goes on to its end all the same."""

_OF_AN_AGENT = ("CKPT_RUN", "CKPT_EPOCH", "CKPT_STEP_ID", "CKPT_KEY")


@dataclass(frozen=True)
class Said:
    """`status` is the exit status, `out` and `err` what was printed."""

    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All of it, as a terminal would have shown it, without an empty line at either end."""
        return "\n".join(part for part in (self.out.strip("\n"), self.err.strip("\n")) if part)


def as_person(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what says that an agent is asking."""
    return {name: value for name, value in environment.items() if name not in _OF_AN_AGENT}


def ask(words: Sequence[str], directory: str, environment: Mapping[str, str]) -> Said:
    """Call ckpt with these words in a directory. Never raises: what goes wrong is said in `err`."""
    argv = [sys.executable, "-P", "-m", "checkpointer", *words]
    plain = {**environment, "NO_COLOR": "1", "CKPT_PAGER": "cat"}
    try:
        done = subprocess.run(
            argv, cwd=directory, env=plain, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return Said(1, "", f"no answer for {PATIENCE:.0f} s; see ckpt status")
    except OSError as e:
        return Said(1, "", f"ckpt cannot be started in {directory}: {e.strerror}")
    return Said(done.returncode, _text(done.stdout), _text(done.stderr))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def shortened(text: str, most: int) -> str:
    """At most so many lines: of a longer text the beginning, and the end, where the ways on stand."""
    lines = text.split("\n")
    if len(lines) <= most:
        return text
    tail = min(4, most // 2)
    head = most - tail - 1
    return "\n".join((*lines[:head], f"... {len(lines) - head - tail:,} more lines ...", *lines[len(lines) - tail :]))


def directory_of(path: bytes) -> str:
    """A directory as a child's `cwd`: the nearest one upward that still stands."""
    while path not in (b"/", b"") and not os.path.isdir(path):
        path = os.path.dirname(path)
    return os.fsdecode(path or b"/")
