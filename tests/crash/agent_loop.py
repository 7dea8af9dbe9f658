"""`examples/agent_loop.py` in forked children that die at a chosen point, against ledgers in processes of their own.

A point is anything that another process could see: a durable verb of the disk, a request sent, an answer received; the
child dies right before it, and right after it for the network's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import importlib.util
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from checkpointer import NeedsPerson, disk
from checkpointer.demo.ledger import entries
from checkpointer.log import JsonlLog, JsonlRuns, catch_up
from checkpointer.state import RunState

EXAMPLE = Path(__file__).parents[2] / "examples" / "agent_loop.py"
PAUSED = 3
FAILED = 1
HANGS = 60


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("agent_loop", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Points:
    """Counts what is passed; kills this process at the n-th."""

    def __init__(self, at: int | None, notes: int | None = None) -> None:
        self.left = at
        self.notes = notes

    def pass_(self, name: str) -> None:
        if self.notes is not None:
            os.write(self.notes, name.encode() + b"\n")
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def verb(self, verb: str, path: object) -> None:
        self.pass_(f"{verb} {os.path.basename(os.fsdecode(path)) if isinstance(path, str | bytes | Path) else ''}")

    def around(self, method: Any, name: str) -> Any:
        def wrapped(*args: Any, **kw: Any) -> Any:
            self.pass_(f"before {name}")
            answer = method(*args, **kw)
            self.pass_(f"after {name}")
            return answer

        return wrapped

    def install(self) -> None:
        disk.probe = self.verb
        kind: Any = http.client.HTTPConnection
        kind.request = self.around(kind.request, "send")
        kind.getresponse = self.around(kind.getresponse, "receive")
        http.client.HTTPResponse.read = self.around(http.client.HTTPResponse.read, "read")  # type: ignore[method-assign]


@dataclass(frozen=True)
class Receiver:
    """A ledger with these options, and what the example's `pay` declares about it. `mutate` breaks the product."""

    options: tuple[str, ...] = ()
    terms: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    mutate: Callable[[], None] | None = None


HOURS = timedelta(hours=24)
NO_KEYS = {"keys_kept": None}
NO_LOOKUP = {"reconcile": None, "effect_fields": ()}
KEYED = Receiver(terms=NO_LOOKUP)
LOOKUP = Receiver(("--ignore-keys",), NO_KEYS)
BOTH = Receiver()
PLAIN = Receiver(("--ignore-keys",), {**NO_KEYS, **NO_LOOKUP, "policy": "person"})


class Ledger:
    """A ledger process. It carries out what it received before it ends."""

    def __init__(self, file: Path, options: Sequence[str]) -> None:
        self.file = str(file)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "checkpointer.demo.ledger", self.file, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().strip()
        assert self.url, "the ledger did not start"

    def of(self, order: int, kind: str = "payment") -> list[dict[str, Any]]:
        return [one for one in entries(self.file, kind) if one.get("order") == order]

    def close(self) -> None:
        self.process.communicate(timeout=HANGS)
        assert self.process.returncode == 0


@contextlib.contextmanager
def ledger(file: Path, receiver: Receiver) -> Iterator[Ledger]:
    server = Ledger(file, receiver.options)
    try:
        yield server
    finally:
        server.close()


class Case:
    """One order, with a workspace, a store and a run of its own."""

    def __init__(self, base: Path, server: Ledger, receiver: Receiver, order: int) -> None:
        self.base = base
        self.order = order
        self.server = server
        self.receiver = receiver
        base.mkdir(parents=True)

    @property
    def root(self) -> Path:
        return self.base / "shop"

    def start(self, at: int | None = None, notes: int | None = None) -> int:
        """Run the loop in a child, which dies at the n-th point. Its exit status; -9 if it died."""
        child = os.fork()
        if child == 0:
            status = FAILED
            try:
                signal.alarm(HANGS)
                status = self._be(Points(at, notes))
            except BaseException:
                traceback.print_exc()
            os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _be(self, points: Points) -> int:
        for name in ("CKPT_RUN", "CKPT_EPOCH", "PAUSE"):
            os.environ.pop(name, None)
        os.environ.update(CKPT_HOME=str(self.base / "state"), HOME=str(self.base), LEDGER_URL=self.server.url)
        module: Any = load()
        module.pay = dataclasses.replace(module.pay, **self.receiver.terms)
        for _, calls in module.script:
            for call in calls:
                if call["name"] == "pay":
                    call["arguments"]["order"] = self.order
        if self.receiver.mutate is not None:
            self.receiver.mutate()
        points.install()
        try:
            context = module.main(str(self.root))
        except NeedsPerson:
            return PAUSED
        disk.probe = None
        (self.base / "context").write_text(json.dumps(context))
        (self.base / "modules").write_text("\n".join(sys.modules))
        return 0

    def points(self) -> list[str]:
        """Run it to its end; every point that it passed, in order."""
        file = self.base / "points"
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        assert self.start(notes=fd) == 0
        os.close(fd)
        for name in (self.base / "modules").read_text().split():
            if name.partition(".")[0] in ("checkpointer", "pygit2", "psutil", "isal", "tomlkit"):
                importlib.import_module(name)  # once here, so that not every child does it
        return file.read_text().splitlines()

    def log(self) -> JsonlLog:
        (runs,) = (self.base / "state" / "workspaces").glob("*/runs")
        return JsonlRuns(os.fspath(runs)).log("billing")

    def state(self) -> RunState:
        return catch_up(self.log()).state

    def came_to_its_end(self) -> None:
        """What a run that was never killed comes to."""
        said = json.loads((self.base / "context").read_text())
        assert [m["role"] for m in said] == ["user", *("assistant", "tool") * 3, "assistant"]
        results = [m["content"] for m in said if m["role"] == "tool"]
        assert results == ["wrote 25 characters", {"paid": 1200}, "wrote 16 characters"]
        assert (self.root / "invoice.txt").read_text() == "order 7\ntotal 1200 cents\n"
        assert (self.root / "report.txt").read_text() == "order 7 is paid\n"
        assert sorted(os.listdir(self.root)) == ["invoice.txt", "report.txt"]
        state = self.state()
        assert state.outcome == "done"
        assert state.model_turns == 4
        assert state.usage.input == 400
