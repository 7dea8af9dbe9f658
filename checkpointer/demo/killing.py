"""The second half of the demonstration: an agent loop is killed where it hurts, and resumed; its receiver is asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from checkpointer.demo import ledger
from checkpointer.demo.stage import Stage
from checkpointer.errors import Failed

PLACES: Final = {
    "model": "while its model was asked",
    "file": "in the middle of writing a file",
    "paid": "after the payment, before it could note that it had paid",
}
PATIENCE: Final = 60.0
"""How long a loop may take to come to a place, or to its end, in seconds."""


def example() -> str:
    """The loop, which is also the example for people to read: beside this module where the package is installed."""
    here = Path(__file__).resolve().parent
    for place in (here / "agent_loop.py", here.parents[1] / "examples" / "agent_loop.py"):
        if place.exists():
            return os.fspath(place)
    raise Failed("this installation has no example loop", kept="nothing was started")


class Bank:
    """The ledger's process and file, apart from whatever is killed."""

    def __init__(self, stage: Stage, *, ignore_keys: bool) -> None:
        self.file = os.fspath(stage.base / "ledger")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "checkpointer.demo.ledger", self.file, *(["--ignore-keys"] if ignore_keys else [])],
            env=stage.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us: then we end it
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()
        if not self.url:
            raise Failed("the ledger did not start", kept="nothing else was started")

    def close(self) -> None:
        """End it, once all that it received is in its file."""
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()


def killing(stage: Stage, *, keys: bool = True) -> None:
    """Kill the loop at each place, resume it, look into the ledger. Without `keys`, that ignores those it is sent."""
    bank = Bank(stage, ignore_keys=not keys)
    try:
        for place, words in PLACES.items():
            _kill(stage, bank, place, words)
        stage.say("$ python agent_loop.py shop    # and now to its end")
        status, lines = _run(stage, bank)
        for line in lines:
            stage.say(f"  {line}")
    finally:
        bank.close()
    stage.claim("the same script, started again, came to its end", status == 0)
    invoice = stage.base / "agent" / "shop" / "invoice.txt"
    whole = invoice.exists() and invoice.read_text() == "order 7\ntotal 1200 cents\n"
    stage.claim("the file that was cut off half-written is whole", whole)
    stage.say("The ledger, a process and a file of its own, says:")
    received = ledger.entries(bank.file, "request")
    paid = ledger.entries(bank.file, "payment")
    stage.claim("it was asked more than once", len(received) > 1, f"{len(received)} requests arrived")
    stage.claim("each time with the same key", len({one["key"] for one in received}) == 1)
    if keys:
        stage.claim("it paid once", len(paid) == 1, _count(len(paid)))
        stage.say("Delivered at least once, with one effect, because the receiver knows keys; not because of us alone.")
    else:
        stage.claim("it ignores keys, and paid twice", len(paid) == 2, _count(len(paid)))
        stage.say("This double is what keys prevent. A tool whose receiver ignores keys must not declare that it knows")
        stage.say('them: with a look-up (reconcile=...) it is asked first, with policy="person" a person decides.')


def _count(payments: int) -> str:
    return f"{payments} payment{'s' if payments != 1 else ''} of order 7"


def _start(stage: Stage, bank: Bank, pause: str = "") -> subprocess.Popen[str]:
    directory = stage.base / "agent"
    directory.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, example(), "shop"],
        cwd=directory,
        env=stage.env | {"LEDGER_URL": bank.url, "PAUSE": pause},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _kill(stage: Stage, bank: Bank, place: str, words: str) -> None:
    """Start the loop, wait until it says that it is there, and kill it as the kernel does when memory runs out."""
    stage.say("$ python agent_loop.py shop")
    said = ""
    with _start(stage, bank, place) as process:
        watch = threading.Timer(PATIENCE, process.kill)
        watch.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                said += line
                if line == f"at {place}\n":
                    break
        finally:
            watch.cancel()
            process.send_signal(signal.SIGKILL)
    there = f"at {place}\n" in said and process.returncode == -signal.SIGKILL
    stage.claim(f"killed (SIGKILL) {words}", there, "" if there else said.strip() or f"it ended: {process.returncode}")


def _run(stage: Stage, bank: Bank) -> tuple[int, list[str]]:
    with _start(stage, bank) as process:
        try:
            said, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        finally:
            process.kill()
    return process.returncode, said.splitlines()
