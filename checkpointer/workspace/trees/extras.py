"""What a checkpoint says beside its git tree: modes, directories without files, fifos, what is not covered.

It is the blob `extras.json` next to `files/`: indented, sorted, one path a line, so that `git log -p` shows a change of
it as the change of one line. Equal extras encode to equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from checkpointer.errors import Damaged, NewerFormat
from checkpointer.workspace.entry import from_json, to_json

VERSION = 1
REASONS = frozenset(("too-large", "unreadable", "socket", "device", "other-filesystem"))


class Extras(NamedTuple):
    """Facts about paths that git trees cannot hold. Paths are relative to the workspace, the root is `b""`.

    `file_mode`, `exec_mode`, `dir_mode` are the usual modes: chosen at a workspace's first checkpoint and inherited
    since. `modes` are the exceptions, of files and directories. `directories` stand in no git tree because no file is
    below them. `fifos` have their mode here. `uncovered` gives a reason (one of `REASONS`) for each path whose content
    was not read; one that stands in the git tree all the same keeps the content it had last. `torn` files changed
    while they were read.
    """

    file_mode: int = 0o644
    exec_mode: int = 0o755
    dir_mode: int = 0o755
    modes: Mapping[bytes, int] = MappingProxyType({})
    directories: frozenset[bytes] = frozenset()
    fifos: Mapping[bytes, int] = MappingProxyType({})
    uncovered: Mapping[bytes, str] = MappingProxyType({})
    torn: frozenset[bytes] = frozenset()

    def usual_modes(self) -> tuple[int, int, int]:
        return (self.file_mode, self.exec_mode, self.dir_mode)

    def encode(self) -> bytes:
        kinds = ("file", "executable", "directory")
        usual = {kind: _octal(mode) for kind, mode in zip(kinds, self.usual_modes(), strict=True)}
        sections = [
            f' "version": {VERSION}',
            f' "usual": {json.dumps(usual)}',
            _section("modes", ((p, _octal(m)) for p, m in self.modes.items())),
            _section("directories", ((p, None) for p in self.directories)),
            _section("fifos", ((p, _octal(m)) for p, m in self.fifos.items())),
            _section("uncovered", self.uncovered.items()),
            _section("torn", ((p, None) for p in self.torn)),
        ]
        return ("{\n" + ",\n".join(sections) + "\n}\n").encode("ascii")

    @classmethod
    def decode(cls, data: bytes) -> Extras:
        """Raises `NewerFormat`, or `Damaged` on anything `encode` does not write."""
        try:
            value = json.loads(data)
            version = value["version"]
            if isinstance(version, int) and version > VERSION:
                raise NewerFormat(f"this checkpoint has format {version} of extras.json, this program knows {VERSION}")
            usual = value["usual"]
            return cls(
                file_mode=_mode(usual["file"]),
                exec_mode=_mode(usual["executable"]),
                dir_mode=_mode(usual["directory"]),
                modes={from_json(p): _mode(m) for p, m in value["modes"]},
                directories=frozenset(from_json(p) for p in value["directories"]),
                fifos={from_json(p): _mode(m) for p, m in value["fifos"]},
                uncovered={from_json(p): str(reason) for p, reason in value["uncovered"]},
                torn=frozenset(from_json(p) for p in value["torn"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise Damaged(f"extras.json cannot be read: {e}") from e


def _octal(mode: int) -> str:
    return f"{mode:03o}"


def _mode(text: Any) -> int:
    mode = int(text, 8)
    if not 0 <= mode <= 0o7777:
        raise ValueError(f"not a mode: {text}")
    return mode


def _section(name: str, items: Iterable[tuple[bytes, str | None]]) -> str:
    lines = []
    for path, value in sorted(items):
        shown = to_json(path)
        lines.append("  " + json.dumps(shown if value is None else [shown, value]))
    return f' "{name}": [\n' + ",\n".join(lines) + "\n ]" if lines else f' "{name}": []'
