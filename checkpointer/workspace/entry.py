"""What stands at one path of a workspace.

Paths of a workspace are bytes, relative to its root, `/` between parts, never starting or ending with `/`; the root
itself is `b""`. They are literal: never decoded except to be shown.
"""

from __future__ import annotations

import base64
import os
import stat
import sys
from typing import Any, Literal, NamedTuple

Kind = Literal["file", "link", "dir", "fifo", "socket", "device", "uncovered"]

PERMISSIONS = 0o7777

ENCODING = (sys.getfilesystemencoding(), "surrogateescape")
"""How names as the file system gives them become bytes: `name.encode(*ENCODING)` is `os.fsencode(name)`, faster."""


class Entry(NamedTuple):
    """Kind, content and mode of one path.

    `oid` is the 20-byte git blob id of a file's bytes or of a link's target, `b""` for every other kind. `mode` is the
    permission bits (`st_mode & 0o7777`), 0 for links. `socket`, `device` and `uncovered` (something stands there, but
    nobody read it) stand only for what was *seen*: a checkpoint never holds their content.
    """

    kind: Kind
    oid: bytes
    mode: int

    @property
    def content(self) -> tuple[Kind, bytes]:
        """Kind and bytes together: what undo compares apart from the mode."""
        return (self.kind, self.oid)


class Signature(NamedTuple):
    """What `lstat` said of a path at the moment of its capture; equal signatures mean "not touched since"."""

    mode: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int


def signature(st: os.stat_result) -> Signature:
    return Signature(st.st_mode, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)


def kind_of(st_mode: int) -> Kind:
    if stat.S_ISREG(st_mode):
        return "file"
    if stat.S_ISDIR(st_mode):
        return "dir"
    if stat.S_ISLNK(st_mode):
        return "link"
    if stat.S_ISFIFO(st_mode):
        return "fifo"
    if stat.S_ISSOCK(st_mode):
        return "socket"
    return "device"


def parents(path: bytes) -> list[bytes]:
    """Every directory above `path` inside the workspace, outermost first, without the root."""
    parts = path.split(b"/")[:-1]
    return [b"/".join(parts[: i + 1]) for i in range(len(parts))]


def below(path: bytes, directory: bytes) -> bool:
    """Is `path` the directory itself or inside it? Everything is below the root."""
    return not directory or path == directory or path.startswith(directory + b"/")


def show(path: bytes) -> str:
    """A path for people: one line, no control characters; quoted as C does where that is needed. The root is `.`."""
    if not path:
        return "."
    text = path.decode("utf-8", "surrogateescape")
    if text.isprintable() and not any("\udc80" <= c <= "\udcff" for c in text) and '"' not in text:
        return text
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    out = []
    for c in text:
        if c in named:
            out.append(named[c])
        elif "\udc80" <= c <= "\udcff":
            out.append(f"\\{ord(c) - 0xDC00:03o}")
        elif c.isprintable():
            out.append(c)
        else:
            out.extend(f"\\{b:03o}" for b in c.encode("utf-8"))
    return '"' + "".join(out) + '"'


def to_json(path: bytes) -> Any:
    """A path in JSON: a string, or `{"b64": ...}` where the bytes are not UTF-8."""
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(path).decode("ascii")}


def from_json(value: Any) -> bytes:
    """The inverse of `to_json`. Raises ValueError on anything else."""
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str):
        return base64.b64decode(value["b64"], validate=True)
    raise ValueError("not a path")
