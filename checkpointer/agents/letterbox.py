"""What is to be told at the next prompt of a session, to its agent and to its person; `place` is where hooks meet."""

from __future__ import annotations

import contextlib
from pathlib import Path

from checkpointer import disk

TELL = "tell"
"""What the agent is told."""
WARN = "warn"
"""What the person is told."""


def leave(place: Path, text: str, name: str = TELL) -> None:
    """Instead of what lies there. Never raises."""
    if not text:
        return
    with contextlib.suppress(OSError):
        for missing in (place.parent, place):
            if not missing.is_dir():
                disk.make_directory(missing)
        disk.replace(place / name, text.encode("utf-8", "backslashreplace"))


def take(place: Path, name: str = TELL) -> str:
    """What lies there, which then is gone; empty where nothing does."""
    with contextlib.suppress(OSError):
        text = (place / name).read_text(encoding="utf-8", errors="replace")
        disk.remove(place / name, missing_ok=True)
        return text
    return ""
