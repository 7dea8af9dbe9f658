"""Would a checkpoint work in this directory, how long does a look at it take, what is not covered?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from checkpointer import home, places
from checkpointer.agents.checkup.finding import Finding, broken, note, ok
from checkpointer.agents.checkup.ground import writable
from checkpointer.config import Config
from checkpointer.errors import CheckpointerError
from checkpointer.home import Place
from checkpointer.workspace import guard
from checkpointer.workspace.entry import show

SLOW = 1.0
"""Seconds for one look above which a person should hear of it: hooks wait for as long."""
REASONS = {"too-large": "too large", "unreadable": "cannot be read", "other-filesystem": "another file system"}


def examine(here: bytes, config: Config) -> Iterator[Finding]:
    """Look at the workspace that a directory belongs to. Nothing is written there."""
    if os.environ.get("CKPT_OFF") == "1":
        yield broken("here", "off", "CKPT_OFF=1: hooks do nothing in this session", "unset CKPT_OFF")
    place = places.locate(here)
    if place is None:
        yield from _without_store(guard.real(here))
        return
    subject = show(place.root)
    if place.state == "gone":
        yield broken(
            subject, "gone", "this directory is gone; its checkpoints are there", "ckpt undo", "ckpt restore P"
        )
        return
    if place.state == "imported":
        yield note(subject, "imported", "a run from elsewhere stands here, to be looked at; nothing is kept here")
        return
    if place.state == "moved" and place.old is not None:
        yield note(subject, "moved", f"it was {show(place.old)}; its store follows at the next checkpoint", "ckpt save")
    if place.state == "remade":
        yield note(subject, "remade", "another directory than its store was made for stands here now", "ckpt save")
    yield from _look(place, subject, config)


def _look(place: Place, subject: str, config: Config) -> Iterator[Finding]:
    why = writable(place.directory)
    if why:
        yield broken(
            subject,
            "store-not-writable",
            f"its store {place.directory} cannot be written from here: {why}; it can only be looked at",
            "run this outside the agent's sandbox, or let the sandbox write that directory",
        )
    try:
        workspace = home.open_place(place, read_only=True)
        workspace.limit = config.integer("capture.limit")
        workspace.jobs = config.integer("capture.jobs") or None
        began = time.monotonic()
        present = workspace.look()
        took = time.monotonic() - began
        tip = workspace.store.tip()
        pending = workspace.store.pending() is not None
    except CheckpointerError as e:
        yield broken(subject, e.code, f"a checkpoint would fail: {e.message}", *(e.next or ("ckpt verify",)))
        return
    if pending:
        yield note(subject, "pending", "an undo or restore was cut short", "ckpt save")
    files = "1 file" if present.files == 1 else f"{present.files:,} files"
    looked = f"{files} looked at in {took:.2f} s"
    if tip is None:
        yield note(subject, "no-checkpoint", f"there is no checkpoint yet; {looked}", "ckpt save")
    elif not why:
        yield ok(subject, "checkpoint", f"a checkpoint works: {looked}, the newest is {tip.number}")
    if took > SLOW:
        yield note(
            subject,
            "slow",
            f"a look takes {took:.1f} s; each step of an agent waits for one or two. {_heaviest(place.root)}",
            "list what need not be covered in .ckptignore, as in a .gitignore",
        )
    if present.uncovered:
        yield _uncovered(subject, place.root, dict(present.uncovered))


def _uncovered(subject: str, root: bytes, uncovered: dict[bytes, str]) -> Finding:
    named = [f"{show(p)} ({REASONS.get(r, r)})" for p, r in sorted(uncovered.items())]
    more = f" and {len(named) - 6} more" if len(named) > 6 else ""
    large = any(r == "too-large" for r in uncovered.values())
    mend = ("ckpt config capture.limit '4 GB'",) if large else ()
    return note(subject, "uncovered", f"not covered: {' '.join(named[:6])}{more}", *mend)


def _heaviest(root: bytes) -> str:
    from checkpointer.workspace.rules.ignore import Rules

    found = guard.survey(root, Rules(root).ignored, stop=20_000)
    return (
        "The most files are in " + ", ".join(f"{show(p)} ({n:,}+)" for p, n in found.largest) if found.largest else ""
    )


def _without_store(here: bytes) -> Iterator[Finding]:
    subject = show(here)
    try:
        guard.refuse(here, os.fsencode(places.stores()))
    except CheckpointerError as e:
        yield broken(subject, e.code, f"nothing can be protected here: {e.message}", *e.next)
        return
    for lost in lost_stores(here):
        yield note(
            subject,
            "adoptable",
            f"there is a store of {show(lost.root)}, which is gone: was it this directory?",
            f"ckpt doctor --adopt {show(lost.root)}",
        )
    yield note(
        subject,
        "no-store",
        "not protected yet; it is from an agent's next session here on, or from now",
        "ckpt save",
    )


def lost_stores(here: bytes) -> list[Place]:
    """Stores whose directory is gone and may be this one: of its name, or of its inode."""
    try:
        inode = os.stat(here).st_ino
    except OSError:
        return []
    found = []
    for place in places.places():
        known = places.known_facts(place.directory)
        if place.state == "gone" and known is not None and place.root:
            same = known.ino == inode or os.path.basename(place.root) == os.path.basename(here)
            if same:
                found.append(place)
    return found
