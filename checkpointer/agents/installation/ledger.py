"""What was put into which agent's configuration: durable before the first file is touched, gone after the last.

It lies with the stores. Losing it costs little: an uninstall then leaves directories and copies that it
might have made.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from checkpointer import disk, home
from checkpointer.lock import Lock

SCHEMA = 1


@dataclass
class Installed:
    """One install: `created` are files, `directories` the ones made for them, `digests` what our own files held.

    `copies` are the files that hold a configuration as it was before us, the oldest first, and the digest of each.
    """

    agent: str
    directory: str
    project: str | None = None
    command: str = ""
    at: str = ""
    created: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    schema: int = SCHEMA


def place() -> Path:
    """The directory that holds the ledger; it need not exist."""
    return home.home_directory() / "agents"


def _path(agent: str, directory: Path) -> Path:
    return place() / f"{agent}-{hashlib.sha256(bytes(directory)).hexdigest()[:16]}.json"


def load(agent: str, directory: Path) -> Installed | None:
    """What is noted about an agent's configuration directory; None where nothing, or nothing readable, is."""
    return _read(_path(agent, directory))


def _read(path: Path) -> Installed | None:
    try:
        facts = json.loads(path.read_bytes())
        return Installed(**facts) if facts["schema"] == SCHEMA else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def everything() -> list[Installed]:
    """Every install that is noted."""
    found = [_read(p) for p in sorted(place().glob("*.json"))]
    return [f for f in found if f is not None]


def save(installed: Installed) -> None:
    """Note an install. Raises OSError."""
    make_place()
    data = json.dumps(asdict(installed), indent=1, ensure_ascii=True) + "\n"
    disk.replace(_path(installed.agent, Path(installed.directory)), data.encode())


def make_place() -> None:
    """Make the directory that holds the ledger and its lock. Raises OSError."""
    for missing in reversed([d for d in (place(), *place().parents) if not d.exists()]):
        disk.make_directory(missing)


def drop(agent: str, directory: Path) -> None:
    """Forget an install. Raises OSError."""
    disk.remove(_path(agent, directory), missing_ok=True)


def lock() -> Lock:
    """What every install and uninstall holds while it works. Raises OSError when its directory cannot be made."""
    make_place()
    return Lock(place() / "lock")


def digest(data: bytes) -> str:
    """How a file's content is noted."""
    return hashlib.sha256(data).hexdigest()
