"""A call of `ckpt` carried to the resident of a `ckpt run`, which answers it without having to start: see
`checkpointer.cli.resident`. Whoever calls knows it by `CKPT_RESIDENT`, the path of its socket.

What is asked and answered: the caller connects, and sends `MAGIC`, the length of what follows as eight bytes, and
with the first of these, descriptors: one that proves that it may write in the store, one that proves that it may look
into the resident (from within a sandbox that is not around the resident too, nobody may), then, where the answer goes
to them at once, its stdout and stderr. What follows are `FIELDS`, each as four bytes of length and its bytes. The
answer is `TAKEN`; the caller, if it still waits, says `GO`, and only then is anything begun. Later come four bytes of
exit status, eight of length, and what is to be printed. Where `TAKEN` does not come in time, or the connection ends,
the caller does the work itself. It does so too where an answer that was begun does not come: as a hook that was killed
and is called again.

Nothing is imported here that an interpreter has not loaded when it starts, but for `_socket`.
"""

from __future__ import annotations

import os
import sys

from checkpointer.release import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Sequence

VARIABLE = "CKPT_RESIDENT"
MAGIC = b"CKPT\0\0\0\1"
TAKEN = b"+"
GO = b"!"
DOOR = "door"
"""A file beside the socket. Who cannot open it for writing (a sandbox is around it) is not served."""
PATIENCE = 5.0
"""Seconds until the errand must be taken. From then on the answer takes what it takes."""
STDIN = 64 << 20
"""Bytes of a payload that are read at most."""
FIELDS = ("version", "package", "encodings", "pid", "umask", "directory", "words", "environment")
_LONGEST = 100
_SERVED = ("hook", "save")


def told(words: Sequence[str]) -> tuple[int, bytes] | None:
    """Have the resident answer a call, if there is one that does: the exit status, and what is to be printed. None:
    it was not answered. What stood on stdin can then be read from `sys.stdin` as if nobody had.
    """
    path = os.environ.get(VARIABLE, "")
    if not path or (words[0] if words else "") not in _SERVED or {"--help", "-h"}.intersection(words):
        return None
    if sys.platform != "linux" or os.environ.get("CKPT_OFF") == "1" or os.environ.get("CKPT_ACP"):
        return None  # known without a word of stdin
    connection = None
    opened: list[int] = []
    try:
        opened.append(_door(path))
        connection, resident = _connected(path)
        opened.append(inside(path, resident))
        payload = _payload(words) if words[0] == "hook" else None
        _send(connection, _packed(words, payload), opened if words[0] == "hook" else [*opened, 1, 2])
        return _answer(connection)
    except (OSError, ValueError, OverflowError):
        return None
    finally:
        if connection is not None:
            connection.close()
        for fd in opened:
            os.close(fd)


def _door(path: str) -> int:
    """A descriptor of the door beside a socket, to write. Raises OSError where there is none, and waits for nobody."""
    how = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(os.path.join(os.path.dirname(path), DOOR), how)
    if os.fstat(fd).st_mode & 0o170000 != 0o100000:
        os.close(fd)
        raise OSError("what stands there is no door")
    return fd


def inside(path: str, resident: int) -> int:
    """A descriptor of what a resident holds and nobody reaches by a name: a pipe, whose number its socket's name ends
    with. Raises OSError for who may not look into that process.
    """
    number = int(path.rpartition("-")[2])
    return os.open(f"/proc/{resident}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _connected(path: str) -> tuple[socket, int]:
    """A connection, and the process that listens. Raises OSError where nobody of ours does."""
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(PATIENCE)
        if len(os.fsencode(path)) <= _LONGEST:
            connection.connect(path)
        else:  # a socket's name is short: from its directory it is
            here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.chdir(os.path.dirname(path))
                try:
                    connection.connect(os.path.basename(path))
                finally:
                    os.fchdir(here)
            finally:
                os.close(here)
        pid, user = peer(connection)
        if user != os.geteuid():
            raise PermissionError("the socket is another user's")
        return connection, pid
    except BaseException:
        connection.close()
        raise


def peer(connection: socket) -> tuple[int, int]:
    """The process and the effective user at the other end of a connection, as Linux says. Raises OSError."""
    import _socket

    told = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(told[:4], sys.byteorder), int.from_bytes(told[4:8], sys.byteorder)


def package() -> bytes:
    """Where this code was read from, and which state of it."""
    st = os.stat(__file__)
    return b"%b %d %d" % (os.fsencode(__file__), st.st_ino, st.st_mtime_ns)


def _payload(words: Sequence[str]) -> bytes | None:
    """What stands on stdin, if a hook with these words reads it. It can be read again from `sys.stdin`."""
    if any(word.lstrip().startswith("{") for word in words[1:]):
        return b""
    if sys.stdin is None or sys.stdin.isatty():
        return None
    payload = sys.stdin.buffer.read(STDIN)
    import io

    sys.stdin = io.TextIOWrapper(io.BytesIO(payload))
    return payload


def _packed(words: Sequence[str], payload: bytes | None) -> bytes:
    mask = os.umask(0o077)
    os.umask(mask)
    out = sys.stdout
    fields = [
        VERSION.encode(),
        package(),
        f"{sys.getfilesystemencoding()} {out.encoding} {out.errors}".encode(),
        b"%d" % os.getpid(),
        b"%d" % mask,
        os.getcwdb(),
        b"\0".join(os.fsencode(word) for word in words),
        b"\0".join(b"%b=%b" % pair for pair in os.environb.items()),
    ]
    if payload is not None:
        fields.append(payload)
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


def _send(connection: socket, data: bytes, descriptors: list[int]) -> None:
    import _socket

    numbers = b"".join(fd.to_bytes(4, sys.byteorder) for fd in descriptors)
    head = MAGIC + len(data).to_bytes(8, "big")
    sent = connection.sendmsg([head], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
    connection.sendall(head[sent:] + data)


def _answer(connection: socket) -> tuple[int, bytes] | None:
    if connection.recv(1) != TAKEN:
        return None
    connection.sendall(GO)
    connection.settimeout(None)
    head = exactly(connection, 12)
    return int.from_bytes(head[:4], "big"), exactly(connection, int.from_bytes(head[4:], "big"))


def exactly(connection: socket, size: int) -> bytes:
    """So many bytes. Raises OSError where they do not come."""
    found = bytearray()
    while len(found) < size:
        more = connection.recv(min(size - len(found), 1 << 20))
        if not more:
            raise ConnectionError("it ended early")
        found += more
    return bytes(found)
