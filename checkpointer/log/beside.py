"""What lies beside a log's lines: large contents by their sha256, letters by event id, the bytes of cut-off writes, how
often somebody was fenced.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from hashlib import sha256

from checkpointer import disk
from checkpointer.errors import Damaged, MissingObject

BOXES = ("inbox", "late")
FENCED = "fenced"
"""As many bytes as appends were refused."""
_NAME = re.compile(r"[0-9A-Za-z_-]{1,128}")


class Beside:
    """Files in the directory of one run; every method raises our errors for what the system refuses."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def _path(self, room: str, name: str = "") -> str:
        if name and not _NAME.fullmatch(name):
            raise ValueError(f"not a name: {name!r}")
        return os.path.join(self._directory, room, name) if name else os.path.join(self._directory, room)

    def _put(self, room: str, name: str, data: bytes) -> None:
        """Write a file durably and whole, unless it is there."""
        path = self._path(room, name)
        if os.path.exists(path):
            return
        with disk.plain_errors(f"run {os.path.basename(self._directory)}"):
            if not os.path.isdir(self._path(room)):
                disk.make_directory(self._path(room))
                disk.sync_directory(self._directory)
            disk.replace(path, data)

    def keep(self, objects: Sequence[tuple[str, bytes]]) -> None:
        for name, data in objects:
            self._put("objects", name, data)

    def fetch(self, name: str) -> bytes:
        try:
            with open(self._path("objects", name), "rb") as f:
                data = f.read()
        except FileNotFoundError as e:
            raise MissingObject(f"contents {name[:12]} of run {os.path.basename(self._directory)} are gone") from e
        if sha256(data).hexdigest() != name:
            raise Damaged(f"contents {name[:12]} of run {os.path.basename(self._directory)} are damaged")
        return data

    def forget(self, name: str) -> None:
        """Remove large contents for good; without effect if they are gone."""
        with disk.plain_errors(f"run {os.path.basename(self._directory)}"):
            disk.remove(self._path("objects", name), missing_ok=True)
            if os.path.isdir(self._path("objects")):
                disk.sync_directory(self._path("objects"))

    def post(self, box: str, event_id: str, line: bytes) -> None:
        if box not in BOXES:
            raise ValueError(box)
        self._put(box, event_id, line)

    def letters(self, box: str) -> list[tuple[str, bytes]]:
        try:
            names = [n for n in os.listdir(self._path(box)) if _NAME.fullmatch(n)]
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            try:
                with open(self._path(box, name), "rb") as f:
                    found.append((os.fstat(f.fileno()).st_mtime_ns, name, f.read()))
            except FileNotFoundError:  # taken out since
                continue
        return [(name, line) for _, name, line in sorted(found)]

    def discard(self, box: str, event_id: str) -> None:
        with disk.plain_errors(f"run {os.path.basename(self._directory)}"):
            disk.remove(self._path(box, event_id), missing_ok=True)

    def fenced(self) -> int:
        try:
            return os.stat(self._path(FENCED)).st_size
        except OSError:
            return 0

    def count_fenced(self) -> None:
        # A byte for each: whoever counts at the same time adds one too, and nobody's is lost.
        with contextlib.suppress(OSError):
            fd = os.open(self._path(FENCED), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, disk.PRIVATE_FILE)
            try:
                disk.append(fd, b".", path=self._path(FENCED), durable=False)
            finally:
                os.close(fd)

    def forget_torn(self) -> None:
        """Remove what was set aside."""
        with disk.plain_errors(f"run {os.path.basename(self._directory)}"):
            if os.path.isdir(self._path("torn")):
                disk.remove_tree(self._path("torn"))
                disk.sync_directory(self._directory)

    def set_aside(self, seq: int, data: bytes) -> None:
        """Keep the bytes of a write that was cut off after event `seq`."""
        self._put("torn", f"{seq}-{sha256(data).hexdigest()[:16]}", data)
