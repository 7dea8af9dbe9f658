"""Names for commits in the shadow repository, loose or packed, written as git does and durable when written."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator

from checkpointer import disk
from checkpointer.errors import Busy, Damaged
from checkpointer.workspace.unreadable import unreadable

_ID = re.compile(rb"[0-9a-f]{40}")
_LINE = re.compile(rb"#.*|\^[0-9a-f]{40}|[0-9a-f]{40} [^ ]+")
_STALE = 2.0
_PACKED_HEAD = b"# pack-refs with: peeled fully-peeled sorted \n"


def break_if_stale(path: str, notices: list[str], *, wait: bool) -> bool:
    """Remove a lock file that nobody has touched for 2 s. Is it gone?

    Only for who holds the workspace lock: then none of ours can be at work, and a git command of the user's is done
    long before. With `wait`, a younger one is watched for as long as it takes; without, it is left alone.
    """
    seen: tuple[int, int, int] | None = None
    since = time.monotonic()
    while True:
        try:
            st = os.lstat(path)
        except FileNotFoundError:
            return True
        now = (st.st_ino, st.st_mtime_ns, st.st_size)
        if now != seen:
            seen, since = now, time.monotonic()
        age = time.time() - st.st_mtime
        if age > _STALE or time.monotonic() - since > _STALE:
            disk.remove(path, missing_ok=True)
            notices.append(f"a lock that nobody held was removed: {path}")
            return True
        if not wait:
            return False
        time.sleep(0.05)


@contextlib.contextmanager
def lock_file(path: str, notices: list[str]) -> Iterator[int]:
    """Hold git's lock on `path`: a descriptor of the new, empty `path.lock`. The body renames it; else it is removed.

    Raises `Busy` where another process keeps it changing.
    """
    name = f"{path}.lock"
    for _ in range(3):
        try:
            fd = disk.create(name)
            break
        except FileExistsError:
            break_if_stale(name, notices, wait=True)
    else:
        raise Busy(f"another program is at work on the store: {name}", kept="nothing was written")
    st = os.fstat(fd)
    try:
        yield fd
    finally:
        os.close(fd)
        with contextlib.suppress(OSError):
            left = os.lstat(name)
            if (left.st_dev, left.st_ino) == (st.st_dev, st.st_ino):
                disk.remove(name, missing_ok=True)  # never renamed: nothing was changed


class Refs:
    """The refs of one repository directory. `notices` receives a line for every lock that had to be broken."""

    def __init__(self, directory: str, notices: list[str]) -> None:
        self.directory = directory
        self.notices = notices

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def raw(self, name: str) -> bytes | None:
        """What is written for a ref, whatever it is; None where nothing is."""
        try:
            with open(self._path(name), "rb") as f:
                return f.read(4096)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            packed = self._packed().get(name)
            return None if packed is None else packed.encode()
        except OSError as e:
            raise unreadable(e, name) from e

    def read(self, name: str) -> str | None:
        """The id a ref names (40 hex digits), or None. Raises `Damaged`, with the `value`, where it names none."""
        value = self.raw(name)
        if value is None:
            return None
        text = value.strip()
        if not _ID.fullmatch(text):
            raise Damaged(f"{name} names no commit: {value[:60]!r}", value=value[:100].decode("latin-1"))
        return text.decode("ascii")

    def _packed(self) -> dict[str, str]:
        try:
            with open(self._path("packed-refs"), "rb") as f:
                lines = f.read().split(b"\n")
        except FileNotFoundError:
            return {}
        except OSError as e:
            raise unreadable(e, "packed-refs") from e
        out = {}
        for line in lines:
            oid, _, name = line.partition(b" ")
            if _ID.fullmatch(oid) and name:
                out[name.decode("utf-8", "surrogateescape")] = oid.decode("ascii")
        return out

    def heal(self) -> None:
        """Take out of `packed-refs` the lines that cannot be read, if there are any: git would read none at all."""
        path = self._path("packed-refs")
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as f:
            lines = f.read().split(b"\n")
            last = lines.pop()
            if last or not all(_LINE.fullmatch(line) for line in lines):
                with disk.plain_errors(path):
                    self._unpack(None)
                self.notices.append(f"{path} was damaged; what could be read of it is kept")

    def below(self, prefix: str) -> dict[str, str]:
        """Every readable ref below `prefix` (ending in `/`) -> id."""
        out = {name: oid for name, oid in self._packed().items() if name.startswith(prefix)}
        try:
            names = os.listdir(self._path(prefix))
        except (FileNotFoundError, NotADirectoryError):
            names = []
        for name in names:
            if not name.endswith(".lock"):
                with contextlib.suppress(Damaged):
                    oid = self.read(prefix + name)
                    if oid is not None:
                        out[prefix + name] = oid
        return out

    def write(self, name: str, oid: str) -> None:
        """Set a ref: exclusive lock, sync, rename, sync of its directory. Raises our errors, `Busy` too."""
        assert _ID.fullmatch(oid.encode())
        path = self._path(name)
        directory = os.path.dirname(path)
        with disk.plain_errors(name):
            self._make_directory(directory)
            with lock_file(path, self.notices) as fd:
                disk.write_all(fd, oid.encode() + b"\n")
                disk.sync(fd, f"{path}.lock")
                if os.path.isdir(path) and not os.path.islink(path):
                    disk.remove_directory(path)  # empty, or somebody else's: then this fails
                disk.rename(f"{path}.lock", path)
            disk.sync_directory(directory)

    def _make_directory(self, directory: str) -> None:
        if not os.path.isdir(directory):
            above = os.path.dirname(directory)
            self._make_directory(above)
            disk.make_directory(directory)
            disk.sync_directory(above)

    def delete(self, name: str) -> None:
        """Remove a ref, packed or not; without effect where it is not."""
        path = self._path(name)
        with disk.plain_errors(name):
            if name in self._packed():
                self._unpack(name)
            with lock_file(path, self.notices) if os.path.isdir(os.path.dirname(path)) else contextlib.nullcontext():
                if not os.path.lexists(path):
                    return
                disk.remove(path)
            disk.sync_directory(os.path.dirname(path))

    def _unpack(self, name: str | None) -> None:
        """Write `packed-refs` without this ref."""
        path = self._path("packed-refs")
        with lock_file(path, self.notices) as fd:
            lines = [f"{oid} {other}\n" for other, oid in sorted(self._packed().items()) if other != name]
            disk.write_all(fd, _PACKED_HEAD + "".join(lines).encode("utf-8", "surrogateescape"))
            disk.sync(fd, f"{path}.lock")
            disk.rename(f"{path}.lock", path)
        disk.sync_directory(self.directory)
