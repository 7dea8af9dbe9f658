"""Outlives a killed proxy: an editor that ends us by SIGKILL means the agent, which would otherwise live on unseen.

A process of its own, forked before any thread runs. It waits until the proxy is gone. If that was its end, nothing is
left to do; if it was killed, the agent is ended, what it left goes into a checkpoint, and the run is closed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from checkpointer import machine
from checkpointer.agents.acp.recording import Recording
from checkpointer.errors import CheckpointerError
from checkpointer.events import RunStarted, WorkspaceChanged
from checkpointer.log import JsonlRuns, claim
from checkpointer.recovery import Scene, settle
from checkpointer.run import roster
from checkpointer.run.files import Files
from checkpointer.workspace.workspace import Workspace

PATIENCE = 3.0
"""Seconds that an agent has to notice that nobody speaks with it, and as many after it was asked to end."""


class Guardian:
    """Made after the agent was started. `dismiss` it when all is over; else it acts once this process is gone."""

    def __init__(self, agent: int, recordings: Callable[[], list[Recording]]) -> None:
        started = machine.started(agent)
        ours, self._there = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                _alone(ours)
                if os.read(ours, 1) == b"":
                    _end(agent, started)
                    for recording in recordings():
                        close(recording.workspace, recording.handle)
                status = 0
            finally:
                os._exit(status)
        os.close(ours)

    def dismiss(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._there, b".")
        os.close(self._there)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _alone(keep: int) -> None:
    """Hold nothing of the parent's open, and let what ends it pass."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    sink = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(sink, fd)
    limit = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, keep)
    os.closerange(keep + 1, min(limit, 1 << 16))


def _end(agent: int, started: str | None) -> None:
    if started is None:
        return  # nobody can tell it from a later process of that number
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None and machine.started(agent) == started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(agent, number)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if machine.started(agent) != started:
                return
            time.sleep(0.05)


def close(workspace: Workspace, run: str) -> None:
    """End a run whose owner was killed: what changed since its last checkpoint is the work of its open turn."""
    workspace = Workspace(workspace.root, workspace.directory)
    info = roster.read(workspace.directory, run)
    if info.ended or info.alive != "dead":
        return
    log = JsonlRuns(os.fspath(roster.runs_directory(workspace.directory))).log(run)
    files = Files(workspace, run, info.handle, warn=lambda error: None)
    with contextlib.suppress(CheckpointerError, ValueError):
        pen = claim(log, RunStarted(run=run, owner=machine.holder()), shared=True)
        files.take_up(pen.state)
        steps = tuple(
            f"t{number}.{max(1, info.turns[number].steps)}" for number in sorted(info.open_by_context.values())
        )
        before = files.newest
        pen.append(*files.during(steps, "crash")) if steps else pen.append(*files.left(""))
        if steps and files.newest > before:
            turn, step = (int(n) for n in steps[-1].removeprefix("t").split("."))
            changed = WorkspaceChanged(
                cause="step",
                by="agent",
                checkpoint=files.newest,
                before=before or None,
                turn=turn,
                step=step,
                **files.verified(),
            )
            pen.append(changed)
        settle(Scene(pen, files))
        pen.release("interrupted")
