"""Ages, sizes, counts and paths in the words a person reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from checkpointer.workspace.entry import show


def age(at: datetime, now: datetime | None = None) -> str:
    """`8 s`, `2 min`, `3 h`, `5 days`: how long ago, in one unit. A time that is still to come is `0 s`."""
    seconds = max(0, int(((now or datetime.now(UTC)) - at).total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 86400} days"


def span(seconds: float) -> str:
    """How long something took or will take."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(n: int) -> str:
    """`512 B`, `4.1 KB`, `2.1 GB`; a kilobyte is 1024 bytes."""
    if n < 1024:
        return f"{n} B"
    value = float(n)
    for unit in ("KB", "MB", "GB", "TB"):
        value /= 1024
        if value < 1000 or unit == "TB":
            break
    return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"


def count(n: int, one: str, many: str | None = None) -> str:
    """`1 file`, `6 files`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def clock(at: datetime) -> str:
    """Local time of day, with the date where it is not today."""
    local = at.astimezone()
    return local.strftime("%H:%M" if local.date() == datetime.now().astimezone().date() else "%Y-%m-%d %H:%M")


def stamp(at: datetime) -> str:
    """RFC 3339 in UTC, for JSON."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def directory(path: bytes) -> str:
    """An absolute directory, with `~` for the home."""
    home = os.fsencode(os.environ.get("HOME", "")).rstrip(b"/")
    if home.startswith(b"/") and (path == home or path.startswith(home + b"/")):
        return "~" + show(path[len(home) :]) if path != home else "~"
    return show(path)


def paths(found: Iterable[bytes], most: int = 8) -> str:
    """Some paths on one line; the rest as a number."""
    listed = list(found)
    text = " ".join(shell(p) for p in listed[:most])
    return text if len(listed) <= most else f"{text} and {len(listed) - most:,} more"


def shell(path: bytes) -> str:
    """A path as it can be read and, mostly, typed: quoted where it holds what would split it."""
    text = show(path)
    return f"'{text}'" if text[:1] != '"' and any(c in text for c in " '\\*?[]{}$`;&|<>()#~!") else text


def quoted(text: str, width: int = 50) -> str:
    """A prompt or label on one line, in quotes, cut to `width`."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return f'"{line}"' if len(line) <= width else f'"{line[: width - 3]}..."'


def lines(ranges: Sequence[Sequence[int]] | str | None) -> str:
    """`lines 12-18, 40` of inclusive ranges; empty where none are known."""
    if not ranges or isinstance(ranges, str):
        return str(ranges or "")
    parts = [f"{r[0]}" if r[0] == r[-1] else f"{r[0]}-{r[-1]}" for r in ranges]
    return ("line " if len(parts) == 1 and "-" not in parts[0] else "lines ") + ", ".join(parts)
