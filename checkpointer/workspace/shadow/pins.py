"""Names that people gave to checkpoints after they were made: one line each, `number<TAB>name in JSON`.

A checkpoint may have several, the newest last: every one of them finds it. The ref `refs/ckpt/keep/<number>` protects a
pinned checkpoint; this file only knows its names, and may be lost.
"""

from __future__ import annotations

import json
import os

from checkpointer import disk

NAME = "pins"


def load(directory: str | os.PathLike[str]) -> dict[int, tuple[str, ...]]:
    """The names of every checkpoint that was given one, in that order. Lines that cannot be read are passed over."""
    out: dict[int, tuple[str, ...]] = {}
    try:
        with open(os.path.join(directory, NAME), "rb") as f:
            lines = f.read().split(b"\n")
    except OSError:
        return out
    for line in lines:
        number, tab, label = line.partition(b"\t")
        try:
            value = json.loads(label) if tab else None
        except ValueError:
            continue
        if number.isdigit() and isinstance(value, str):
            known = out.get(int(number), ())
            out[int(number)] = (*(name for name in known if name != value), value)
    return out


def save(directory: str | os.PathLike[str], pins: dict[int, tuple[str, ...]]) -> None:
    """Write it durably. Raises OSError."""
    text = "".join(f"{number}\t{json.dumps(name)}\n" for number, names in sorted(pins.items()) for name in names)
    disk.replace(os.path.join(directory, NAME), text.encode("ascii"))
