"""An agent loop as its author would write it, that can be told where to die; run as a program by the tests.

Its model is a script, and what it does outside is a line in a ledger file beside the workspace. `DIE` names the place:
`PLACE` or `PLACE:N` for the N-th time it is passed; `append` is before a write to the run's log. `STOP` names one to
wait at for three seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from datetime import timedelta
from typing import Any

from checkpointer import NeedsPerson, NoEffect, disk, open_run, tool

LEDGER = os.environ.get("LEDGER", "")
PLACE, _, NTH = os.environ.get("DIE", "").partition(":")
passed: Counter[str] = Counter()


def here(place: str) -> None:
    passed[place] += 1
    if place == PLACE and passed[place] == int(NTH or 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if place == os.environ.get("STOP"):
        time.sleep(3)


def probe(verb: str, path: object) -> None:
    if verb == "append" and str(path).endswith("events.jsonl"):
        here("append")


def enter(**what: Any) -> None:
    with open(LEDGER, "a") as f:
        f.write(json.dumps(what) + "\n")
        f.flush()
        os.fsync(f.fileno())


@tool(effect="read")
def look(path: str) -> str:
    enter(tool="look")
    here("look")
    with open(path) as f:
        return f.read()


@tool(effect="workspace")
def write(path: str, text: str) -> str:
    here("write-before")
    with open(path, "w") as f:
        f.write(text)
    enter(tool="write")
    here("write-after")
    return "written"


@tool(effect="external", policy="person")
def pay(order: int, cents: int, *, key: str) -> dict[str, int]:
    here("pay-before")
    if os.environ.get("REFUSE"):
        raise NoEffect("the bank is closed")
    if os.environ.get("BREAK"):
        raise OSError("connection lost")
    enter(tool="pay", order=order, cents=cents, key=key)
    here("pay-after")
    return {"paid": cents}


@tool(effect="external", keys_kept=timedelta(hours=1))
def keyed(order: int, *, key: str) -> str:
    enter(tool="keyed", order=order, key=key)
    here("keyed-after")
    return f"order {order}"


SCRIPT: list[list[dict[str, Any]]] = json.loads(os.environ.get("SCRIPT", "[]"))


def ask_model(context: list[dict[str, Any]]) -> dict[str, Any]:
    here("model")
    answered = sum(m["role"] == "assistant" for m in context)
    calls = SCRIPT[answered] if answered < len(SCRIPT) else []
    return {"content": f"answer {answered}", "tool_calls": calls, "usage": {"input": 10, "output": 1}}


def main() -> None:
    disk.probe = probe
    options = json.loads(os.environ.get("OPEN", "{}"))
    if "ttl_s" in options:
        options["ttl"] = timedelta(seconds=options.pop("ttl_s"))
    with open_run(".", run_id="loop", tools=[look, write, pay, keyed], **options) as run:
        run.user_message("do it", slot="task")
        while not run.state.outcome:
            for call in run.state.accepted:
                run.call(call)
            turn = run.last_turn() or run.model_turn(**ask_model(run.context()))
            if not turn.tool_calls:
                run.finish("done")
        print(json.dumps({"context": run.context(), "usage": run.state.usage.input, "notices": run.notices}))


if __name__ == "__main__":
    try:
        main()
    except NeedsPerson as e:
        print(e.code, e.message, file=sys.stderr)
        sys.exit(3)
