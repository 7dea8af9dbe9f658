"""The copies of configurations as they were before us: which are ours for certain, and what the next is called.

What lies under such a name is ours only where the ledger says so and it holds what the ledger noted. Anything else is a
person's: never written, never followed, never removed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.installation import change, ledger
from checkpointer.agents.installation.change import Change

SUFFIX = ".before-ckpt"
"""The suffix of the file beside a configuration that holds it as it was before us; others follow as `.2`, `.3`, ..."""
_NAME = re.compile(re.escape(SUFFIX) + r"(?:\.\d+)?")
MOST = 100


@dataclass(frozen=True)
class Copy:
    """One copy: `data` is what it holds, `mode` its permissions."""

    path: Path
    data: bytes
    mode: int

    def made(self) -> Change:
        """The change that writes it."""
        return Change(self.path, None, self.data, self.mode, new=True)

    def gone(self) -> Change:
        """The change that removes it."""
        return Change(self.path, self.data, None, self.mode)


def first(path: Path) -> Path:
    """The name of the first copy of a configuration."""
    return path.with_name(path.name + SUFFIX)


def is_name(path: Path, of: Path | None = None) -> bool:
    """Is a path called as a copy is (of one configuration)?"""
    if of is None:
        return re.search(_NAME.pattern + "$", path.name) is not None
    return path.parent == of.parent and re.fullmatch(re.escape(of.name) + _NAME.pattern, path.name) is not None


def ours(path: Path, noted: Mapping[str, str]) -> list[Copy]:
    """The copies of a configuration that are ours for certain, the newest first."""
    found = []
    for name, digest in reversed(list(noted.items())):
        copy = _regular(Path(name)) if is_name(Path(name), path) else None
        if copy is not None and ledger.digest(copy.data) == digest:
            found.append(copy)
    return found


def perhaps(path: Path) -> Copy | None:
    """What lies under the name of the first copy, where nothing is noted: good enough to compare with."""
    return _regular(first(path))


def _regular(path: Path) -> Copy | None:
    try:
        st = os.lstat(path)
        data = change.read(path) if stat.S_ISREG(st.st_mode) else None
    except (OSError, Unfit):
        return None
    return Copy(path, data, stat.S_IMODE(st.st_mode)) if data is not None else None


def new(path: Path, data: bytes) -> Copy:
    """A copy under a name that nothing has yet, readable by its owner alone. Raises Unfit."""
    name = first(path)
    for n in range(2, MOST):
        if not os.path.lexists(name):
            return Copy(name, data, 0o600)
        name = path.with_name(f"{path.name}{SUFFIX}.{n}")
    raise Unfit("has copies beside it under all names that ckpt would use")
