"""`ckpt undo` and `ckpt redo`: take back what a turn changed, and back again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from checkpointer import home
from checkpointer.cli import outcome as told
from checkpointer.cli import phrase
from checkpointer.cli.app import Command, paths_of
from checkpointer.cli.call import Call
from checkpointer.cli.handle import POINT, RANGE, Turns, reads_as_handle, turns
from checkpointer.cli.listing import changes_of
from checkpointer.cli.saving import note_prompt
from checkpointer.cli.show import next_undo
from checkpointer.cli.titles import Title, open_turns, titles
from checkpointer.errors import Conflict, NeedsPerson, Usage
from checkpointer.workspace.undoing.selection import Selector

if TYPE_CHECKING:
    from checkpointer.workspace.outcome import Outcome
    from checkpointer.workspace.undoing.timeline import Timeline
    from checkpointer.workspace.workspace import Workspace


def _options(command: Callable[..., int]) -> Callable[..., int]:
    for option in reversed(
        (
            click.option("-n", "--dry-run", is_flag=True, help="Say what would be done, do nothing."),
            click.option("--skip", is_flag=True, help="Leave files in conflict as they are, take the others."),
            click.option("--force", is_flag=True, help="Take all of it, whatever was changed later."),
            click.option("--run", "run", metavar="R", help="Only what this run did."),
            click.option("-y", "--yes", is_flag=True, help="Do not ask."),
        )
    ):
        command = option(command)
    return command


@click.command(cls=Command)
@_options
@click.option("--step", is_flag=True, help="Only the newest step.")
@click.argument("words", nargs=-1, metavar="[T|T..|T..T] [-- PATH...]")
@click.pass_context
def undo(ctx: click.Context, /, words: tuple[str, ...], **flags: Any) -> int:
    """Take back what the newest turn changed, or the turns named; nothing else is touched."""
    return _answer(ctx, words, flags, "undo")


@click.command(cls=Command)
@_options
@click.argument("words", nargs=-1, metavar="[T] [-- PATH...]")
@click.pass_context
def redo(ctx: click.Context, /, words: tuple[str, ...], **flags: Any) -> int:
    """Take back the newest undo, or apply an undone turn again."""
    return _answer(ctx, words, {"step": False, **flags}, "redo")


def _answer(ctx: click.Context, words: tuple[str, ...], flags: dict[str, Any], verb: str) -> int:
    call: Call = ctx.find_object(Call)  # type: ignore[assignment]
    if flags["skip"] and flags["force"]:
        raise Usage("--skip leaves what is in conflict, --force takes it: one of them")
    if flags["force"]:
        call.person_only("--force")
    named, typed = _split(call, words)
    selector = _selector(call, named, call.relative([*typed, *(paths_of(ctx) or ())]), flags)
    place = call.place()
    if not flags["dry_run"]:
        ask_where_remade(call, verb, yes=flags["yes"])
    workspace = call.acting(dry_run=flags["dry_run"])
    started = open_turns(workspace)
    before = workspace.timeline(started)
    try:
        with call.progress() as bar:
            result: Outcome = getattr(workspace, verb)(
                selector,
                mode="skip" if flags["skip"] else "force" if flags["force"] else "plain",
                dry_run=flags["dry_run"],
                by="agent" if call.inside_agent() else "person",
                progress=bar,
                others=call.others(),
                **({"open_turns": started} if verb == "undo" else {}),
            )
    except Conflict as e:
        tip = workspace.store.tip()
        if tip is not None and not flags["dry_run"]:
            e.details["checkpoint"] = tip.number  # the files as they are now
        raise
    if not result.dry_run:
        if place.state in ("remade", "gone"):
            home.accept(workspace)
        note_prompt(workspace)
    call.notices(workspace)
    if call.out.json:
        call.out.document(told.document(result))
        return 0
    _say(call, workspace, result, verb, named is None, before)
    return 0


def ask_where_remade(call: Call, verb: str, *, yes: bool) -> None:
    """Ask before files of a store go into another directory than the one it was made for. Raises `NeedsPerson`."""
    place = call.place()
    if place.state == "remade":
        call.confirm(
            f"{phrase.directory(place.root)} is another directory than when its store was made: "
            f"{verb} would write the old one's files here",
            yes=yes,
        )


def _split(call: Call, words: tuple[str, ...]) -> tuple[Turns | None, list[str]]:
    """The turns and the paths among the words before `--`."""
    named: Turns | None = None
    paths: list[str] = []
    for i, word in enumerate(words):
        handle = reads_as_handle(word)
        exists = os.path.lexists(os.path.join(call.directory, os.fsencode(word)))
        if handle and named is None and i == 0:
            named = turns(word)
        elif handle and named is not None and i == 1:
            raise Usage(f"one turn or one range: {words[0]} and {word}", next=(f"{words[0]}..{word}",))
        elif (
            handle
            or exists
            or (i == 0 and not POINT.fullmatch(word) and not RANGE.fullmatch(word) and _known(call, word))
        ):
            paths.append(word)
        else:
            turns(word, "and no path here")
    return named, paths


def _known(call: Call, word: str) -> bool:
    """Is this a path that some checkpoint holds, although it is gone now?"""
    try:
        (path,) = call.relative([word])
    except Usage:
        return False
    workspace = call.workspace()
    tips = workspace.store.checkpoints()[-5:]
    return any(workspace.store.tree(c).entry(path) is not None for c in tips)


def _selector(call: Call, named: Turns | None, paths: list[bytes], flags: dict[str, Any]) -> Selector:
    run = flags["run"]
    inside = call.inside_agent()
    if inside is not None and run not in (None, inside):
        raise NeedsPerson(
            f"an agent may undo what its own session did, and that is {inside}", kept="nothing was written"
        )
    wanted = run or inside
    return Selector(
        first=named.first if named else None,
        last=named.last if named else None,
        step=named.step if named else None,
        newest_step=flags["step"],
        paths=tuple(p for p in paths if p) if b"" not in paths else (),
        runs=frozenset((wanted,)) if wanted else None,
    )


def fresh_paths(workspace: Workspace, result: Outcome) -> frozenset[bytes]:
    """The written paths that were not there before."""
    if result.checkpoint is not None and result.before is not None:
        before = workspace.store.tree(workspace.store.by_number(result.before))
        return frozenset(p for p in result.written if before.entry(p) is None)
    root = workspace.root
    return frozenset(p for p in result.written if not os.path.lexists(os.path.join(root, p)))


def _say(call: Call, workspace: Workspace, result: Outcome, verb: str, bare: bool, before: Timeline) -> None:
    names = titles(workspace)
    after = workspace.timeline() if not result.dry_run else before
    row = names.get(result.unit)
    unit = next((u for u in before.units if u.handle == result.unit), None)
    ended = next((c.meta.at for c in before.checkpoints if unit is not None and c.number == unit.last), None)
    title = f" {phrase.quoted(row.prompt)}" if row is not None and row.prompt else ""
    if bare and ended is not None and verb == "undo":
        title += f" ({phrase.age(ended)} ago)"
    tense = told.UNDO if verb == "undo" else told.REDO
    told.report(call, workspace, result, tense, title, fresh_paths(workspace, result))
    spared = told.untouched(after, result)
    if spared:
        call.out.line(f"untouched: {phrase.paths(spared)}")
    for text in _untold(before, result, names):
        call.out.line(text)
    words = told.git_words(workspace.root, after, result.unit, row.started if row is not None else None)
    if words:
        call.out.line(words)
    if not result.dry_run:
        call.out.hint("next: " + "   ".join(_next(verb, result, after)))


def _untold(before: Timeline, result: Outcome, names: Mapping[str, Title]) -> Iterator[str]:
    """What may be a person's: it was changed during calls whose end nobody told, up to the prompt that came next."""
    from checkpointer.run.roster import NO_END

    done = {*result.written, *result.removed}
    for unit in before.units:
        calls = names.get(unit.handle, Title()).calls or {}
        for step in unit.steps:
            if not any(h in calls and calls[h].end == NO_END for h in map(str, step.handles)):
                continue
            among = sorted(done & changes_of(before, step.segments).keys())
            if among and unit.handle in _units(result.unit, before):
                until = f"nobody told when {step.handle} ended: what was edited until the next prompt counts as its"
                yield f"perhaps yours: {phrase.paths(among)}  ({until})"


def _units(words: str, before: Timeline) -> set[str]:
    """The turns that `t3`, `t3.2`, `t3..` or `t3..t5` name."""
    try:
        found = turns(words)
    except Usage:  # a restore, or a person's edit
        return set()
    last = found.last if found.last is not None else before.last_turn or found.first
    return {f"t{n}" for n in range(found.first, last + 1)}


def _next(verb: str, result: Outcome, after: Timeline) -> list[str]:
    if verb == "redo":
        return ["ckpt undo (this again)"]
    found = ["ckpt redo (this again)"]
    unit = next_undo(after)
    if unit is not None:
        found.append(f"ckpt undo ({unit.handle})")
        open_turns_left = [u for u in after.units if u.kind == "turn" and after.state_of_unit(u) == "open"]
        if len(open_turns_left) > 1:
            oldest = open_turns_left[0].handle
            found.append(f"ckpt undo {oldest}.. (everything since before {oldest})")
    return found
