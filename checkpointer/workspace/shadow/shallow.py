"""Git's `shallow` file: the commits whose parents are gone, so that git and we see a timeline that ends there."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from checkpointer import disk
from checkpointer.workspace.unreadable import unreadable

NAME = "shallow"
_ID = re.compile(r"[0-9a-f]{40}")


def load(path: str) -> frozenset[str]:
    """Ids listed for the repository at `path`. Lines that cannot be read are passed over. Raises `Damaged`."""
    try:
        with open(os.path.join(path, NAME), encoding="ascii", errors="replace") as f:
            return frozenset(oid for oid in f.read().split() if _ID.fullmatch(oid))
    except FileNotFoundError:
        return frozenset()
    except OSError as e:
        raise unreadable(e, NAME) from e


def save(path: str, oids: Collection[str]) -> None:
    """List exactly these, durably; where there are none there is no file. Raises our errors."""
    file = os.path.join(path, NAME)
    text = "".join(f"{oid}\n" for oid in sorted(oids)).encode("ascii")
    with disk.plain_errors(NAME):
        found = None
        if os.path.exists(file):
            with open(file, "rb") as f:
                found = f.read()
        if text and found != text:
            disk.replace(file, text)
        elif not text and found is not None:
            disk.remove(file)
            disk.sync_directory(path)
