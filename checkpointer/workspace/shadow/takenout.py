"""What purges took out of every checkpoint: a list that stays, so that a file which stands on is no change."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence

from checkpointer import disk
from checkpointer.workspace.entry import from_json, to_json

_LIST = "purged"


def taken_out(directory: str) -> list[tuple[int, bytes]]:
    """(The newest checkpoint then, path) of each. Lines that cannot be read are passed over."""
    found = []
    with contextlib.suppress(OSError), open(os.path.join(directory, _LIST), "rb") as f:
        for line in f.read().split(b"\n"):
            with contextlib.suppress(ValueError, TypeError):
                number, path = json.loads(line)
                found.append((int(number), from_json(path)))
    return found


def remember(directory: str, newest: int, paths: Sequence[bytes]) -> None:
    """Add paths that are about to be taken out of checkpoints up to `newest`."""
    lines = {*taken_out(directory), *((newest, path) for path in paths)}
    text = "".join(json.dumps([number, to_json(path)]) + "\n" for number, path in sorted(lines))
    disk.replace(os.path.join(directory, _LIST), text.encode("ascii"))
