"""Which changes an undo or redo is about, or why it must not be: the rules that come before any file is looked at."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from checkpointer.errors import NeedsPerson, NothingToDo, NothingToRedo, TooOld, Usage
from checkpointer.workspace.entry import below, parents
from checkpointer.workspace.undoing import obstacle
from checkpointer.workspace.undoing.moves import Move, backward, forward
from checkpointer.workspace.undoing.obstacle import Mode
from checkpointer.workspace.undoing.timeline import OpenTurn, Timeline, Undone
from checkpointer.workspace.undoing.units import Change, Step, Unit


class Selector(NamedTuple):
    """What was asked for. Without a turn: the newest there is.

    `t3` is `first=3, last=3`; `t3..t5` is `first=3, last=5`; `t3..` is `first=3`; `t3.2` is `first=3, last=3, step=2`.
    `newest_step` narrows to the newest step, `paths` to these paths and what is below them, `runs` to these runs.
    """

    first: int | None = None
    last: int | None = None
    step: int | None = None
    newest_step: bool = False
    paths: tuple[bytes, ...] = ()
    runs: frozenset[str] | None = None

    def __str__(self) -> str:
        if self.first is None:
            return ""
        if self.step is not None:
            return f"t{self.first}.{self.step}"
        if self.last is None:
            return f"t{self.first}.."
        return f"t{self.first}" if self.last == self.first else f"t{self.first}..t{self.last}"

    def command(self, verb: str, flag: str = "") -> str:
        """What to type to ask for this."""
        words = ["ckpt", verb, str(self), "--step" if self.newest_step else "", flag]
        paths = (
            " ".join(["--", *(shlex.quote(path.decode("utf-8", "surrogateescape")) for path in self.paths)])
            if self.paths
            else ""
        )
        return " ".join(filter(None, [*words, paths]))

    def within(self, path: bytes) -> bool:
        return not self.paths or any(below(path, top) for top in self.paths)


class Selection(NamedTuple):
    """What is to be taken back (or put back, by a redo), before the present files are looked at.

    `moves` are per path in the order they are merged. `taken` and `left` are what the operation would record if nothing
    is in the way. `since` is the number after which a conflicting change is a later one. `notes` are for people.
    """

    verb: Literal["undo", "redo"]
    label: str
    timeline: Timeline
    taken: tuple[Change, ...]
    moves: dict[bytes, tuple[Move, ...]]
    since: int
    named: bool
    left: tuple[Change, ...] = ()
    target: int | None = None
    notes: tuple[str, ...] = ()
    selector: Selector = Selector()

    def command(self, flag: str = "") -> str:
        """What to type for the same selection, with a flag more."""
        return self.selector.command(self.verb, flag)


def select_undo(
    timeline: Timeline,
    selector: Selector,
    *,
    mode: Mode = "plain",
    open_turns: Collection[OpenTurn] = (),
    head: str | None = None,
    lost: Collection[int] = (),
) -> Selection:
    """What `undo` is about. `head` is the project's branch now (None: no project git), `lost` are the numbers of
    checkpoints that could not be read any more.

    Raises `NothingToDo`, `TooOld`, `Usage` (no such turn), `NeedsPerson` (another session's turn, runs that overlapped,
    an agent that died in a step, another branch; all but the first give way to `force`), `Busy`, `Damaged`.
    """
    if selector.first is None:
        unit, changes = _newest(timeline, selector)
        units, label = [unit], unit.handle
    else:
        units, changes = _named(timeline, selector)
        label = units[0].handle if len(units) == 1 and selector.last is not None else str(selector)
    steps = _steps_of(units, changes)
    if selector.step is not None or selector.newest_step:
        label = steps[-1].handle
    notes = obstacle.check(timeline, steps, changes, mode, open_turns, head, lost, selector.command("undo", "--force"))
    return Selection(
        verb="undo",
        label=label,
        timeline=timeline,
        taken=tuple(changes),
        moves=backward(changes),
        since=min(change.segment.after for change in changes),
        named=selector.first is not None,
        notes=notes,
        selector=selector,
    )


def select_redo(
    timeline: Timeline, selector: Selector, *, mode: Mode = "plain", head: str | None = None, lost: Collection[int] = ()
) -> Selection:
    """What `redo` is about: the newest undo on the redo list, or the named turn's changes that are taken back.

    Raises `NothingToRedo`, `TooOld`, `Usage`, `NeedsPerson`, `Damaged` as `select_undo` does.
    """
    if selector.first is None:
        undone, wanted = _top(timeline, selector), None
        label = undone.operation.unit
        among = [undone]
    else:
        units, _ = _units_named(timeline, selector)
        wanted = {c.key for c in _matching(timeline, units, selector) if timeline.state_of(c) == "back"}
        if not wanted:
            raise NothingToRedo(f"{selector} is not undone: nothing to redo")
        label = str(selector)
        among = [u for u in reversed(timeline.undone) if any(c.key in wanted for c in timeline.taken_by(u))]
    obstacle.check_head(
        [(f"the undo of {u.operation.unit}", u.head) for u in among], head, mode, selector.command("redo", "--force")
    )
    obstacle.check_lost(min(u.before for u in among), lost, mode, selector.command("redo", "--force"))
    taken, left, moves, whole = forward(timeline, among, wanted, selector.within, narrowed=bool(selector.paths))
    if wanted is None and not taken and among[0].operation.taken:
        raise NothingToRedo("nothing to redo there: the last undo touched none of these paths")
    return Selection(
        verb="redo",
        label=label,
        timeline=timeline,
        taken=tuple(taken),
        moves=moves,
        since=max(u.number for u in among),
        named=selector.first is not None,
        left=tuple(left),
        target=whole[0].number if len(whole) == len(among) == 1 else None,
        selector=selector,
    )


# What is asked for.


def _newest(timeline: Timeline, selector: Selector) -> tuple[Unit, list[Change]]:
    """The newest unit with an open change among these paths, and those changes."""
    left: list[str] = []
    for unit in reversed(timeline.in_scope(selector.runs)):
        if all(timeline.taken_whole(segment) for segment in unit.segments):
            continue
        changes = _matching(timeline, [unit], selector)
        states = [timeline.state_of(change) for change in changes]
        if "open" in states:
            found = [change for change, state in zip(changes, states, strict=True) if state == "open"]
            return unit, _narrow(unit, found, selector)
        if "left" in states:
            left.append(unit.handle)
    raise _nothing(timeline, selector, left)


def _nothing(timeline: Timeline, selector: Selector, left: Sequence[str]) -> NothingToDo:
    where = " in these paths" if selector.paths else ""
    whose = " of this session" if selector.runs is not None else ""
    message = f"nothing to undo{whose}{where}"
    if timeline.first_kept > 1:
        message += f": what is older than checkpoint {timeline.first_kept} is no longer kept"
    again = [f"ckpt undo {handle}" for handle in left if handle.startswith("t")]
    if left:
        message += f" (left as it was: {', '.join(left)})"
    redo = ["ckpt redo"] if timeline.redo_list(selector.runs) else []
    return NothingToDo(message, kept="every file is as it was", next=[*again[:1], *redo])


def _units_named(timeline: Timeline, selector: Selector) -> tuple[list[Unit], int]:
    """The units that a turn or a range of turns names, oldest first: restores between two turns are in the range."""
    assert selector.first is not None
    first = _turn(timeline, selector.first, selector)
    if selector.last == selector.first:
        return [first], 0
    last = None if selector.last is None else _turn(timeline, selector.last, selector)
    if last is not None and selector.last is not None and selector.last < selector.first:
        raise Usage(f"{selector} ends before it begins", next=[f"ckpt undo t{selector.last}..t{selector.first}"])
    end = max(unit.last for unit in timeline.units) if last is None else max(last.last, first.last)
    chosen = []
    for unit in timeline.in_scope(selector.runs):
        if unit.turn is not None:
            inside = selector.first <= unit.turn and (selector.last is None or unit.turn <= selector.last)
        else:
            inside = first.first <= unit.first and unit.last <= end
        if inside:
            chosen.append(unit)
    return chosen, end


def _turn(timeline: Timeline, number: int, selector: Selector) -> Unit:
    unit = timeline.turn(number)
    if unit is not None:
        if selector.runs is not None and not unit.runs & selector.runs:
            raise NeedsPerson(
                f"t{number} is not this session's, but {' and '.join(sorted(unit.runs)) or 'nobody'}'s",
                kept="nothing was written",
                next=[f"ckpt undo t{number}   (typed by a person, outside the agent)"],
            )
        return unit
    oldest = min((u.turn for u in timeline.units if u.turn is not None), default=None)
    if timeline.first_kept > 1 and (oldest is None or number < oldest):
        raise TooOld(
            f"t{number} is older than checkpoint {timeline.first_kept}, the oldest one kept: nothing to undo",
            kept="nothing was written",
            next=["ckpt log"],
        )
    if number < 1 or (timeline.last_turn is not None and number > timeline.last_turn):
        newest = f"the newest is t{timeline.last_turn}" if timeline.last_turn else "there is none yet"
        raise Usage(f"there is no turn t{number}; {newest}", next=["ckpt log"])
    raise NothingToDo(f"t{number} changed nothing that is covered: nothing to undo", next=["ckpt log"])


def _named(timeline: Timeline, selector: Selector) -> tuple[list[Unit], list[Change]]:
    """What a handle names, the changes left by a skip among it."""
    units, _ = _units_named(timeline, selector)
    every = _matching(timeline, units, selector)
    changes = [change for change in every if timeline.state_of(change) != "back"]
    if not changes:
        if every:
            raise NothingToDo(
                f"{selector} is undone already: nothing to undo",
                kept="nothing was written",
                next=[f"ckpt redo {selector}"],
            )
        where = " in these paths" if selector.paths else " that is covered"
        raise NothingToDo(f"{selector} changed nothing{where}: nothing to undo", next=["ckpt log"])
    if selector.newest_step:
        last = _steps_of(units, changes)[-1]
        changes = [change for change in changes if change.segment in last.segments]
    return units, changes


def _matching(timeline: Timeline, units: Iterable[Unit], selector: Selector) -> list[Change]:
    """Every change of these units that step and paths allow, oldest first."""
    steps = {step.segments: step for unit in units for step in unit.steps}
    if selector.step is not None:
        found = {key: s for key, s in steps.items() if any(h == (selector.first, selector.step) for h in s.handles)}
        if not found:
            raise NothingToDo(
                f"{selector} changed nothing that is covered: nothing to undo", next=[f"ckpt show t{selector.first}"]
            )
        steps = found
    changes = [change for segments in steps for segment in segments for change in timeline.changes(segment)]
    chosen = [change for change in changes if selector.within(change.path)]
    if selector.paths:
        above = {(c.segment, top) for c in chosen for top in parents(c.path)} - {c.key for c in chosen}
        chosen += [c for c in changes if c.key in above and _comes_back(c)]
    return sorted(chosen, key=lambda change: (change.segment, change.path))


def _comes_back(change: Change) -> bool:
    """A directory that the change took away: what was in it cannot come back without it."""
    was = change.before is not None and change.before.kind == "dir"
    return was and (change.after is None or change.after.kind != "dir")


def _narrow(unit: Unit, changes: list[Change], selector: Selector) -> list[Change]:
    if not selector.newest_step:
        return changes
    last = _steps_of([unit], changes)[-1]
    return [change for change in changes if change.segment in last.segments]


def _steps_of(units: Iterable[Unit], changes: Iterable[Change]) -> list[Step]:
    """The steps that these changes are of, the newest last."""
    segments = {change.segment for change in changes}
    steps = {step.segments: step for unit in units for step in unit.steps if segments & set(step.segments)}
    return sorted(steps.values(), key=lambda step: (step.last, step.segments[0]))


def _top(timeline: Timeline, selector: Selector) -> Undone:
    listed = timeline.redo_list(selector.runs)
    if listed:
        return listed[-1]
    every = [u for u in timeline.undone if any(timeline.state_of(c) == "back" for c in timeline.taken_by(u))]
    if not every:
        raise NothingToRedo("nothing to redo", kept="every file is as it was")
    unit = every[-1].operation.unit
    later = [u.handle for u in timeline.in_scope(selector.runs) if u.last > every[-1].number]
    why = f": {later[-1]} came after the undo of {unit}" if later else ""
    again = [f"ckpt redo {unit}"] if unit.startswith("t") else [f"ckpt restore {every[-1].before}"]
    raise NothingToRedo(f"nothing to redo{why}", kept="nothing was written", next=again)
