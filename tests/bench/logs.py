"""The rows about logs: append beside one sync, replay beside `json.loads`, snapshot and tail beside full replay.

    cd tests && python -m bench.logs [--events 100000] [--place DIR]

The log is the one of `checkpointer.testing.long`; its mix is said there. Each row is the median of alternating pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from checkpointer.events import Commit, ToolCallCompleted, ToolCallStarted
from checkpointer.log import JsonlLog, catch_up
from checkpointer.replay import replay, save
from checkpointer.snapshot import Snapshots
from checkpointer.testing.long import lines
from checkpointer.testing.script import Script


def ratio(ours: Callable[[], object], base: Callable[[], object], rounds: int, clock: Callable[[], float]) -> float:
    found = []
    for _ in range(rounds):
        began = clock()
        base()
        middle = clock()
        ours()
        found.append((clock() - middle) / (middle - began))
    return statistics.median(found)


def append(place: Path) -> float:
    """One event, durable, beside writing as many bytes and syncing them."""
    script = Script(JsonlLog(str(place / "append" / "r1")))
    commit = Commit(id="9" * 40, number=1, captured=True)
    calls = iter(range(10**9))

    def one() -> None:
        n = next(calls)
        if n % 2 == 0:
            arguments = {"command": "x" * 300}
            script.put(
                ToolCallStarted(
                    context="main", commit=commit, key=f"k{n}", tool="t", effect="workspace", arguments=arguments
                )
            )
        else:
            script.put(ToolCallCompleted(context="main", commit=commit, key=f"k{n - 1}", result="y" * 400))

    fd = os.open(place / "plain", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def plain() -> None:
        os.write(fd, b"x" * 1000)
        os.fdatasync(fd) if hasattr(os, "fdatasync") else os.fsync(fd)

    return ratio(one, plain, 300, time.perf_counter)


MAKES = """
import sys
from checkpointer import open_run, tool
from checkpointer.events import Durability

from checkpointer.testing.long import texts

@tool(effect="read")
def look(n: int, text: str) -> str:
    return text_of(60, 16_000)

many, text_of = int(sys.argv[1]), texts(17)
with open_run(".", run_id="long", tools=[look], durability=Durability(kind="batched", events=1000, ms=10**9)) as run:
    while run.state.seq < many:
        asked = {"n": run.state.seq, "text": text_of(40, 4_000)}
        turn = run.model_turn(text_of(150, 1_500), [{"name": "look", "arguments": asked}])
        run.call(turn.tool_calls[0])
"""
OPENS = """
from checkpointer import open_run, tool

@tool(effect="read")
def look(n: int, text: str) -> str:
    return text * 4

with open_run(".", run_id="long", tools=[look]) as run:
    assert run.state.seq > 1
"""
READS = """
import json, sys
import pydantic, pygit2

class One(pydantic.BaseModel):
    n: int

with open(sys.argv[1], "rb") as f:
    for line in f:
        json.loads(line)
"""


def opening(place: Path, events: int) -> tuple[float, float]:
    """A process that opens a run of so many events and lets it go, beside one that imports what both need and reads the
    same lines; CPU time. First with the snapshot that the last owner left, then without any: all is replayed, and a
    snapshot written.
    """
    (place / "open" / "w").mkdir(parents=True)
    env = {**os.environ, "CKPT_HOME": str(place / "open" / "state"), "PYTHONPATH": str(Path(__file__).parents[2])}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled

    def python(code: str, *words: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code, *words], cwd=place / "open" / "w", env=env, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    python(MAKES, str(events))
    (directory,) = (place / "open" / "state" / "workspaces").glob("*/runs/long")
    let_go, killed = [], []
    for _ in range(9):
        base = python(READS, str(directory / "events.jsonl"))
        let_go.append(python(OPENS) / base)
        shutil.rmtree(directory / "snapshots", ignore_errors=True)
        killed.append(python(OPENS) / base)
    return statistics.median(let_go), statistics.median(killed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--place", type=Path, default=Path(__file__).parents[2])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=given.place) as directory:
        place = Path(directory)
        rows = [("durable append of one event / one sync", append(place), 1.3)]
        let_go, killed = opening(place, 4_000)
        rows.append(("open_run on 4,000 events / imports and json.loads per line", let_go, 1.4))
        rows.append(("the same where no snapshot was left", killed, 1.4))
        log = JsonlLog(str(place / "long"))
        (place / "long").mkdir()
        with open(log.path, "wb") as f:
            f.writelines(lines(given.events))

        def loads() -> None:
            with open(log.path, "rb") as f:
                for line in f:
                    json.loads(line)

        name = f"replay of {given.events:,} events, chain verified / json.loads per line"
        rows.append((name, ratio(lambda: catch_up(log), loads, 5, time.process_time), 1.5))
        kept = Snapshots(str(place / "long" / "snapshots"))
        whole = catch_up(log)
        early = JsonlLog(str(place / "early"))
        (place / "early").mkdir()
        with open(early.path, "wb") as f:
            f.writelines(one.line + b"\n" for one in log.read() if one.seq <= given.events - 100)
        save(kept, catch_up(early))
        assert replay(log, kept) == whole
        tail = ratio(lambda: replay(log, kept), lambda: catch_up(log), 5, time.process_time)
        rows.append(("snapshot and a tail of 100 / full replay", tail, 0.1))
    for name, found, mark in rows:
        sys.stdout.write(f"{name:70} {found:6.2f}  (<= {mark})\n")


if __name__ == "__main__":
    main()
