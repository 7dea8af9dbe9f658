"""Secrets in files that a checkpoint took in: told once for each path, and nobody is kept from anything.

Only small files that changed are looked at, for shapes that can be nothing else; in files that are named like keepers
of secrets, such as `.env`, for values under telling names, too. Of a first checkpoint only those at the top are looked
at: what stands in thousands of older files is not the moment's news.
"""

from __future__ import annotations

import contextlib
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from checkpointer import disk, redaction
from checkpointer.errors import CheckpointerError
from checkpointer.workspace.entry import show

if TYPE_CHECKING:
    from checkpointer.workspace.outcome import Saved

SAYS: Final = "holds what looks like a secret"
"""What every such notice says."""
SMALL: Final = 64 << 10
MOST: Final = 100
"""Files of one checkpoint that are looked at."""
_KEEPERS = re.compile(
    rb"(?:\A|/)(?:\.env(?:\.[^/]*)?|[^/]*\.pem|id_(?:rsa|dsa|ecdsa|ed25519)|\.netrc|\.npmrc|\.pypirc)\Z"
)
_TOLD = "told-secrets"


def look(root: bytes, store: Path, saved: Saved) -> list[str]:
    """What a person should hear of a checkpoint that was just made: a line, or none. Never raises."""
    rules = redaction.in_force()
    if not rules.on:
        return []
    told = _told(store)
    found: dict[bytes, str] = {}
    with contextlib.suppress(OSError, CheckpointerError):
        for path in _candidates(root, saved):
            if _mark(path) not in told and (kind := _kind(root, path, saved, rules)):
                found[path] = kind
    if not found:
        return []
    with contextlib.suppress(OSError, CheckpointerError):
        lines = sorted(told | {_mark(path) for path in found})
        disk.replace(store / "scan" / _TOLD, "\n".join(lines).encode() + b"\n", durable=False)
    named = ", ".join(f"{show(path)} ({kind})" for path, kind in list(found.items())[:4])
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    first = show(next(iter(found)))
    return [
        f"checkpoint {saved.checkpoint.number} {SAYS}: {named}{more}; ckpt purge {first} takes it out, "
        "and .ckptignore keeps it out"
    ]


def _candidates(root: bytes, saved: Saved) -> list[bytes]:
    if saved.before is None:
        return sorted(name for name in os.listdir(root) if _KEEPERS.search(name))[:MOST]
    changed = [p for p, (_, now) in saved.changed.items() if now is not None and now.kind == "file"]
    return sorted(changed, key=lambda p: (_KEEPERS.search(p) is None, p))[:MOST]


def _kind(root: bytes, path: bytes, saved: Saved, rules: redaction.Rules) -> str:
    entry = saved.after.entry(path)
    if entry is None or entry.kind != "file" or os.lstat(os.path.join(root, path)).st_size > SMALL:
        return ""
    text = saved.after.read(path).decode("utf-8", "replace")
    return rules.found(text, surely=_KEEPERS.search(path) is None)


def _mark(path: bytes) -> str:
    return sha256(path).hexdigest()[:24]


def _told(store: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return set((store / "scan" / _TOLD).read_text("ascii", "replace").split())
    return set()
