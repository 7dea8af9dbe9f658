"""The editor's part of the Agent Client Protocol: a `ckpt acp` in a process of its own, spoken with line by line."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
from harness.world import World

AGENT = Path(__file__).with_name("scripted_agent.py")
PATIENCE = float(os.environ.get("PATIENCE", "120"))


class Editor:
    """`lines` are all that came, byte for byte; `updates` the session updates among them."""

    def __init__(self, world: World, *options: str, agent: tuple[str, ...] | None = None, **more: str) -> None:
        self.heard = world.base / "heard"
        command = agent or (sys.executable, str(AGENT))
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "checkpointer", "acp", *options, "--", *command],
            cwd=world.root,
            env={**world.env, "HEARD": str(self.heard), **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(world.base / "stderr", "wb"),  # noqa: SIM115
        )
        self.world = world
        self.lines: list[bytes] = []
        self.updates: list[dict[str, Any]] = []
        self._last = 0
        self._come: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.reading = threading.Event()
        """Cleared, this editor reads nothing."""
        self.reading.set()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Editor:
        return self

    def __exit__(self, *_: object) -> None:
        self.reading.set()
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()

    @property
    def agent(self) -> psutil.Process:
        """The agent's process, which is not the only child of the one in between."""
        children = psutil.Process(self.process.pid).children()
        return next(c for c in children if "checkpointer" not in c.cmdline())

    @property
    def stderr(self) -> str:
        return (self.world.base / "stderr").read_text()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self.reading.wait()
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                if message.get("method") == "session/update":
                    self.updates.append(message["params"]["update"])
                self._come.put(message)
        self._come.put(None)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> int:
        """Send a request; gives its id."""
        self._last += 1
        self.write(
            json.dumps({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}).encode() + b"\n"
        )
        return self._last

    def until(self, wanted: Any, key: str = "id") -> dict[str, Any]:
        """The next message that has this value under `key`; asks of the agent that come before are agreed to."""
        while True:
            message = self._come.get(timeout=PATIENCE)
            assert message is not None, f"the stream ended before {key}={wanted}: {self.stderr}"
            if message.get("method") == "session/request_permission":
                self.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode() + b"\n")
            if message.get(key) == wanted and ("method" in message) == (key == "method"):
                return message

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.until(self.ask(method, **params))

    def session(self, directory: Path | None = None) -> str:
        answer = self.call("session/new", cwd=os.fspath(directory or self.world.root), mcpServers=[])
        return str(answer["result"]["sessionId"])

    def prompt(self, session: str, *steps: list[Any], words: str = "") -> dict[str, Any]:
        """A prompt that has the scripted agent do these steps, answered."""
        return self.call("session/prompt", sessionId=session, prompt=[text(*steps, words=words)])

    def say(self, session: str, words: str) -> dict[str, Any]:
        return self.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": words}])

    def said(self) -> str:
        """All text that stands in the conversation."""
        chunks = [u for u in self.updates if u["sessionUpdate"] == "agent_message_chunk"]
        return "".join(u["content"]["text"] for u in chunks)

    def end(self) -> int:
        """Close the connection as an editor that quits; the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


def text(*steps: list[Any], words: str = "") -> dict[str, Any]:
    return {"type": "text", "text": json.dumps(steps) + (f"# {words}" if words else "")}
