"""Names that people gave to checkpoints after they were made: one line each, `number<TAB>label in JSON`.

The ref `refs/ckpt/keep/<number>` protects a pinned checkpoint; this file only knows its name, and may be lost.
"""

from __future__ import annotations

import json
import os

from checkpointer import disk

NAME = "pins"


def load(directory: str | os.PathLike[str]) -> dict[int, str | None]:
    """Every pinned number and its label. Lines that cannot be read are passed over."""
    out: dict[int, str | None] = {}
    try:
        with open(os.path.join(directory, NAME), "rb") as f:
            lines = f.read().split(b"\n")
    except OSError:
        return out
    for line in lines:
        number, tab, label = line.partition(b"\t")
        try:
            value = json.loads(label) if tab else None
            if tab and number.isdigit() and (value is None or isinstance(value, str)):
                out[int(number)] = value
        except ValueError:
            continue
    return out


def save(directory: str | os.PathLike[str], pins: dict[int, str | None]) -> None:
    """Write it durably. Raises OSError."""
    text = "".join(f"{number}\t{json.dumps(label)}\n" for number, label in sorted(pins.items()))
    disk.replace(os.path.join(directory, NAME), text.encode("ascii"))
