"""`ckpt uncertain` and `ckpt settle`: calls whose outcome nobody knows, and a person's word on them."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from checkpointer.cli import phrase
from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.errors import Usage

if TYPE_CHECKING:
    from checkpointer.recovery.queue import Item, Queue

WORDS = {
    "happened": "it happened; FILE holds its result as JSON (null without one)",
    "did-not-happen": "it did not, and will not any more",
    "retry-anyway": "run it again: it may happen twice",
    "give-up": "let it rest; the model is told so",
}


@click.command(cls=Command)
@click.argument("handle", required=False, metavar="[U]")
@click.pass_obj
def uncertain(call: Call, handle: str | None) -> int:
    """The calls whose outcome nobody knows, oldest first; or all that is known about one of them."""
    from checkpointer.recovery import queue
    from checkpointer.run import roster

    workspace = call.workspace()
    found = queue.read(os.fspath(roster.runs_directory(workspace.directory)))
    for run in dict.fromkeys(item.handle for item in found.cut_off):
        cut = phrase.count(sum(item.handle == run for item in found.cut_off), "call")
        call.out.note(f"note: {run} ended with {cut} open: ckpt resume {run} looks into that")
    for run, problem in found.problems.items():
        call.out.note(f"note: run {run} cannot be read: {problem}")
    if handle is not None:
        item = named(found.items, handle)
        if call.out.json:
            call.out.document(document(item))
        else:
            _print_one(call, item)
        return 0
    if call.out.json:
        call.out.document(_queue_document(found))
        return 0
    _print(call, found)
    return 0


def named(items: list[Item], handle: str) -> Item:
    """The open question of a handle, or of the beginning of its key. Raises `Usage` naming those there are."""
    number = handle[1:] if handle[:1] in "uU" else ""
    by_number = [i for i in items if number.isdigit() and i.number == int(number)]
    by_key = [i for i in items if len(handle) >= 6 and i.key.startswith(handle)]
    matches = by_number or by_key
    if len(matches) == 1:
        return matches[0]
    if len(matches) > 1:
        raise Usage(f"{handle} begins several keys", next=("ckpt uncertain",))
    known = f"there are: {', '.join(i.name for i in items)}" if items else "there is none"
    raise Usage(f"no open question is called {handle}; {known}", next=("ckpt uncertain",))


def _print(call: Call, found: Queue) -> None:
    for item in found.cut_off:
        at = f"  started {clock_of(item.started)}," if item.started else " "
        call.out.line(f"   ?  {item.handle:>4}  {item.words}{at} cut off, and not looked into yet")
    if not found.items:
        if not found.cut_off:
            call.out.line("nothing is uncertain")
        return
    for item in found.items:
        call.out.line(line(call, item))
    ages = found.oldest()
    risks = [f"{risk} risk: {phrase.span(ages[risk])}" for risk in ("high", "normal", "low") if risk in ages]
    before = f"; {phrase.count(found.reconciled, 'earlier one')} settled" if found.reconciled else ""
    call.out.line(call.out.style(f"open for so long ({', '.join(risks)}){before}", "dim"))
    for text in found.overdue:
        call.out.line(call.out.style(f"overdue: {text}", "red"))
    call.out.hint(f"next: ckpt uncertain {found.items[0].name}   ckpt settle {found.items[0].name} --happened | ...")


def line(call: Call, item: Item) -> str:
    """`u1  r9  pay(order=881, cents=4200)  started 14:31:07, died before its answer`."""
    at = f"started {clock_of(item.started)}, " if item.started else ""
    return f"{call.out.style(item.name, 'yellow'):>4}  {item.handle:>4}  {item.words}  {at}{why_open(item)}"


_AGAIN = {
    "policy": "the same key is sent again when its program goes on",
    "person": "it runs again when its program goes on, as you said",
}


def why_open(item: Item) -> str:
    """Why nobody knows, and why nothing can tell, in a few words."""
    reasons = {
        "crash": "no answer",
        "exception": "failed without saying how far it came",
        "timeout": "no answer in time",
        "cancelled": "stopped",
        "signal": "stopped",
        "partial": "went halfway",
        "carried": "open in another run",
        "earlier": "an earlier attempt got no answer",
    }
    if item.word:
        return f"you said: {item.word}; its run takes that in"
    if item.retry == "policy" and item.told:
        return f"{reasons.get(item.reason, item.reason)}; the same key is sent if its model asks for it again"
    if item.retry:
        return f"{reasons.get(item.reason, item.reason)}; {_AGAIN[item.retry]}"
    return ", ".join(w for w in (reasons.get(item.reason, item.reason), item.rule or ways(item)) if w)


def ways(item: Item) -> str:
    if item.effect == "workspace":
        return "the files can tell: ckpt resume"
    if not item.strategies:
        return "nothing to look it up with"
    return "its own program can tell: ckpt resume"


def clock_of(at: datetime | None) -> str:
    if at is None:
        return ""
    local = at.astimezone()
    today = local.date() == datetime.now(UTC).astimezone().date()
    return local.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


def _print_one(call: Call, item: Item) -> None:
    out = call.out.line
    out(call.out.style(f"{item.name}  {item.handle}  {item.words}", "bold"))
    rows = [
        ("tool", f"{item.tool} ({item.effect}, {item.risk} risk)"),
        ("step", item.step),
        ("started", clock_of(item.started) + (f" (attempt {item.attempt})" if item.attempt > 1 else "")),
        ("open since", clock_of(item.since)),
        ("key", item.sent_key),
        ("why", why_open(item)),
        ("last error", _text(item.error)),
        *_found(item.evidence),
        ("evidence", _text(item.evidence) if call.verbose else ""),
        ("looked up", phrase.count(item.tries, "time") if item.tries else ""),
        ("overdue", "yes" if item.overdue else ""),
    ]
    for name, text in rows:
        if text:
            out(f"  {name:11} {text}")
    out()
    out("nobody knows whether it happened: if it runs again, it may happen twice. Find out, then say one of")
    for word, about in WORDS.items():
        if word == "retry-anyway" and item.observed:
            continue
        out(f"  ckpt settle {item.name} --{word + (' [FILE]' if word == 'happened' else ''):18} {about}")


def _found(evidence: Any) -> list[tuple[str, str]]:
    """What a look at a receiver or at the files found, as far as it helps a person."""
    if not isinstance(evidence, dict):
        return []
    rows = [("found", _text(evidence.get("fields"))), ("could not", str(evidence.get("error") or ""))]
    differing = evidence.get("differing")
    if isinstance(differing, tuple | list):
        shown = " ".join(map(str, differing[:8])) + (f" and {len(differing) - 8} more" if len(differing) > 8 else "")
        rows.append(("differing", shown))
    return rows


def _text(value: Any) -> str:
    if value is None:
        return ""
    from checkpointer import canon

    return json.dumps(canon.thaw(value), ensure_ascii=False, default=str)


def document(item: Item) -> dict[str, Any]:
    """One open question for programs."""
    from checkpointer import canon
    from checkpointer.events import ABSENT

    known = item.arguments not in (None, ABSENT)
    return {
        "handle": item.name,
        "about": item.words,
        "run": item.handle,
        "id": item.run,
        "key": item.sent_key,
        "tool": item.tool,
        "arguments": canon.thaw(item.arguments) if known else None,
        "effect": item.effect,
        "risk": item.risk,
        "step": item.step or None,
        "attempt": item.attempt,
        "started": phrase.stamp(item.started) if item.started else None,
        "since": phrase.stamp(item.since) if item.since else None,
        "reason": item.reason,
        "error": canon.thaw(item.error),
        "word": item.word or None,
        "retry": item.retry or None,
        "rule": item.rule or None,
        "by": item.by or None,
        "evidence": canon.thaw(item.evidence),
        "tries": item.tries,
        "escalated": item.escalated,
        "told": item.told,
        "overdue": item.overdue,
    }


def _queue_document(found: Queue) -> dict[str, Any]:
    return {
        "schema": 1,
        "opened": found.opened,
        "reconciled": found.reconciled,
        "escalated": found.escalated,
        "oldest_s": {risk: round(age, 3) for risk, age in found.oldest().items()},
        "overdue": found.overdue,
        "uncertain": [document(item) for item in found.items],
        "cut_off": [document(item) for item in found.cut_off],
        "problems": found.problems,
    }


@click.command(cls=Command)
@click.argument("handle", metavar="U")
@click.option(
    "--happened",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="It did; FILE holds its result as JSON (null without one).",
)
@click.option("--did-not-happen", is_flag=True, help="It did not, and will not any more.")
@click.option("--retry-anyway", is_flag=True, help="Run it again under the same key: it may happen twice.")
@click.option("--give-up", is_flag=True, help="Let it rest; the model is told that nobody knows.")
@click.option("--why", metavar="TEXT", default="", help="How you know; kept in the run's log.")
@click.pass_obj
def settle(
    call: Call, handle: str, happened: str | None, did_not_happen: bool, retry_anyway: bool, give_up: bool, why: str
) -> int:
    """Say what became of a call whose outcome is unknown. For a person, who found out.

    The run goes on from there: with the result, with a failure, with another attempt, or without.
    """
    from checkpointer.log import JsonlRuns
    from checkpointer.recovery import queue, word
    from checkpointer.run import roster

    call.person_only("ckpt settle")
    chosen: list[word.Word] = []
    chosen += ["happened"] if happened is not None else []
    chosen += ["did not happen"] if did_not_happen else []
    chosen += ["retry anyway"] if retry_anyway else []
    chosen += ["give up"] if give_up else []
    if len(chosen) != 1:
        said = tuple(f"ckpt settle {handle} --{name}" for name in WORDS)
        raise Usage("say one thing about it", kept="nothing was written", next=said)
    result = _result(happened) if happened else None
    workspace = call.workspace(write=True)
    directory = os.fspath(roster.runs_directory(workspace.directory))
    item = named(queue.waiting(directory), handle)
    log = JsonlRuns(directory).log(item.run)
    try:
        how = word.give(log, item.key, chosen[0], result=result, why=why)
    finally:
        log.close()
    return _say(call, item, chosen[0], how, told_nothing=happened == "")


def _result(file: str) -> Any:
    from checkpointer import canon

    try:
        if file == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(file, "rb") as f:
                data = f.read()
        return canon.loads(data)
    except OSError as e:
        raise Usage(f"{file} cannot be read: {e.strerror}", kept="nothing was written") from e
    except ValueError as e:
        raise Usage(f"{file} holds no JSON that a log can keep: {e}", kept="nothing was written") from e


def _say(call: Call, item: Item, word: str, how: str, *, told_nothing: bool) -> int:
    if call.out.json:
        call.out.document(
            {"schema": 1, "handle": item.name, "run": item.handle, "word": word.replace(" ", "-"), "how": how}
        )
        return 0
    later = "; the run's owner takes it in" if how == "posted" else ""
    call.out.line(f"{item.name} {item.words}: {word}{later}")
    if told_nothing:
        call.out.note("note: no FILE was given, so its result is null, which is what the model is told")
    if how == "appended" and not item.observed:
        call.out.hint(f"next: ckpt resume {item.handle}")
    return 0
