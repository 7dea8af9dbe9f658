"""The safety net around coding agents: checkpoints of the files, an event log of the run."""

from __future__ import annotations

__version__ = "0.1.0"


def version() -> str:
    """The version of this package."""
    return __version__
