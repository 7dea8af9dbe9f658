"""Prompts that an agent without hooks writes down itself: Aider's input history.

    # 2026-12-01 15:04:05.123456
    +the first line of what was typed
    +the second

An entry is appended when a prompt is sent off, before anything is done about it, so what changes after it is its work.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

_NAME = b".aider.input.history"
_LONGEST = 1 << 20


class InputHistory:
    """What is typed from now on, by the file that tells it. Nothing is written, and nothing that blocks is opened."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        self._read = self._size()

    @classmethod
    def of(cls, argv: Sequence[str], root: bytes) -> InputHistory | None:
        """The history of a command, if it is an agent that keeps one there."""
        named = {os.path.basename(word).removesuffix(".py") for word in argv[:3]}
        if "aider" not in named:
            return None
        words = list(argv)
        at = words.index("--input-history-file") + 1 if "--input-history-file" in words else len(words)
        given = os.fsencode(words[at]) if at < len(words) else _NAME
        return cls(os.path.join(root, given))

    def _size(self) -> int:
        try:
            return os.lstat(self.path).st_size
        except OSError:
            return 0

    def prompts(self) -> list[str]:
        """What was typed since the last call, oldest first. A file that cannot be read tells nothing."""
        size = self._size()
        if size <= self._read:
            self._read = size
            return []
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            data = os.pread(fd, min(size - self._read, _LONGEST), self._read)
        finally:
            os.close(fd)
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return _entries(whole.decode("utf-8", "replace"))


def _entries(text: str) -> list[str]:
    found: list[list[str]] = []
    for line in text.split("\n"):
        if line.startswith("#"):
            found.append([])
        elif line.startswith("+"):
            if not found:
                found.append([])
            found[-1].append(line[1:])
    return [prompt for lines in found if (prompt := "\n".join(lines).strip())]
