"""An agent loop that may be killed at any moment: started again, the same script goes on where it was.

    python agent_loop.py [DIRECTORY]

It writes an invoice, pays it, and reports. Its model is a script. One tool writes files of DIRECTORY; the other asks a
ledger to pay, which lives in a process and a file of its own (DIRECTORY.ledger), remembers keys, and can be asked what
became of one. Kill it as often as you like (`kill -9`): the ledger may get a request more than once, and pays once.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from checkpointer import Absent, Match, NeedsPerson, NoEffect, open_run, tool

# -- the ledger, as its clients see it

url = os.environ.get("LEDGER_URL", "")
sender = uuid.uuid4().hex
"""Who sends. A look-up makes the ledger refuse what earlier senders sent and what has not arrived yet."""


def start_ledger(file: str) -> str:
    """Its address. It ends with this process."""
    command = [sys.executable, "-m", "checkpointer.demo.ledger", file]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return (server.stdout.readline() if server.stdout else "").strip() or sys.exit("the ledger did not start")


def post(path: str, body: dict[str, Any]) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    try:
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def find_payment(arguments: dict[str, Any], key: str) -> Match | Absent:
    """What the ledger knows of this key. Afterwards nothing that was sent before can still take effect."""
    global sender
    sender = uuid.uuid4().hex
    status, found = post("/lookups", {"key": key, "sender": sender})
    if status != 200:
        raise OSError(f"the ledger answered {status}")
    if found is None:
        return Absent(final=True, why="the ledger refuses whatever was sent before it was asked")
    return Match(fields=found, result={"paid": found["cents"]})


# -- the tools


@tool(effect="workspace")
def write_file(path: str, text: str) -> str:
    half = len(text) // 2
    with open(path, "w", encoding="utf-8") as f:
        f.write(text[:half])
        f.flush()
        pause("file")
        f.write(text[half:])
    return f"wrote {len(text)} characters"


@tool(
    effect="external",
    risk="high",
    keys_kept=timedelta(hours=24),  # so long the ledger knows a key: until then, the same one is sent again
    reconcile=find_payment,  # and later, it is asked
    effect_fields=("order", "cents"),
    touches_files=False,
)
def pay(order: int, cents: int, *, key: str) -> dict[str, int]:
    status, answer = post("/payments", {"order": order, "cents": cents, "key": key, "sender": sender})
    if status == 402:
        raise NoEffect(answer["error"], again=True, every_attempt=True)  # the ledger says so of this key
    if status != 200:
        raise OSError(f"the ledger answered {status}: {answer}")
    pause("paid")
    return {"paid": answer["paid"]}


# -- the model


def asks(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


script = [
    ("I write the invoice.", [asks("write_file", path="invoice.txt", text="order 7\ntotal 1200 cents\n")]),
    ("I pay it.", [asks("pay", order=7, cents=1200)]),
    ("I report.", [asks("write_file", path="report.txt", text="order 7 is paid\n")]),
    ("Order 7 is paid.", []),
]


def ask_model(context: list[dict[str, Any]]) -> dict[str, Any]:
    """Stands for a model: says what comes next after what it said."""
    pause("model")
    content, calls = script[sum(message["role"] == "assistant" for message in context)]
    return {"content": content, "tool_calls": calls, "usage": {"input": 100, "output": 20}}


def pause(place: str) -> None:
    """Where PAUSE names this place: say so, and wait to be killed."""
    if os.environ.get("PAUSE") == place:
        print(f"at {place}", flush=True)
        time.sleep(60)


def main(directory: str) -> list[dict[str, Any]]:
    """Start the work, or go on with it. Gives the whole conversation. Raises `NeedsPerson` where a person must look."""
    global url
    os.makedirs(directory, exist_ok=True)
    url = url or start_ledger(os.path.abspath(directory) + ".ledger")
    os.chdir(directory)
    with open_run(".", run_id="billing", tools=[write_file, pay]) as run:
        run.user_message("bill order 7", slot="task")
        while not run.state.outcome:
            for call in run.state.accepted:
                run.call(call)
            turn = run.last_turn() or run.model_turn(**ask_model(run.context()))
            if not turn.tool_calls:  # it asked for nothing more; also if it was killed right after that
                run.finish("done")
        return run.context()


if __name__ == "__main__":
    try:
        for message in main(sys.argv[1] if len(sys.argv) > 1 else "shop"):
            print(f"{message['role']:>9}  {message['content']}")
    except NeedsPerson as e:
        sys.exit(e.told())
