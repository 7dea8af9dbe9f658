"""Whether what an agent does is being kept, and who has been told: noted where it is lost and where it comes back.

A note lies beside a store, `hooks/protection.json`; where there is none, or it cannot be written, in the state
directory, else among the temporary files. Each session is told once of a loss, and once that it is over.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from checkpointer import disk
from checkpointer.fields import Fields, made
from checkpointer.places import digest, home_directory

NOTE = "protection.json"


class Protection(Fields):
    """`reason` is why nothing is kept, empty while it is; `since` when that began, RFC 3339 UTC. `told` are sessions
    that were told of it, `owed` those of them that are still to be told that it is over, at checkpoint `back`. `agent`
    and `session` met it last; `remedy` goes on after the reason.
    """

    reason: str = ""
    since: str = ""
    told: list[str] = made(default_factory=list)
    owed: list[str] = made(default_factory=list)
    back: int = 0
    agent: str = ""
    session: str = ""
    remedy: str = ""

    def lost(self, reason: str, agent: str = "", session: str = "", remedy: str = "") -> bool:
        """Note a loss, whose it is, and what may be done about it. True if that is news."""
        news = not self.reason
        self.agent, self.session, self.remedy = agent, session, remedy
        if news:
            self.since, self.told = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), []
        self.reason = reason
        return news

    def held(self, checkpoint: int) -> bool:
        """Note that everything is kept again. True if that is news."""
        if not self.reason:
            return False
        self.owed = list(dict.fromkeys([*self.owed, *self.told]))[-50:]
        self.reason, self.since, self.told, self.back = "", "", [], checkpoint
        self.agent = self.session = self.remedy = ""
        return True

    def words(self, session: str) -> str:
        """What a session's person has not been told yet; empty where that is nothing. Counts as told from here on."""
        if self.reason:
            if session in self.told:
                return ""
            self.told = [*self.told, session][-50:]
            with contextlib.suppress(ValueError):
                self.owed.remove(session)
            since = datetime.fromisoformat(self.since).astimezone()
            return (
                f"ckpt: NOT PROTECTED since {since:%H:%M}: {self.reason}{self.remedy}. What the agent changes from "
                "here on cannot be undone. See: ckpt status"
            )
        if session in self.owed:
            self.owed.remove(session)
            return f"ckpt: protected again, from checkpoint {self.back} on. What changed before that cannot be undone."
        return ""


def _places(root: bytes, store: Path | None) -> Iterator[Path]:
    if store is not None:
        yield store / "hooks" / NOTE
    yield home_directory() / "hooks" / f"{digest(root)}.json"
    yield Path(os.environ.get("TMPDIR") or "/tmp") / f"ckpt-{os.getuid()}-{digest(root)}.json"


def load(root: bytes, store: Path | None) -> Protection:
    """What was noted of a workspace. What cannot be read is nothing."""
    for path in _places(root, store):
        with contextlib.suppress(OSError, ValueError, TypeError):
            if os.stat(path).st_uid == os.getuid():
                return Protection(**json.loads(path.read_bytes()))
    return Protection()


def save(root: bytes, store: Path | None, note: Protection) -> None:
    """Keep it where it can be kept. Never raises; at worst somebody is told twice."""
    data = json.dumps(note.as_dict()).encode()
    places = list(_places(root, store))
    for nth, path in enumerate(places):
        with contextlib.suppress(OSError):
            if nth < len(places) - 1:
                os.makedirs(path.parent, mode=0o700, exist_ok=True)
            disk.replace(path, data, durable=False)
            for other in places[nth + 1 :]:  # an older note of when the better place could not be written
                with contextlib.suppress(OSError):
                    disk.remove(other, missing_ok=True)
            return
