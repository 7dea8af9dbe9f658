"""Who started us: the processes above, and which of them is the agent.

A hook is run through a shell, a time limit or a wrapper; those are passed over. The nearest process that looks like an
agent program is the agent; where none does, the nearest that is no wrapper.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from checkpointer import caller

_PROGRAMS = frozenset((
    "claude", "codex", "gemini", "qwen", "copilot", "opencode", "cline", "hermes", "cursor", "cursor-agent", "goose",
    "goosed", "openhands", "aider",
))  # fmt: skip
_PACKAGES = frozenset(("claude-code", "gemini-cli", "qwen-code", "opencode-ai", "codex-cli"))
_LOADERS = frozenset(("node", "bun", "deno", "python", "python3", "sh", "bash", "env"))
_SHELLS = frozenset(
    ("sh", "bash", "dash", "zsh", "fish", "ksh", "tcsh", "csh", "ash", "busybox", "nu", "elvish", "xonsh")
)
_VALUED = ("--rcfile", "--init-file", "-o", "+o", "-O", "+O")
_DEEPEST = 40


class Process(NamedTuple):
    """`started` is in the system's own units, as `machine.started` has it; `words` its arguments."""

    pid: int
    parent: int
    started: str
    words: tuple[str, ...]


def above(pid: int | None = None) -> Iterator[Process]:
    """The processes above one, the one that was called by default, the nearest first. Ends where the system does not
    say more.
    """
    seen = {0, 1}
    found = process(caller.pid() if pid is None else pid)
    while found is not None and found.parent not in seen and len(seen) < _DEEPEST:
        seen.add(found.parent)
        found = process(found.parent)
        if found is not None:
            yield found


def process(pid: int) -> Process | None:
    """A process that lives; None where there is none, or where nobody can say."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/stat", "rb") as f:
                stat = f.read().decode("utf-8", "replace")
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = tuple(os.fsdecode(w) for w in f.read().split(b"\0")[:-1])
        except OSError:
            return None
        fields = stat[stat.rindex(")") + 2 :].split()
        if fields[0] in "ZX":
            return None
        return Process(pid, int(fields[1]), fields[19], words)
    import psutil

    try:
        one = psutil.Process(pid)
        return Process(pid, one.ppid(), f"{one.create_time():.3f}", tuple(one.cmdline()))
    except psutil.Error:
        return None


def is_agent(words: Sequence[str]) -> bool:
    """Do these arguments look like an agent program's?"""
    for nth, word in enumerate(words[:3]):
        stem = re.sub(r"\.(?:m?js|cjs|ts|py|exe)$", "", os.path.basename(word))
        if stem in _PROGRAMS or any(part in _PACKAGES for part in word.split("/")[:-1]):
            return True
        if nth == 0 and re.sub(r"[0-9.]+$", "", stem) not in _LOADERS:
            return False
    return False


def is_typed_at(words: Sequence[str]) -> bool:
    """Are these the arguments of a shell that was given nothing to run, so that somebody types at it?"""
    if not words or os.path.basename(words[0]).lstrip("-") not in _SHELLS:
        return False
    rest = iter(words[1:])
    for word in rest:
        if word in _VALUED:
            next(rest, None)
        elif not word.startswith(("-", "+")) or (word[:2] != "--" and "c" in word):
            return False
    return True


def _is_wrapper(one: Process, agent: str) -> bool:
    """Is this only there to run the hook: a shell, a time limit, a launcher with our words in its own?"""
    return re.search(rf"\bhook['\"]?[ \0]['\"]?{re.escape(agent)}\b", "\0".join(one.words)) is not None


def agent_process(agent: str) -> Process | None:
    """The agent that a hook was started by; None where nobody above can be told."""
    nearest = None
    for one in above():
        if _is_wrapper(one, agent):
            continue
        if is_agent(one.words):
            return one
        nearest = nearest or one
    return nearest
