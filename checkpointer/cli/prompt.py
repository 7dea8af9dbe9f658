"""`ckpt status --short`: one line for a shell prompt, from what earlier commands noted, without a scan.

It imports nothing heavy and prints nothing where there is nothing to say. The note may be older than the files: it is
no promise.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

NOTE = "prompt.json"


def note(directory: Path, facts: dict[str, Any]) -> None:
    """Keep what the next prompt shows, beside the stat tables; losing it costs nothing."""
    from checkpointer import disk

    try:
        disk.replace(directory / "scan" / NOTE, json.dumps(facts).encode(), durable=False)
    except OSError:
        return


def short() -> int:
    """Print the line; 0 even where nothing is protected, for a prompt must not break."""
    from checkpointer import home
    from checkpointer.errors import CheckpointerError

    try:
        place = home.locate(os.getcwdb())
    except (OSError, CheckpointerError):
        return 0
    if place is None:
        return 0
    return print_line(place.directory)


def print_line(directory: Path) -> int:
    sys.stdout.write(line(directory, time.time()) + "\n")
    return 0


def line(directory: Path, now: float) -> str:
    """What the prompt shows: the newest checkpoint and its age, what was noted to need a look."""
    try:
        moved = os.stat(directory / "shadow.git" / "refs" / "heads" / "timeline").st_mtime
    except OSError:
        return "ckpt: no checkpoint"
    try:
        facts = json.loads((directory / "scan" / NOTE).read_bytes())
        assert isinstance(facts, dict)
    except (OSError, ValueError, AssertionError):
        facts = {}
    if os.environ.get("CKPT_OFF") == "1":
        return "ckpt: off"
    words = ["ckpt"]
    if not facts.get("protected", True):
        words.append("UNPROTECTED")
    if facts.get("checkpoint") is not None:
        words.append(str(facts["checkpoint"]))
    words.append(_age(max(0, int(now - moved))))
    if facts.get("uncertain"):
        words.append(f"uncertain: {facts['uncertain']}")
    return " ".join(words)


def _age(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 3600 else f"{seconds // 3600}h"
