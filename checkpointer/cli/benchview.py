"""What `ckpt bench` found, for people and for programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from checkpointer.cli import phrase
from checkpointer.cli.call import Call

if TYPE_CHECKING:
    from checkpointer.bench.figure import Figure
    from checkpointer.bench.report import Deaths, Report
    from checkpointer.log import JsonlLog

_WIDTH = 48
_SETTING = "run.snapshot_every"


class Where(NamedTuple):
    """The run, and the kind of file system: empty where it is not known, None where it is not that of the store.
    `complete`: all runs of the store were counted.
    """

    run: str
    handle: str
    mode: str
    storage: str | None
    complete: bool


def where(log: JsonlLog, place: str, complete: bool) -> Where:
    """`place` is what was written to; empty where that is not on the store's file system."""
    from checkpointer import machine
    from checkpointer.run import claims

    life = claims.life(os.path.dirname(log.directory), log.run)
    handle, mode = (life.handle, life.mode) if life is not None else (log.run, "")
    return Where(log.run, handle, mode, machine.file_system(place) if place else None, complete)


def show(call: Call, report: Report, at: Where) -> None:
    out = call.out.line
    _show_what(call, report, at)
    found = report.found
    whole = found.replay[-1]
    out()
    all_of_it = f"{_took(whole.median)} for {found.events:,}"
    out(f"replay      {_took(whole.median / found.events)} an event, {all_of_it}{_sure(whole)}")
    versions = found.versions
    if len(versions) > 1:
        each = (f"{_took(took.median)} in version {v} ({count:,})" for v, (count, took) in versions.items())
        out(f"            {', '.join(each)}")
    else:
        out(f"            all of version {next(iter(versions))} of their schema")
    write, load = found.write["whole"], found.load["whole"]
    size = phrase.size(found.snapshot_bytes)
    out(f"snapshot    {_took(write.median)} to write, {_took(load.median)} to load, {size}, of {found.events:,} events")
    out()
    for line in chart(report):
        out(line)
    out(_shape_words(report))
    out()
    out(f"recoveries  {_deaths_words(report.deaths, at.complete)}")
    if report.every:
        for line in _pays_words(report):
            out(f"            {line}")
    out()
    _show_target(call, report, at)


def _show_what(call: Call, report: Report, at: Where) -> None:
    out, found = call.out.line, report.found
    mode = f" ({at.mode})" if at.mode else ""
    on = f" on {at.storage}" if at.storage else ""
    rounds = f"{phrase.count(found.rounds, 'round')} in {found.seconds:.1f} s"
    out(f"{at.handle}{mode}: {phrase.count(found.of, 'event')}; measured{on}, {rounds}")
    if found.copied:
        without = f", {found.refused:.0%} of which did not fit" if found.refused >= 0.005 else ""
        out(
            f"{phrase.count(found.of, 'event')}: too few to tell. Measured on a copy of {found.events:,}, "
            f"made of its own over and over, without their contents{without}"
        )
    elif found.events < found.of:
        more = int(found.seconds * found.of / found.events) + 1
        out(f"only the first {found.events:,} events were measured; all of them take --seconds {more}")
    if at.storage is None:
        out("nothing can be written beside the store: snapshots were measured among the temporary files")
    if report.unsure:
        apart = f"{found.replay[-1].spread:.0%}"
        out(f"not sure: the rounds differ by {apart}; wait until the machine is quiet, or take --seconds 60")
    if at.mode == "observed":
        out("nobody snapshots a run that is only watched: the interval is for driven runs like it")


def chart(report: Report) -> list[str]:
    """A bar for each eighth of the log; `|` is where it would end if all events cost the same."""
    found = report.found
    longest = max(one.median for one in found.replay)
    straight = found.replay[-1].median / found.marks[-1]
    lines: list[str] = []
    for mark, took in zip(found.marks, found.replay, strict=True):
        bar = ["#"] * max(1, round(took.median / longest * _WIDTH))
        end = max(1, round(straight * mark / longest * _WIDTH))
        bar += [" "] * (end - len(bar))
        bar[end - 1] = "|"
        lines.append(f"{mark:>10,} {'events' if not lines else '      '} {_took(took.median):>9}  {''.join(bar)}")
    return lines


def _shape_words(report: Report) -> str:
    bent, fatter = report.bent, report.fatter
    times = f"{bent.median:.2f} times one of the first ({bent.low:.2f} to {bent.high:.2f})"
    costs = f"an event of the second half costs {times}"
    if report.shape == "unclear":
        return f"unclear whether a line or not: {costs}"
    of_lines = f"; its lines are {fatter:.2f} times as long" if report.shape != "a line" else ""
    return f"{report.shape}: {costs}{of_lines}"


def _deaths_words(deaths: Deaths, complete: bool) -> str:
    of = f"{phrase.count(deaths.runs, 'driven run')} of {phrase.count(deaths.events, 'event')}"
    since = f" since {deaths.since[:10]}" if deaths.since else ""
    some = "" if complete else " (the longest; there was no time for all)"
    if not deaths.runs:
        return f"no driven run here yet{some}"
    how = [
        phrase.count(n, one, many)
        for n, one, many in (
            (deaths.crashes, "after a death", "after a death"),
            (deaths.takeovers, "by take-over", "by take-over"),
        )
        if n
    ]
    read = f"; they read {deaths.middle:,} events in the middle, {deaths.most:,} at most" if deaths.all else ""
    let_go = f", {deaths.released:,} after being let go" if deaths.released else ""
    return f"{' and '.join(how) or 'none'}{let_go}, in {of}{since}{some}{read}"


def _pays_words(report: Report) -> list[str]:
    needed, deaths = report.needed, report.deaths
    a_run = f"a run of {report.length:,} events"
    if needed is None:
        return ["snapshots never pay here: a recovery is no faster with one"]
    when = (
        f"a snapshot every {report.every:,} events saves time where {a_run} dies {needed:.2f} times or more on average"
    )
    rate = deaths.all / deaths.events * report.length if deaths.events else 0.0
    if report.pays is None:
        return [f"{when};", "too little happened here to tell whether it does"]
    return [f"{when};", f"here it would be {rate:.2f}: {'it pays' if report.pays else 'it does not pay'}"]


def _show_target(call: Call, report: Report, at: Where) -> None:
    out, asked = call.out.line, report.asked
    target = _took(asked.target)
    setting = f"{_SETTING} {asked.current}" if asked.current else f"no snapshot while it works ({_SETTING} 0)"
    meets = "" if report.worst_now <= asked.target else ", too long"
    out(f"target      {target}, where its owner is killed right before the next snapshot; the slowest round counts")
    out(f"now         {_took(report.worst_now)} at most{meets}: {phrase.count(report.found.of, 'event')}, {setting}")
    until = f"for runs of up to {report.length:,} events"
    if report.every is None:
        out(f"no interval keeps it below {target} {until}: loading a snapshot takes too long by itself")
        return
    if not report.every:
        out(f"needs none  {_took(report.worst_then or 0)} at most without any, {until}")
        return
    if report.found.of <= report.reach:
        out(f"needs none  as long as it stays below {report.reach:,} events")
    label = "longer runs" if report.found.of <= report.reach else "then       "
    out(f"{label} {_took(report.worst_then or 0)} at most with a snapshot every {report.every:,} events, {until}")
    if report.is_set:
        out(f"which {_SETTING} {asked.current}, as it is set, keeps already")
    else:
        out(call.out.style(f"next: {command(report)}", "cyan"))


def command(report: Report) -> str | None:
    """What sets the interval; None where none is needed, none helps, or the one that is set does."""
    return f"ckpt config {_SETTING} {report.every}" if report.every and not report.is_set else None


def _took(seconds: float) -> str:
    """`0.029 ms`, `61 ms`, `1.42 s`."""
    if seconds >= 1:
        return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"
    ms = seconds * 1000
    return f"{ms:.3f} ms" if ms < 0.1 else f"{ms:.2f} ms" if ms < 10 else f"{ms:.0f} ms"


def _sure(found: Figure) -> str:
    return f"   (the middle half of the rounds within {max(found.spread, 0.01):.0%})" if found.n >= 3 else ""


def document(report: Report, at: Where) -> dict[str, Any]:
    found, asked, deaths = report.found, report.asked, report.deaths
    events = found.events
    return {
        "schema": 1,
        "run": at.handle,
        "id": at.run,
        "mode": at.mode or None,
        "events": found.of,
        "measured": {
            "events": events,
            "copied": found.copied,
            "refused": round(found.refused, 4),
            "rounds": found.rounds,
            "seconds": round(found.seconds, 3),
            "file_system": at.storage or None,
            "on_the_stores": at.storage is not None,
            "sure": not report.unsure and found.rounds >= 3,
        },
        "event_ms": {
            str(version): {"events": count, **_figure(took)} for version, (count, took) in found.versions.items()
        },
        "types": [
            {"type": kind.type, "version": kind.version, "events": count, **_figure(took.times(1 / count))}
            for (kind, count), took in zip(found.kinds.items(), found.by_kind, strict=True)
        ],
        "replay": [
            {"events": mark, "bytes": size, **_figure(took)}
            for mark, size, took in zip(found.marks, found.bytes, found.replay, strict=True)
        ],
        "shape": {"is": report.shape, "bytes": round(report.fatter, 3), **_plain(report.bent)},
        "snapshot": {
            "bytes": found.snapshot_bytes,
            "write": _figure(found.write["whole"]),
            "load": _figure(found.load["whole"]),
        },
        "recoveries": {**deaths._asdict(), "since": deaths.since or None, "complete": at.complete},
        "break_even": {"needed": _short(report.needed), "of_events": report.length, "pays": report.pays},
        "target_ms": asked.target * 1000,
        "now": {"every": asked.current, "worst_ms": _short(report.worst_now * 1000)},
        "enough_until": report.reach,
        "every": report.every,
        "every_until": report.length,
        "worst_ms": _short(report.worst_then * 1000) if report.worst_then is not None else None,
        "command": command(report),
    }


def _figure(of: Figure) -> dict[str, Any]:
    """Milliseconds."""
    return {f"{name}_ms": value for name, value in _plain(of.times(1000)).items()}


def _plain(of: Figure) -> dict[str, float]:
    return {"median": _short(of.median), "low": _short(of.low), "high": _short(of.high), "worst": _short(of.worst)}  # type: ignore[dict-item]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
