"""`ckpt hook AGENT [EVENT]`: one report of an agent program, taken in.

Whatever happens, the agent goes on: the exit status is 0, nothing but the dialect's own answer is printed, and nothing
at all while there is nothing to say. What goes wrong is in the hook log.

`receive` is all of the work, a plain function of plain data: whoever keeps a process ready may call it from there.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from checkpointer.agents import ancestry, dialects, diary
from checkpointer.agents.dialects.report import IGNORED, Reply, Report
from checkpointer.agents.scene import Ask, Scene
from checkpointer.errors import CheckpointerError

STDIN = 64 << 20
"""Bytes of a payload that are read at most."""


def main(words: Sequence[str], ask: Ask) -> int:
    """Answer one call, whose words after `hook` are these; always 0."""
    agent, event, argument = _called(words)
    scene = Scene(os.environ, "", None, ask)
    try:
        if os.environ.get("CKPT_OFF") == "1" or os.environ.get("CKPT_ACP"):  # `ckpt acp` reports all there is
            return 0
        if agent not in dialects.NAMES:
            diary.write(None, agent, event, f"no agent is called {agent!r}; known are {' '.join(dialects.NAMES)}")
            return 0
        report = dialects.read(agent, event, _payload(argument), os.environ)
        _readable(report)
        report.at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        scene.directory = _here()
        with _quiet():
            scene.process = ancestry.agent_process(agent)
            reply = receive(report, scene)
        _print(dialects.spoken(agent, report, reply))
    except BaseException as e:
        diary.write(scene.store, agent, event, f"{type(e).__name__}: {e}")
        if os.environ.get("CKPT_DEBUG") == "raise":
            raise
        with contextlib.suppress(Exception):
            _print(dialects.dialect(agent).silence)
    return 0


def _called(words: Sequence[str]) -> tuple[str, str, str]:
    """Agent, event, and a payload that came as an argument (Codex's `notify` is called like that)."""
    agent = words[0] if words else ""
    rest = [word for word in words[1:] if not word.lstrip().startswith("{")]
    argument = next((word for word in words[1:] if word.lstrip().startswith("{")), "")
    return agent, rest[0] if rest else "", argument


def _payload(argument: str) -> Mapping[str, Any]:
    """What was sent: an argument, else what stands on stdin. Anything but an object is an empty one."""
    if argument:
        data = argument.encode("utf-8", "surrogateescape")
    else:
        data = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read(STDIN)
    try:
        found = json.loads(data.decode("utf-8", "replace")) if data.strip() else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _readable(report: Report) -> None:
    """Half a character, as an escape can name it, is in no name: it could not be written down."""
    for name in ("session", "parent", "subagent", "turn", "stamp", "source"):
        said = getattr(report, name)
        if not said.isascii():
            setattr(report, name, said.encode("utf-8", "backslashreplace").decode())


def _here() -> str:
    with contextlib.suppress(OSError):
        return os.getcwd()
    return os.environ.get("PWD", "")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nothing that anybody below prints or warns of reaches the agent."""
    import warnings

    with (
        open(os.devnull, "w") as null,
        contextlib.redirect_stdout(null),
        contextlib.redirect_stderr(null),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def _print(text: str) -> None:
    if text:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(text + "\n")
            sys.stdout.flush()


def receive(report: Report, scene: Scene) -> Reply:
    """Take a report in; what is to be said in return. Raises nothing that an agent or a store can cause."""
    if report.kind in IGNORED:
        if report.kind == "unknown":
            diary.write(None, report.agent, report.event, f"passed over: {report.trouble or 'an unknown event'}")
        return Reply()
    from checkpointer.agents.visit import Visit

    visit = Visit(report, scene)
    try:
        return visit.work()
    except Exception as e:  # also what nobody foresaw: it keeps as little as a full disk does
        if os.environ.get("CKPT_DEBUG") == "raise" and not isinstance(e, CheckpointerError | OSError):
            raise
        return visit.lost(e)
    finally:
        scene.store = visit.store
        visit.close()
