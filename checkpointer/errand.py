"""A call of `ckpt` carried to the resident of a `ckpt run`, which answers it without having to start: see
`checkpointer.cli.resident`. Whoever calls knows it by `CKPT_RESIDENT`, the path of its socket.

What is asked and answered: the caller connects, and sends `MAGIC`, the length of what follows as eight bytes, and
with the first of these, descriptors: one that proves that it may write in the store, then, where the answer goes to
them at once, its stdout and stderr. What follows are `FIELDS`, each as four bytes of length and its bytes. The answer
is `TAKEN`; the caller, if it still waits, says `GO`, and only then is anything begun. Later come four bytes of exit
status, eight of length, and what is to be printed. Where `TAKEN` does not come in time, or the connection ends, the
caller does the work itself. It does so too where an answer that was begun does not come: as a hook that was killed
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
FIELDS = ("version", "package", "spaces", "encodings", "pid", "umask", "directory", "inode", "words", "environment")
_LONGEST = 100
_SERVED = ("hook", "save")


def told(words: Sequence[str]) -> tuple[int, bytes] | None:
    """Have the resident answer a call, if there is one that does: the exit status, and what is to be printed. None:
    it was not answered. What stood on stdin can then be read from `sys.stdin` as if nobody had.
    """
    path = os.environ.get(VARIABLE, "")
    if not path or (words[0] if words else "") not in _SERVED or {"--help", "-h"}.intersection(words):
        return None
    if os.environ.get("CKPT_OFF") == "1" or os.environ.get("CKPT_ACP"):
        return None  # known without a word of stdin
    connection = None
    given = [-1]
    try:
        given[0] = os.open(os.path.join(os.path.dirname(path), DOOR), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        connection = _connected(path)
        payload = None
        if words[0] == "hook":
            payload = _payload(words)
        else:
            given += [1, 2]
        _send(connection, _packed(words, payload), given)
        return _answer(connection)
    except (OSError, ValueError, OverflowError):
        return None
    finally:
        if connection is not None:
            connection.close()
        if given[0] >= 0:
            os.close(given[0])


def _connected(path: str) -> socket:
    """Raises OSError where nobody of ours listens."""
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
        if peer(connection)[1] != os.geteuid():
            raise PermissionError("the socket is another user's")
        return connection
    except BaseException:
        connection.close()
        raise


def peer(connection: socket) -> tuple[int, int]:
    """The process and the effective user at the other end of a connection, as the system says. Raises OSError."""
    import _socket

    if sys.platform == "darwin":
        told = connection.getsockopt(0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED: a version, the user, groups
        pid = int.from_bytes(connection.getsockopt(0, 2, 4), sys.byteorder)  # LOCAL_PEERPID
        return pid, int.from_bytes(told[4:8], sys.byteorder)
    told = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(told[:4], sys.byteorder), int.from_bytes(told[4:8], sys.byteorder)


def spaces() -> bytes:
    """Which files, users and processes this process sees; where another one says the same, both see the same."""
    names = [b"%d" % os.getuid()]
    for space in ("mnt", "user", "pid"):
        try:
            names.append(os.fsencode(os.readlink(f"/proc/self/ns/{space}")))
        except OSError:
            names.append(b"")
    return b" ".join(names)


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
    st = os.stat(".")
    out = sys.stdout
    fields = [
        VERSION.encode(),
        package(),
        spaces(),
        f"{sys.getfilesystemencoding()} {out.encoding} {out.errors}".encode(),
        b"%d" % os.getpid(),
        b"%d" % mask,
        os.getcwdb(),
        b"%d %d" % (st.st_dev, st.st_ino),
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
