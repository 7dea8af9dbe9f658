"""Asking Codex which hooks it trusts, and telling it that a person does: through its own app server, never its files.

Codex keeps a digest of each hook that a person trusted and skips every other one. Only an explicit wish of a person
may write that: it is their gate, not ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from checkpointer import release
from checkpointer.agents.recipes.recipe import Recipe, Site
from checkpointer.errors import Failed

PATIENCE = 30.0
"""Seconds for one answer of Codex."""


@dataclass(frozen=True)
class Trust:
    """What Codex says of one hook of ours, in the file at `path`: `status` is its word (`trusted`, `untrusted`)."""

    key: str
    event: str
    status: str
    digest: str
    enabled: bool
    path: str = ""

    @property
    def runs(self) -> bool:
        return self.enabled and self.status in ("trusted", "managed")


def ask(recipe: Recipe, site: Site) -> list[Trust]:
    """What Codex says of our hooks; in a project that it trusts, also of that one's.

    Raises Failed where it is not there or does not answer as it should.
    """
    with _server(site) as server:
        return _ours(server, recipe, site)


def grant(recipe: Recipe, site: Site) -> list[str]:
    """Tell Codex that a person trusts our hooks, those of this moment and no other; the events that are trusted now.

    Raises Failed; then nothing, or all of it, is trusted.
    """
    with _server(site) as server:
        found = _ours(server, recipe, site)
        edits = [
            {
                "keyPath": f"hooks.state.{json.dumps(t.key)}.trusted_hash",
                "value": t.digest,
                "mergeStrategy": "replace",
            }
            for t in found
            if not t.runs
        ]
        if edits:
            server.call("config/batchWrite", {"edits": edits})
        trusted = [t.event for t in _ours(server, recipe, site) if t.runs]
    if not trusted or len(trusted) < len(found):
        raise Failed(
            "Codex did not take the trust of its hooks",
            kept="the hooks are in its configuration",
            next=("start codex, type /hooks, and trust those of ckpt",),
        )
    return trusted


class _Server:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.number = 0
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self.process.stdout:
                self.lines.put(line)
        self.lines.put(None)

    def tell(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except OSError as e:
            raise _silent() from e

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Codex's answer. Raises Failed."""
        self.number += 1
        self.tell({"id": self.number, "method": method, "params": params})
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise _silent() from None
            if line is None:
                raise _silent()
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            if isinstance(answer, dict) and answer.get("id") == self.number and "method" not in answer:
                if "error" in answer:
                    error = answer["error"]
                    told = error.get("message", error) if isinstance(error, dict) else error
                    raise Failed(f"Codex refused {method}: {told}", next=("start codex and type /hooks",))
                return answer.get("result")


def _silent() -> Failed:
    return Failed("Codex did not say which hooks it trusts", next=("start codex and type /hooks",))


@contextlib.contextmanager
def _server(site: Site) -> Iterator[_Server]:
    program = shutil.which("codex", path=site.environ.get("PATH"))
    if program is None:
        raise Failed("there is no codex on the PATH to ask", next=("install Codex, then ckpt doctor codex",))
    process = subprocess.Popen(
        [program, "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
        env={**site.environ, "HOME": str(site.home)},
        start_new_session=True,
    )
    try:
        server = _Server(process)
        server.call("initialize", {"clientInfo": {"name": "ckpt", "version": release.VERSION}})
        server.tell({"method": "initialized", "params": {}})
        yield server
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """It ends by itself when nobody speaks to it any more; if not, it is told so."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            if number is None and process.stdin is not None:
                process.stdin.close()
            elif number is not None:
                os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
            return


def _ours(server: _Server, recipe: Recipe, site: Site) -> list[Trust]:
    answer = server.call("hooks/list", {"cwds": [str(site.project or site.home)]})
    found: dict[str, Trust] = {}
    for place in answer.get("data", []) if isinstance(answer, dict) else []:
        for hook in place.get("hooks", []) if isinstance(place, dict) else []:
            if isinstance(hook, dict) and recipe.ours({"command": hook.get("command")}):
                trust = Trust(
                    str(hook.get("key")),
                    str(hook.get("eventName")),
                    str(hook.get("trustStatus")),
                    str(hook.get("currentHash")),
                    hook.get("enabled") is not False,
                    str(hook.get("sourcePath") or ""),
                )
                found[trust.key] = trust
    return list(found.values())
