"""A call that a resident was asked to answer: whose it is, whether it is answered, and the answer itself.

Nobody is given more than they have. What a caller may do and where it stands is read from the kernel, and must be what
the resident may do; what it asks for must be one of the two calls that a resident is there for; and its variables must
lead to where those of the run lead. Anything else is left to the caller.
"""

from __future__ import annotations

import importlib
import io
import os
import socket
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from checkpointer import errand
from checkpointer.cli import quick, rights
from checkpointer.release import VERSION

LEADING = (b"HOME", b"CKPT_HOME", b"CKPT_CONFIG", b"XDG_STATE_HOME", b"XDG_CONFIG_HOME", b"TMPDIR", b"TEMP", b"TMP")
"""Variables that say where something is written."""
_WORKSPACE = b"CKPT_WORKSPACE"


class Terms(NamedTuple):
    """Whom a resident answers, fixed when its run starts: the run's workspace, the values of `LEADING`, what `rights`
    says of the run, the file that is the door, and the state of this program.
    """

    root: bytes
    leading: tuple[bytes | None, ...]
    rights: tuple[str, ...]
    door: Path
    package: bytes

    @classmethod
    def here(cls, root: bytes, door: Path) -> Self:
        """Those of a run that this process starts. Raises OSError where nobody can be told from who may do less."""
        return cls(root, _leading(os.environb), rights.of(os.getpid()), door, errand.package())


def _leading(environment: dict[bytes, bytes] | os._Environ[bytes]) -> tuple[bytes | None, ...]:
    return tuple(environment.get(name) for name in LEADING)


class Order:
    """What a caller asked for: its fields, its descriptors, and which process it is."""

    def __init__(self, fields: list[bytes], descriptors: list[int], pid: int, user: int) -> None:
        given = dict(zip(errand.FIELDS, fields, strict=False))
        self.fields = given
        self.payload = fields[len(errand.FIELDS)] if len(fields) > len(errand.FIELDS) else None
        self.descriptors = descriptors
        self.pid = pid
        self.user = user
        self.words = [os.fsdecode(word) for word in given["words"].split(b"\0")]
        pairs = (pair.partition(b"=") for pair in given["environment"].split(b"\0") if pair)
        self.environment = {name: value for name, _, value in pairs}

    @classmethod
    def received(cls, connection: socket.socket) -> Order:
        """Raises OSError, ValueError or KeyError for anything but a whole errand."""
        size = len(errand.MAGIC) + 8
        head, descriptors, _, _ = socket.recv_fds(connection, size, 4)
        head += errand.exactly(connection, size - len(head))
        if not head.startswith(errand.MAGIC):
            raise ValueError("not an errand")
        data = memoryview(errand.exactly(connection, int.from_bytes(head[-8:], "big")))
        fields = []
        while data:
            end = 4 + int.from_bytes(data[:4], "big")
            fields.append(bytes(data[4:end]))
            data = data[end:]
        return cls(fields, descriptors, *errand.peer(connection))

    def fits(self, terms: Terms, within: int) -> bool:
        """May it be answered? Only if its caller could do the same alone: a process of the same user and the same
        rights, that can write in the store, and look into the resident, where it finds `within`. Raises OSError where
        that cannot be told.
        """
        given = self.fields
        stream = f"{sys.getfilesystemencoding()} ".encode()
        return (
            self.user == os.geteuid()
            and given["version"] == VERSION.encode()
            and given["package"] == terms.package == errand.package()
            and given["encodings"].startswith(stream)
            and given["pid"] == b"%d" % self.pid
            and len(self.descriptors) in (2, 4)
            and _opens(self.descriptors[0], terms.door)
            and os.path.samestat(os.fstat(self.descriptors[1]), os.fstat(within))
            and _leading(self.environment) == terms.leading
            and self.environment.get(_WORKSPACE, terms.root) == terms.root
            and self._stands()
            and served(self.words, given["directory"], terms.root)
            and rights.of(self.pid) == terms.rights
        )

    def _stands(self) -> bool:
        """Does its caller stand where it says?"""
        here = f"/proc/{self.pid}/cwd"
        directory = self.fields["directory"]
        return os.fsencode(os.readlink(here)) == directory and os.path.samestat(os.stat(here), os.stat(directory))

    def carried_out(self) -> tuple[int, bytes]:
        """Be the caller, and do what it was called to do: the exit status, and what it is to print."""
        given = self.fields
        os.chdir(given["directory"])
        os.umask(int(given["umask"]))
        os.environ.clear()
        os.environb.update(self.environment)
        time.tzset()
        printed = io.BytesIO()
        _, encoding, errors = given["encodings"].decode().split(" ")
        sys.stdin = None if self.payload is None else io.TextIOWrapper(io.BytesIO(self.payload))
        if len(self.descriptors) == 4:
            for number, fd in enumerate(self.descriptors[2:], 1):
                os.dup2(fd, number)
            sys.stdout = _stream(1, encoding, errors)
            sys.stderr = _stream(2, encoding, "backslashreplace")
        else:
            sys.stdout = io.TextIOWrapper(printed, encoding=encoding, errors=errors, write_through=True)
        sys.argv[1:] = self.words
        program = importlib.import_module("checkpointer.cli.program")
        status = program.main(self.words)
        return status, printed.getvalue()


def served(words: Sequence[str], directory: bytes, root: bytes) -> bool:
    """Is a call of these words, from this directory, one that the resident of a run in `root` answers? That is a hook,
    which knows no options, and a plain save of that workspace.
    """
    if words[0] == "hook":
        return not {"--help", "-h"}.intersection(words)
    above = root.rstrip(b"/") + b"/"
    return quick.plain(words) is not None and (directory + b"/").startswith(above)


def _opens(fd: int, door: Path) -> bool:
    """Is this descriptor the door, open for writing?"""
    import fcntl

    writable = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
    there = os.lstat(door)
    return writable and stat.S_ISREG(there.st_mode) and os.path.samestat(os.fstat(fd), there)


def _stream(fd: int, encoding: str, errors: str) -> io.TextIOWrapper:
    raw = open(fd, "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(raw, encoding=encoding, errors=errors, line_buffering=fd == 2 or os.isatty(fd))
