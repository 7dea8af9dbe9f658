"""What the hooks of an agent have told so far: an observed run as its next hook needs to know it.

Each hook is a process of its own and must be quick, so it does not fold the whole log. What it has to say it writes
down as *facts*, one JSON object a line, synced, in a journal beside the run; at the end of a turn they become events
of the log. A `Session` is the fold of all facts. It is kept as a cache beside the journal, and without it is made anew
from the log's state and the journal: see `checkpointer.run.pending`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from checkpointer.fields import Fields, made

JOURNAL: Final = "journal"
CACHE: Final = "session.json"
_REMEMBERED: Final = 400
"""Ends and prompts that are remembered, to know a report that comes twice."""

Fact = dict[str, Any]


def directory(store: Path, run: str) -> Path:
    """Where what hooks keep of a run lies."""
    return store / "hooks" / run


class Open(Fields):
    """A call whose end has not been told. `reads`: it changes no file; `background`: its end is not the end of it."""

    step: int
    turn: int
    tool: str
    context: str = "main"
    id: str = ""
    mark: str = ""
    effect: str = "external"
    background: bool = False
    delegates: bool = False

    @property
    def writes(self) -> bool:
        return self.effect != "read" and not self.delegates

    @property
    def handle(self) -> str:
        return f"t{self.turn}.{self.step}"


class Session(Fields):
    """`turn` is the newest turn's number, 0 before the first, `open` whether it has not ended, `steps` how many calls
    it has. `loose`: some call of it was told only by its end, so what nobody else did in it counts as the turn's.

    `known` is the number of the newest checkpoint that the facts know of, `commit` its id; `told` is the newest one
    that the agent was told of. `offset` counts the bytes of the journal that are in here. `released`: the run was let
    go; `inside`: it is one of `ckpt run`, under whose epoch hooks act.

    `asked` is the newest command that was typed as a prompt and changes files: its `text`, `slot`, `at` and `name`, and
    `until`, when it was answered, missing while it is carried out. `answered` are the prompts that asked for such.
    """

    run: str = ""
    handle: str = ""
    agent: str = ""
    session: str = ""
    epoch: int = 0
    owner: list[Any] = made(default_factory=list)
    shape: str = ""
    turn: int = 0
    open: bool = False
    prompt: str = ""
    steps: int = 0
    loose: bool = False
    calls: dict[str, Open] = made(default_factory=dict)
    over: list[str] = made(default_factory=list)
    lost: list[str] = made(default_factory=list)
    slots: list[str] = made(default_factory=list)
    answered: list[str] = made(default_factory=list)
    asked: dict[str, str] = made(default_factory=dict)
    known: int = 0
    commit: str = ""
    told: int = 0
    offset: int = 0
    released: bool = False
    inside: bool = False

    def owners(self, *, closing: bool) -> tuple[str, ...]:
        """The handles of the steps that own what changed since the newest checkpoint; none: nobody in particular.

        `closing`: the turn is about to end. A turn none of whose calls were told owns what changed in it.
        """
        writing = tuple(c.handle for c in self.calls.values() if c.writes)
        if writing:
            return writing
        delegating = tuple(c.handle for c in self.calls.values() if c.delegates)
        if delegating:
            return delegating
        whole = self.open and (self.loose or (closing and self.steps == 0))
        return (f"t{self.turn}",) if whole else ()

    def take(self, fact: Fact) -> None:
        """Take one more fact in. One of a kind that is not known here changes nothing."""
        kind = fact.get("f")
        if kind == "turn":
            self._turn(fact)
        elif kind == "start":
            self._start(fact)
        elif kind in ("end", "lost"):
            self.calls.pop(fact["key"], None)
            if kind == "lost":
                _remember(self.lost, fact["key"])
            else:
                _remember(self.over, fact["key"])
                if fact.get("also"):  # how its end is called when it is told again
                    _remember(self.over, fact["also"])
                self.loose = self.loose or bool(fact.get("alone"))
        elif kind == "said" and fact.get("ctx", "main") == "main":
            self.open = False
        elif kind == "asked":
            self.asked = {"text": fact["text"], "slot": fact["slot"], "at": fact["at"], "name": fact["uid"]}
            _remember(self.answered, prompt_name(fact["slot"], fact["text"]))
        commit = fact.get("commit")
        if commit:
            self.commit, self.known = commit[0], max(self.known, commit[1])

    def _turn(self, fact: Fact) -> None:
        self.turn, self.open, self.steps, self.loose = fact["n"], True, 0, False
        self.prompt = str(fact.get("text") or "")[:200]
        if fact.get("slot"):
            _remember(self.slots, fact["slot"])
        if fact.get("commit"):
            self.told = fact["commit"][1]

    def _start(self, fact: Fact) -> None:
        self.steps = max(self.steps, fact["step"])
        self.calls[fact["key"]] = Open(
            fact["step"],
            fact["turn"],
            fact["tool"],
            fact.get("ctx", "main"),
            fact.get("id", ""),
            fact.get("mark", ""),
            fact.get("effect", "external"),
            bool(fact.get("background")),
            bool(fact.get("delegates")),
        )

    def is_owned_by(self, pid: int, started: str) -> bool:
        return len(self.owner) == 5 and self.owner[3:] == [pid, started]

    def encode(self) -> bytes:
        return json.dumps(self.as_dict()).encode()


def prompt_name(slot: str, text: str) -> str:
    """What a prompt that asked for something is remembered by."""
    return f"{slot} {' '.join(text.split())}"


def decode(data: bytes) -> Session:
    """A session as it was encoded. Raises ValueError, KeyError or TypeError on anything else."""
    found: Mapping[str, Any] = json.loads(data)
    session = Session(**{name: value for name, value in found.items() if name in Session.NAMES})
    session.calls = {key: Open(**one) for key, one in found["calls"].items()}
    return session


def load(store: Path, run: str) -> Session | None:
    """The session of a run as its hooks left it, or None where no hook did, or where that cannot be read."""
    place = directory(store, run)
    try:
        with open(place / CACHE, "rb") as f:
            session = decode(f.read())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return session if session.run == run and catch_up(session, place) else None


def catch_up(session: Session, place: Path) -> bool:
    """Take in what the journal holds beyond a cached session. False where the two do not belong together."""
    facts, end = journal(place, session.offset)
    if end < session.offset:
        return False
    for fact in facts:
        with contextlib.suppress(KeyError, TypeError, IndexError):
            session.take(fact)
    session.offset = end
    return True


def journal(place: Path, offset: int = 0) -> tuple[list[Fact], int]:
    """The facts of a journal from a byte on, and where the last whole one ends. A torn last line is not one."""
    try:
        with open(place / JOURNAL, "rb") as f:
            size = f.seek(0, os.SEEK_END)
            if size < offset:
                return [], size
            f.seek(offset)
            data = f.read()
    except FileNotFoundError:
        return [], 0
    whole = data[: data.rfind(b"\n") + 1]
    facts: list[Fact] = []
    for line in whole.split(b"\n"):
        try:
            fact = json.loads(line) if line else None
        except ValueError:
            continue  # a torn line that a later one was appended to
        if isinstance(fact, dict) and "f" in fact:
            facts.append(fact)
    return facts, offset + len(whole)


def _remember(kept: list[str], one: str) -> None:
    kept.append(one)
    del kept[:-_REMEMBERED]
