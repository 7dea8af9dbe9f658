"""Why a configuration file cannot be changed by us."""

from __future__ import annotations


class Unfit(Exception):
    """The file is not what we can change safely. The text says why, in words that follow the file's name."""
