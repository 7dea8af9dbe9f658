"""What a word names: a point on the timeline, or the turns an undo is about.

Grammar of a point: `17`, a label, `t3` (right after the turn), `t3-` (right before it), `t3.2` and `t3.2-` (a step),
`@14:05` and `@10m` (the newest checkpoint then), a commit id of seven digits or more, `now`. Of a selector: `t3`,
`t3.2`, `t3..`, `t3..t5`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from checkpointer.errors import TooOld, Usage
from checkpointer.workspace.checkpoint import Checkpoint

TURN = re.compile(r"t(\d{1,9})(?:\.(\d{1,9}))?")
POINT = re.compile(r"[0-9]+|now|@.*|t\d+(\.\d+)?-?|r\d+|u\d+")
RANGE = re.compile(r"t(\d{1,9})\.\.(?:t(\d{1,9}))?")


class Turns(NamedTuple):
    """Which turns an undo or redo is about: `first` to `last` (None: all since), or one `step` of one turn."""

    first: int
    last: int | None
    step: int | None = None


def reads_as_handle(word: str) -> bool:
    """Is this word a handle by its form alone, whatever files there are?"""
    return POINT.fullmatch(word) is not None or RANGE.fullmatch(word) is not None


class Points:
    """Finds checkpoints of one workspace by what a person types.

    `kept` are the checkpoints of the timeline, oldest first; `further` are pinned or labelled ones older than it;
    `rewritten` maps an id that a purge replaced to the one that stands for it; `by_number` finds a checkpoint in
    neither list, or raises why there is none.
    """

    def __init__(
        self,
        kept: Sequence[Checkpoint],
        further: Sequence[Checkpoint] = (),
        *,
        rewritten: Callable[[str], str | None] = lambda _: None,
        by_number: Callable[[int], Checkpoint] | None = None,
        now: datetime | None = None,
    ) -> None:
        self.kept = kept
        self.all = sorted({c.number: c for c in (*further, *kept)}.values(), key=lambda c: c.number)
        self._rewritten = rewritten
        self._by_number = by_number
        self._now = now or datetime.now(UTC)

    def resolve(self, word: str) -> Checkpoint | None:
        """The checkpoint a word names; None for `now`. Raises Usage, or TooOld for what retention has dropped."""
        if word == "now":
            return None
        if word.isascii() and word.isdigit():
            return self.numbered(word)
        if word.startswith("@"):
            return self._at(word)
        match = TURN.fullmatch(word.removesuffix("-"))
        if match:
            return self._turn(word, match)
        if re.fullmatch(r"r\d+", word):
            raise Usage(f"{word} is a run, not a point in time", next=(f"ckpt log --run {word}",))
        if re.fullmatch(r"u\d+", word):
            raise Usage(f"{word} is an uncertain call, not a point in time", next=("ckpt uncertain",))
        labelled = [c for c in self.all if word in (c.meta.label, *c.meta.names)]
        if labelled:
            return labelled[-1]
        return self._by_id(word) or self._unknown(word)

    def numbered(self, word: str) -> Checkpoint:
        number = int(word) if len(word) < 15 else -1
        for c in self.all:
            if c.number == number:
                return c
        if not self.all:
            raise Usage("there is no checkpoint yet", next=("ckpt save",))
        newest = self.all[-1].number
        if 0 < number < newest and self._by_number is not None:
            return self._by_number(number)  # raises: dropped, or lost to damage
        if 0 < number < newest:
            raise TooOld(
                f"checkpoint {word} is no longer kept; the oldest is {self.all[0].number}",
                next=("ckpt log --checkpoints",),
            )
        if len(word) >= 7 and (found := self._by_id(word)):
            return found
        raise Usage(f"there is no checkpoint {word}; the newest is {newest}", next=("ckpt log --checkpoints",))

    def _turn(self, word: str, match: re.Match[str]) -> Checkpoint | None:
        handle = word.removesuffix("-")
        step = match[2] is not None
        mine = [i for i, c in enumerate(self.kept) if any(named(s, handle, step) for s in c.meta.steps)]
        if not mine:
            raise self.no_turn(handle)
        if not word.endswith("-"):
            return self.kept[mine[-1]]
        if mine[0] == 0:
            raise TooOld(f"what was before {handle} is no longer kept", next=("ckpt log --checkpoints",))
        return self.kept[mine[0] - 1]

    def no_turn(self, handle: str) -> Usage | TooOld:
        """The error for a turn or step that is not there."""
        turns = sorted({int(m[1]) for c in self.kept for s in c.meta.steps if (m := TURN.match(s))})
        wanted = TURN.fullmatch(handle)
        if not turns:
            return Usage(f"there is no {handle}: no turn has changed anything here", next=("ckpt log --checkpoints",))
        if wanted and int(wanted[1]) < turns[0] and self.kept[0].number > 1:
            why = f"{handle} is no longer kept, or changed nothing; the oldest turn that did is t{turns[0]}"
            return TooOld(why, next=("ckpt log",))
        if wanted and wanted[2] and int(wanted[1]) in turns:
            return Usage(f"there is no step {handle} that changed anything", next=(f"ckpt show t{wanted[1]}",))
        if wanted and 0 < int(wanted[1]) < turns[-1]:
            return Usage(f"{handle} changed nothing", next=("ckpt log",))
        return Usage(f"there is no {handle}; the newest turn that changed anything is t{turns[-1]}", next=("ckpt log",))

    def _at(self, word: str) -> Checkpoint:
        moment = self.moment(word)
        before = [c for c in self.kept if c.meta.at <= moment]
        if before:
            return max(before, key=lambda c: c.number)
        if not self.kept:
            raise Usage("there is no checkpoint yet", next=("ckpt save",))
        raise TooOld(
            f"there is no checkpoint as old as {word}; the oldest kept is {self.kept[0].number}",
            next=("ckpt log --checkpoints",),
        )

    def moment(self, word: str) -> datetime:
        """The time that `@14:05`, `@10m` or `@2026-12-01T14:05` means; a time of day is the last such."""
        text = word[1:]
        ago = re.fullmatch(r"(\d{1,6})\s*(s|m|min|h|d|w)", text)
        if ago:
            unit = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}[ago[2]]
            try:
                return self._now - timedelta(**{unit: int(ago[1])})
            except OverflowError:
                return datetime.min.replace(tzinfo=UTC)
        clock = re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", text)
        try:
            if clock:
                local = self._now.astimezone()
                # 14:05 is the whole minute: a checkpoint at 14:05:30 is "the newest one then".
                second = int(clock[3]) if clock[3] else 59
                at = local.replace(hour=int(clock[1]), minute=int(clock[2]), second=second, microsecond=999_999)
                started = at if clock[3] else at.replace(second=0, microsecond=0)
                return at if started <= local else at - timedelta(days=1)
            at = datetime.fromisoformat(text)
            return at if at.tzinfo is not None else at.astimezone()
        except (ValueError, OverflowError):
            raise Usage(f"{word} is no time", next=("@14:05, @10m, @2h, @3d or @2026-12-01T14:05",)) from None

    def _by_id(self, word: str) -> Checkpoint | None:
        if not re.fullmatch(r"[0-9a-f]{7,40}", word):
            return None
        wanted = self._rewritten(word) or word
        found = [c for c in self.all if c.id.startswith(wanted)]
        return found[0] if len(found) == 1 else None

    def _unknown(self, word: str) -> Checkpoint:
        labels = [name for c in self.all for name in (c.meta.label, *c.meta.names) if name]
        import difflib

        near = difflib.get_close_matches(word, labels, 1, 0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise Usage(
            f"there is no checkpoint {word!r}{hint}",
            next=("ckpt log --checkpoints", "a point is 17, a label, t3, t3-, @14:05, @10m or now"),
        )


def named(step: str, handle: str, exact: bool) -> bool:
    """Does a checkpoint's step (`t3.2`) belong to a handle (`t3`, or exactly `t3.2`)?"""
    return step == handle or (not exact and step.startswith(handle + "."))


def turns(word: str, nor: str = "") -> Turns:
    """What `undo` and `redo` are about. Raises Usage; a checkpoint's number names both commands that may be meant."""
    match = TURN.fullmatch(word)
    if match:
        first = int(match[1])
        return Turns(first, first, int(match[2]) if match[2] else None)
    match = RANGE.fullmatch(word)
    if match:
        first, last = int(match[1]), int(match[2]) if match[2] else None
        if last is not None and last < first:
            raise Usage(f"{word} runs backwards", next=(f"t{last}..t{first}",))
        return Turns(first, last)
    if word.isascii() and word.isdigit():
        raise Usage(
            f"{word} is a checkpoint, and undo takes turns",
            kept="nothing was written",
            next=(
                f"ckpt undo t{word}     (turn t{word} alone)",
                f"ckpt restore {word}  (all files as of checkpoint {word})",
            ),
        )
    if re.fullmatch(r"r\d+", word):
        raise Usage(f"{word} is a run, and undo takes turns", next=(f"ckpt undo --run {word}",))
    if POINT.fullmatch(word):
        raise Usage(f"{word} is a point in time, and undo takes turns", next=(f"ckpt restore {word}",))
    raise Usage(
        " ".join(filter(None, (f"{word!r} is no turn", nor))),
        kept="nothing was written",
        next=("t3, t3.2, t3.. or t3..t5; paths go after --",),
    )
