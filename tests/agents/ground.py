"""A home with agents in it, a ckpt to call, and what a directory holds to the byte."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from checkpointer.agents.recipes.catalogue import RECIPES
from checkpointer.agents.recipes.recipe import Caller, Recipe, Site

HOOKED = [r for r in RECIPES.values() if r.hooks]
SHARED = [r for r in HOOKED if r.project]

CONFIGURATIONS: dict[str, dict[str, str]] = {
    "claude": {
        ".claude/settings.json": '{\n  "model": "opus",\n  "hooks": {\n    "Stop": [\n'
        '      {"hooks": [{"type": "command", "command": "say done"}]}\n    ]\n  }\n}\n',
        ".claude/commands/mine.md": "mine\n",
    },
    "codex": {".codex/config.toml": 'model = "x"  # mine\n', ".codex/hooks.json": '{"hooks":{"Stop":[]}}'},
    "gemini": {".gemini/settings.json": '{\n\t// mine\n\t"theme": "dark",\n}\n'},
    "qwen": {".qwen/settings.json": '{ "a": { } }'},
    "copilot": {".copilot/hooks/mine.json": '{"version": 1}'},
    "cursor": {".cursor/hooks.json": '{\r\n  "version": 1,\r\n  "hooks": {}\r\n}\r\n'},
    "hermes": {".hermes/config.yaml": "model: x  # mine\nhooks: {}\n\n# the end\n"},
    "openhands": {".openhands/hooks.json": "{}"},
    "opencode": {".config/opencode/opencode.json": "{}"},
    "cline": {".cline/hooks/Other": "#!/bin/sh\n"},
    "goose": {".agents/plugins/other/plugin.json": "{}"},
}


def caller(base: Path) -> Caller:
    """A ckpt that answers."""
    path = base / "bin dir" / "ckpt"
    if not path.exists():
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\necho ckpt 0\n")
        path.chmod(0o755)
    return Caller(str(path))


def site(base: Path, *, project: bool = False) -> Site:
    """A home below `base`, or a project in it; the variables of this process's agents count for nothing there."""
    home = base / "home"
    (home / "p").mkdir(parents=True, exist_ok=True)
    return Site(home, {"PATH": ""}, home / "p" if project else None)


def configured(recipe: Recipe, base: Path) -> None:
    """The agent as somebody uses it already."""
    for name, text in CONFIGURATIONS.get(recipe.name, {}).items():
        path = base / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def contents(directory: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """Every name below a directory with its mode and its content."""
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for where, directories, files in os.walk(directory):
        for name in (*directories, *files):
            path = Path(where, name)
            st = path.lstat()
            content: bytes | str | None = None
            if stat.S_ISLNK(st.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(st.st_mode):
                content = path.read_bytes()
            found[str(path.relative_to(directory))] = (st.st_mode, content)
    return found
