"""Agent loops under test: as child processes that are killed, and in this process on the same world."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.starting import Started, start
from harness.world import World

from checkpointer.log import JsonlLog, catch_up
from checkpointer.state import RunState

LOOP = Path(__file__).with_name("loop.py")


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


class Loop:
    """`loop.py` in a world: started, killed, started again."""

    def __init__(self, world: World, *script: Sequence[Mapping[str, Any]]) -> None:
        self.world = world
        self.ledger_file = world.base / "ledger"
        self.env = {**world.env, "LEDGER": str(self.ledger_file), "SCRIPT": json.dumps(script)}
        self.env["PYTHONPATH"] = str(Path(__file__).parents[2])

    def popen(self, **env: str) -> subprocess.Popen[bytes] | Started:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return start([str(LOOP)], {**self.env, **env}, self.world.root, **pipes)

    def start(self, status: int = 0, **env: str) -> str:
        """Run it to its end. Gives what it said."""
        child = self.popen(**env)
        out, err = child.communicate(timeout=60)
        assert child.returncode == status, f"{child.returncode}\n{out.decode()}\n{err.decode()}"
        return (out + err).decode()

    def die(self, place: str, **env: str) -> None:
        self.start(-signal.SIGKILL, DIE=place, **env)

    def finish(self, **env: str) -> dict[str, Any]:
        """Run it to the end of the run; gives its context and usage."""
        answer: dict[str, Any] = json.loads(self.start(**env).splitlines()[0])
        return answer

    def ledger(self, name: str = "") -> list[dict[str, Any]]:
        if not self.ledger_file.exists():
            return []
        found = [json.loads(line) for line in self.ledger_file.read_text().splitlines()]
        return [one for one in found if name in ("", one["tool"])]

    def log(self) -> JsonlLog:
        return JsonlLog(str(self.world.store / "runs" / "loop"))

    def state(self) -> RunState:
        return catch_up(self.log()).state

    def types(self) -> list[str]:
        return [record.event.type for record in self.log().read()]


@contextmanager
def living_in(world: World) -> Iterator[None]:
    """This process in the world's directory, with its environment."""
    before, directory = dict(os.environ), os.getcwd()
    try:
        os.environ.update(world.env)
        os.chdir(world.root)
        yield
    finally:
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(before)
