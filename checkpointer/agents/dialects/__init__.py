"""What agent programs say to a hook and what they understand in return: one module for each, one for their family.

`read` turns a payload into a `Report`, the few facts that all of them share; `spoken` turns a `Reply` into the words
that one of them understands. Both are pure, and never raise for what an agent may send.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from checkpointer.agents.dialects.dialect import Dialect
from checkpointer.agents.dialects.report import IGNORED, Reply, Report

NAMES = (
    "claude", "codex", "gemini", "qwen", "copilot", "opencode", "cline", "hermes", "cursor", "goose", "openhands",
)  # fmt: skip


def dialect(agent: str) -> Dialect:
    """The dialect of one of `NAMES`. Raises KeyError for any other."""
    if agent not in NAMES:
        raise KeyError(agent)
    found: Dialect = importlib.import_module(f"checkpointer.agents.dialects.{agent}").DIALECT
    return found


def read(agent: str, event: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> Report:
    """The facts of one call of a hook. `event` is what the command line said, empty where it said nothing.

    An event or a shape that nobody here knows gives a report of kind `unknown`.
    """
    if agent == "claude" and environ.get("COPILOT_CLI") == "1":
        agent = "copilot"  # it also runs the hooks of a project that were written for Claude Code
    spoken = dialect(agent)
    name = event.rpartition(":")[2] if event.startswith(("CC", "userdir:")) else event
    try:
        return spoken.read(name, payload, environ)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as e:
        return Report(agent, name, "unknown", trouble=f"{type(e).__name__}: {e}"[:200])


def spoken(agent: str, report: Report, reply: Reply) -> str:
    """What is printed for a reply; empty for one that says nothing."""
    if not reply:
        return dialect(report.agent or agent).silence
    return dialect(report.agent or agent).say(report, reply)


__all__ = ["IGNORED", "NAMES", "Dialect", "Reply", "Report", "dialect", "read", "spoken"]
