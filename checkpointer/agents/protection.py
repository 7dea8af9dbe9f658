"""Whether what a session's agent does is being kept, and whether its person was told: noted where it is lost and where
it comes back.

Each session has a note of its own, `hooks/lost-<hash>.json` beside a store; where it cannot be written there, in the
state directory, else among the temporary files. There is none while all is well, so that one session whose changes are
kept says nothing about another's. A person is told once of a loss, and once that it is over.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from checkpointer import disk
from checkpointer.agents import ancestry
from checkpointer.fields import Fields
from checkpointer.places import digest, home_directory

FORGOTTEN = timedelta(days=1)
"""A loss of a session of which nobody can say whether it goes on is told of for so long."""


class Protection(Fields):
    """`reason` is why nothing is kept, empty while it is; `since` when that began, RFC 3339 UTC. `told`: the person was
    told so; `owed`: they are still to be told that it is over, at checkpoint `back`. `remedy` goes on after the reason.
    `pid` and `started` are those of the agent, where that is known for sure.
    """

    session: str = ""
    agent: str = ""
    reason: str = ""
    since: str = ""
    remedy: str = ""
    told: bool = False
    owed: bool = False
    back: int = 0
    pid: int = 0
    started: str = ""

    def lost(self, reason: str, agent: str = "", remedy: str = "", process: ancestry.Process | None = None) -> bool:
        """Note a loss, whose it is, and what may be done about it. True if that is news."""
        news = not self.reason
        self.agent, self.remedy = agent, remedy
        if process is not None and ancestry.is_agent(process.words):
            self.pid, self.started = process.pid, process.started
        if news:
            self.since, self.told = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), False
        self.reason = reason
        return news

    def held(self, checkpoint: int) -> bool:
        """Note that everything is kept again. True if that is news."""
        if not self.reason:
            return False
        self.owed, self.back = self.owed or self.told, checkpoint
        self.reason, self.since, self.remedy, self.told = "", "", "", False
        return True

    def words(self) -> str:
        """What the person has not been told yet; empty where that is nothing. Counts as told from here on."""
        if self.reason:
            if self.told:
                return ""
            self.told, self.owed = True, False
            since = datetime.fromisoformat(self.since).astimezone()
            return (
                f"ckpt: NOT PROTECTED since {since:%H:%M}: {self.reason}{self.remedy}. What the agent changes from "
                "here on cannot be undone. See: ckpt status"
            )
        if self.owed:
            self.owed = False
            return f"ckpt: protected again, from checkpoint {self.back} on. What changed before that cannot be undone."
        return ""

    @property
    def goes_on(self) -> bool:
        """May the agent that met the loss still be at work?"""
        if not self.pid:
            return datetime.now(UTC) - datetime.fromisoformat(self.since) < FORGOTTEN
        found = ancestry.process(self.pid)
        return found is not None and found.started == self.started


def _places(root: bytes, store: Path | None) -> Iterator[tuple[Path, str]]:
    """Directories, the best one first, and what the names of notes begin with there."""
    if store is not None:
        yield store / "hooks", "lost-"
    yield home_directory() / "hooks", f"{digest(root)}-"
    yield Path(os.environ.get("TMPDIR") or "/tmp"), f"ckpt-{os.getuid()}-{digest(root)}-"


def _paths(root: bytes, store: Path | None, session: str) -> list[Path]:
    name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return [directory / f"{prefix}{name}.json" for directory, prefix in _places(root, store)]


def _read(path: Path) -> Protection | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        if os.stat(path).st_uid == os.getuid():
            return Protection(**json.loads(path.read_bytes()))
    return None


def load(root: bytes, store: Path | None, session: str) -> Protection:
    """What was noted of a session. What cannot be read is nothing."""
    for path in _paths(root, store, session):
        if (found := _read(path)) is not None:
            return found
    return Protection(session=session)


def losses(root: bytes, store: Path | None) -> list[Protection]:
    """The sessions that are not protected, and may still be at work, the newest loss first."""
    found: dict[str, Protection] = {}
    for directory, prefix in _places(root, store):
        with contextlib.suppress(OSError):
            for name in os.listdir(directory):
                if name.startswith(prefix) and (note := _read(directory / name)) is not None and note.reason:
                    found.setdefault(note.session, note)
    with contextlib.suppress(ValueError):
        return sorted((note for note in found.values() if note.goes_on), key=lambda note: note.since, reverse=True)
    return []


def save(root: bytes, store: Path | None, note: Protection) -> None:
    """Keep it where it can be kept, or drop it where there is nothing to say. Never raises; at worst somebody is told
    twice.
    """
    paths = _paths(root, store, note.session)
    if not note.reason and not note.owed:
        _drop(paths)
        return
    data = json.dumps(note.as_dict()).encode()
    for nth, path in enumerate(paths):
        with contextlib.suppress(OSError):
            if nth < len(paths) - 1:
                os.makedirs(path.parent, mode=0o700, exist_ok=True)
            disk.replace(path, data, durable=False)
            _drop(paths[nth + 1 :])  # an older note of when the better place could not be written
            return


def _drop(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            disk.remove(path, missing_ok=True)
