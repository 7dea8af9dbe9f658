"""A driven run that dies in a forked child, and is opened again here: on a real workspace, store and log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from harness.world import World

from checkpointer import open_run, tool
from checkpointer.events import AnyEvent
from checkpointer.log import JsonlLog, catch_up
from checkpointer.run.driven import Run
from checkpointer.state import RunState
from checkpointer.tools import Tool


@contextmanager
def living_in(world: World) -> Iterator[None]:
    before, directory = dict(os.environ), os.getcwd()
    try:
        os.environ.update(world.env)
        os.chdir(world.root)
        yield
    finally:
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(before)


class Crash:
    """One call `ARGUMENTS` of one tool, whose first attempt dies with its process right after its effect."""

    def __init__(self, world: World, tool: Tool, **arguments: Any) -> None:
        self.world = world
        self.tool = tool
        self.arguments = arguments
        self.ledger_file = world.base / "ledger"

    def die(self, meanwhile: Callable[[], None] = lambda: None, **options: Any) -> None:
        """Ask for the call, and die in it. `meanwhile` is done in the tool, after its effect."""
        pid = os.fork()
        if pid == 0:
            try:
                with living_in(self.world), open_run(".", run_id="one", tools=[self.tool], **options) as run:
                    os.environ["DIES"] = "1"
                    global _meanwhile
                    _meanwhile = meanwhile
                    turn = run.model_turn("go", [{"name": self.tool.name, "arguments": self.arguments}])
                    run.call(turn.tool_calls[0])
            finally:
                os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9

    def dies_again(self) -> int:
        """Open the run in a child whose tools die as they did; its exit status."""
        pid = os.fork()
        if pid == 0:
            try:
                with living_in(self.world):
                    os.environ["DIES"] = "1"
                    with open_run(".", run_id="one", tools=[self.tool]):
                        pass
            finally:
                os._exit(3)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def again(self, tool: Tool | None = None, **options: Any) -> Any:
        """Open the run, make what calls are left, and give the result that the model is told."""
        with living_in(self.world), open_run(".", run_id="one", tools=[tool or self.tool], **options) as run:
            return self._rest(run)

    def _rest(self, run: Run) -> Any:
        for call in run.state.accepted:
            run.call(call)
        return next(m["content"] for m in run.context() if m["role"] == "tool")

    def enter(self, **what: Any) -> None:
        with open(self.ledger_file, "a") as f:
            f.write(json.dumps(what) + "\n")

    def ledger(self) -> list[dict[str, Any]]:
        if not self.ledger_file.exists():
            return []
        return [json.loads(line) for line in self.ledger_file.read_text().splitlines()]

    @property
    def runs(self) -> Path:
        return self.world.store / "runs"

    def log(self) -> JsonlLog:
        return JsonlLog(str(self.runs / "one"))

    def state(self) -> RunState:
        return catch_up(self.log()).state

    def events(self, kind: str) -> list[Any]:
        log = self.log()
        found: list[AnyEvent] = [r.load(log.fetch) for r in log.read() if r.event.type == kind]
        return found

    def verdicts(self) -> list[tuple[str, str]]:
        return [(e.verdict, e.by) for e in self.events("tool_call_reconciled")]


_meanwhile: Callable[[], None] = lambda: None  # noqa: E731


def perhaps_die() -> None:
    """The end of a first attempt's process."""
    if os.environ.get("DIES"):
        _meanwhile()
        os._exit(9)


def writer(**terms: Any) -> Tool:
    """Appends to the file `a`, and dies with its process the first time."""

    @tool(effect="workspace", **terms)
    def write(text: str) -> str:
        with open("a", "a") as f:
            f.write(text)
        perhaps_die()
        return "written"

    return write


SHORT = timedelta(seconds=1)
