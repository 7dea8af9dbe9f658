"""Agents that are played: their reports go through the real hook, each in a process of its own.

A process is a fork of the test's, so that a hundred of them cost little; what the agent's tools do to the files is done
here, as the report says.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from harness.manifest import Manifest
from harness.world import World

# What a hook imports is imported here once, for every fork of it.
import checkpointer.agents.attaching
import checkpointer.agents.hook
import checkpointer.agents.visit
import checkpointer.cli.hooking
import checkpointer.workspace.odb.libgit
import checkpointer.workspace.reading.capture
import checkpointer.workspace.workspace
from checkpointer import disk
from checkpointer.agents import ancestry

FIXTURES = Path(__file__).parents[2] / "fixtures" / "agents"
ROOT = "/home/dev/proj"
AGENTS = sorted(path.stem for path in FIXTURES.glob("*.json"))

GREET = "def greet(name):\n    return 'hello ' + name\n"
NOTES = "first line\n"


@dataclass
class Told:
    """One call of a hook: what is sent, and how."""

    agent: str
    event: str
    stdin: Any
    argv: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)


def told(name: str, root: Path, *, commands: bool = False) -> list[Told]:
    """The reports of a fixture, as they would come from an agent that works in `root`; those of our own slash commands
    only if asked for.
    """
    text = (FIXTURES / f"{name}.json").read_text().replace(ROOT, str(root))
    found = [one for one in json.loads(text)["reports"] if commands or "command." not in one["event"]]
    return [
        Told(r["called"], r["event"], r["stdin"], [json.dumps(a) for a in r.get("argv", ())], r.get("env", {}))
        for r in found
    ]


@cache
def agent_program() -> int:
    """The number of a process that stands for the agent whose hooks are played; it ends with this one."""
    return subprocess.Popen(["sh", "-c", "read forever"], stdin=subprocess.PIPE).pid


class Player:
    """Plays agents in a world."""

    def __init__(self, world: World) -> None:
        self.agent = agent_program()
        """The process that hooks take for the agent; 0 where they are to look for it themselves."""
        self.world = world
        world.write("greet.py", GREET)
        world.write("notes.txt", NOTES)
        self.start = world.files()

    # -- the hook

    def spawn(self, one: Told, *, die_at: int | str | None = None, cwd: Path | None = None) -> tuple[int, int]:
        """Begin a hook; gives its process number and a descriptor to read its answer from. `die_at`: it kills itself
        before the n-th thing that it does to the disk, or the first that is called so (`remove c`).
        """
        read, write = os.pipe()
        sent = os.memfd_create("stdin") if hasattr(os, "memfd_create") else _file()
        os.write(sent, json.dumps(one.stdin).encode() if one.stdin is not None else b"")
        os.lseek(sent, 0, os.SEEK_SET)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(read)
                status = self._hook(one, sent, write, die_at, cwd or self.world.root)
            finally:
                os._exit(status)
        os.close(write)
        os.close(sent)
        return child, read

    def _hook(self, one: Told, stdin: int, stdout: int, die_at: int | str | None, cwd: Path) -> int:
        if self.agent:  # else it would be this process, which also does what the person does
            ancestry.agent_process = lambda agent: ancestry.process(self.agent)
        os.environ.clear()
        os.environ.update({**self.world.env, **one.env})
        os.chdir(cwd)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False))  # noqa: SIM115
        sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), write_through=True)  # noqa: SIM115
        if die_at is not None:
            left = die_at

            def stop(verb: str, path: object) -> None:
                nonlocal left
                if isinstance(left, str):
                    name = os.path.basename(os.fsdecode(path)) if isinstance(path, str | bytes) else ""
                    dies = left == f"{verb} {name}"
                else:
                    left -= 1
                    dies = left < 0
                if dies:
                    os.kill(os.getpid(), signal.SIGKILL)

            disk.probe = stop
        status = checkpointer.cli.hooking.hook([one.agent, *([one.event] if one.event else []), *one.argv])
        sys.stdout.flush()
        return status

    def hook(self, one: Told, **more: Any) -> str:
        """Run a hook to its end: it ends with 0, and what it prints is nothing or one JSON document."""
        pid, read = self.spawn(one, **more)
        with open(read, "rb") as f:
            out = f.read().decode()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if more.get("die_at") is not None:
            assert status in (0, -signal.SIGKILL)
            return out
        assert status == 0
        if out.strip():
            json.loads(out)
        return out.strip()

    def say(self, agent: str, event: str, **stdin: Any) -> str:
        return self.hook(Told(agent, event, stdin))

    def answer(self, agent: str, event: str, **stdin: Any) -> dict[str, Any]:
        out = self.say(agent, event, **stdin)
        found: dict[str, Any] = json.loads(out) if out else {}
        return found

    # -- the tools

    def act(self, stdin: Any) -> None:
        """Do to the files what the tool of a report does."""
        for tool, arguments in _calls(stdin):
            _act(self.world.root, tool, arguments)

    def play(self, reports: Sequence[Told], *, hook: Callable[[Told], object] | None = None) -> list[Manifest]:
        """All reports in order, each tool's work done before its end is told, or after its start where no end comes.
        Gives the files at the end of each turn.
        """
        ends = {_name(one.stdin) for one in reports if _is_end(one)}
        seen: set[str] = set()
        turns = []
        for one in reports:
            if _is_end(one) and _name(one.stdin) not in seen:
                self.act(one.stdin)
                seen.add(_name(one.stdin))
            (hook or self.hook)(one)
            if _is_start(one) and _name(one.stdin) not in ends:
                self.act(one.stdin)
            if re.search(r"(?i)stop$|idle|AfterAgent|post_llm|TaskComplete", one.event):
                turns.append(self.world.files())
        return turns

    # -- what is known afterwards

    @property
    def problems(self) -> str:
        """The hook logs."""
        found = [path.read_text() for path in sorted(self.world.state.rglob("hooks.log"))]
        return "".join(found)

    def events(self) -> list[dict[str, Any]]:
        """The log of the only run."""
        (path,) = self.world.store.glob("runs/*/events.jsonl")
        return [json.loads(line)["e"] for line in path.read_text().splitlines()]

    def session(self) -> dict[str, Any]:
        (path,) = self.world.store.glob("hooks/*/session.json")
        found: dict[str, Any] = json.loads(path.read_text())
        return found


def _file() -> int:
    import tempfile

    fd, name = tempfile.mkstemp()
    os.unlink(name)
    return fd


def _is_start(one: Told) -> bool:
    return re.search(r"(?i)^pre_?tool|^before_?tool|execute\.before$", one.event) is not None and bool(
        _calls(one.stdin)
    )


def _is_end(one: Told) -> bool:
    return re.search(r"(?i)^post_?tool(?!.*batch)|^after|execute\.after$", one.event) is not None and bool(
        _calls(one.stdin)
    )


def _name(stdin: Any) -> str:
    """What the two ends of a call have in common."""
    return json.dumps([[tool, arguments] for tool, arguments in _calls(stdin)], sort_keys=True) + str(
        stdin.get("tool_use_id", "") if "tool_call_id" not in stdin else ""
    )


_ALIASES = {"view": "Read", "edit": "Edit", "create": "Write", "bash": "Bash"}


def _calls(stdin: Any) -> list[tuple[str, Any]]:
    """The calls that a report is about, in any of the shapes."""
    if not isinstance(stdin, dict):
        return []
    for name in ("tool_call", "tool_result"):
        if isinstance(stdin.get(name), dict) and "name" in stdin[name]:
            return [(stdin[name]["name"], stdin[name]["input"])]
    if isinstance(stdin.get("input"), dict) and "tool" in stdin["input"]:
        return [(stdin["input"]["tool"], stdin.get("args") or stdin["input"].get("args"))]
    if "edits" in stdin:
        edit = stdin["edits"][0]
        return [("Edit", {"file_path": stdin["file_path"], **edit})]
    if "command" in stdin and "tool_name" not in stdin:
        return [("Shell", {"command": stdin["command"]})]
    tool = stdin.get("tool_name") or stdin.get("toolName")
    arguments = stdin.get("tool_input") or stdin.get("toolArgs")
    if not tool or not arguments:
        return []
    return [(_ALIASES.get(tool, tool), arguments)]


def _act(root: Path, tool: str, arguments: Any) -> None:
    path = next((arguments[n] for n in ("file_path", "filePath", "path") if n in arguments), None)
    where = root / path if path else None
    command = arguments.get("command") or (arguments.get("commands") or [None])[0]
    if tool.lower() in ("read", "read_file", "tool_search", "spawn_agent"):
        return
    if isinstance(command, str) and command.startswith("*** Begin Patch"):
        _patch(root, command)
    elif isinstance(command, str):
        script = "echo formatted >> formatted.txt" if command == "make fmt" else re.sub(r"sleep [0-9.]+", ":", command)
        subprocess.run(["sh", "-c", script], cwd=root, check=False, capture_output=True)
    elif where is not None and (content := arguments.get("content", arguments.get("file_text"))) is not None:
        where.write_text(content)
    elif where is not None:
        old = next(arguments[n] for n in ("old_string", "oldString", "old_str", "old_text") if n in arguments)
        new = next(arguments[n] for n in ("new_string", "newString", "new_str", "new_text") if n in arguments)
        where.write_text(where.read_text().replace(old, new))


def _patch(root: Path, text: str) -> None:
    """As much of the patch format as the fixtures use; a hunk that does not fit ends it halfway."""
    for part in re.split(r"^\*\*\* (?=Add|Update)", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        kind, _, name = head.partition(" File: ")
        lines = [line for line in body.split("\n") if not line.startswith(("***", "@@"))]
        if kind == "Add":
            (root / name).write_text("\n".join(line[1:] for line in lines if line.startswith("+")) + "\n")
            continue
        old = "\n".join(line[1:] for line in lines if line[:1] in ("-", " "))
        new = "\n".join(line[1:] for line in lines if line[:1] in ("+", " "))
        before = (root / name).read_text()
        if old not in before:
            return
        (root / name).write_text(before.replace(old, new))


@contextlib.contextmanager
def until(what: str, bound: float = 60.0) -> Iterator[Callable[[bool], bool]]:
    """A loop's clock: `while not done(condition)` fails after a generous bound."""
    deadline = time.monotonic() + bound

    def done(condition: bool) -> bool:
        if condition:
            return True
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)
        return False

    yield done
