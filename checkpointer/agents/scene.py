"""Where a hook was called: what stands around it, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from checkpointer.agents.ancestry import Process
from checkpointer.fields import Fields

Ask = Callable[[bytes, str, list[str]], tuple[int, str]]
"""Carries out a command that a person typed, in the workspace at this path and for a run; gives its exit status and
what it printed.
"""


class Scene(Fields):
    """The environment, the current directory, the agent above, how a typed command is carried out. `store` is set once
    it is known.
    """

    environ: Mapping[str, str]
    directory: str
    process: Process | None
    ask: Ask
    store: Path | None = None
