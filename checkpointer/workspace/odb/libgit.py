"""libgit2, told before its first use to obey nothing of the user's: no configuration, no owner check."""

from __future__ import annotations

import functools
import os
from typing import Any

DESCRIPTORS = 64
_OBEYED = ("GIT_", "HOME", "XDG_CONFIG_HOME")


@functools.cache
def pygit2() -> Any:
    """The module `pygit2`, imported on first use (that takes some 50 ms) and tamed. Take it from nowhere else.

    Configuration of the program, the system, XDG and the user is searched for nowhere; the variables that could name it
    are hidden while the library starts, and it reads none later on what we use: never discovery, never a work tree.
    """
    hidden = {name: os.environ[name] for name in list(os.environ) if name.startswith(_OBEYED)}
    for name in hidden:
        del os.environ[name]
    try:
        import pygit2 as module
        from pygit2.enums import ConfigLevel

        for level in (ConfigLevel.PROGRAMDATA, ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL):
            module.settings.search_path[level] = ""
        module.settings.owner_validation = False
        module.settings.enable_fsync_gitdir(True)
        module.settings.mwindow_file_limit = DESCRIPTORS
        return module
    finally:
        os.environ.update(hidden)
