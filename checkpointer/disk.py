"""Append, replace, truncate, remove, sync, lock: the only module that may call fsync, rename or flock.

What a sync promises. `sync` returns after the operating system says that the bytes reached stable storage:
`fdatasync` on Linux, `F_FULLFSYNC` on macOS where the file system has it, else `fsync`. A drive that lies about its
cache is outside what we can promise. A rename or an unlink is durable only after `sync_directory` of its directory.

`probe`, when set, is called as `probe(verb, path)` right before each durable verb. It exists for crash tests: a probe
that raises or kills stands for a machine that stops there. Nothing else may set it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterator

from checkpointer.errors import Failed, NoSpace, ReadOnlyStore

AnyPath = str | bytes | os.PathLike[str]

probe: Callable[[str, object], None] | None = None

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
_FULLFSYNC = getattr(fcntl, "F_FULLFSYNC", None)


def _announce(verb: str, path: object) -> None:
    if probe is not None:
        probe(verb, path)


@contextlib.contextmanager
def plain_errors(what: str) -> Iterator[None]:
    """Turn `OSError` from the body into our errors: `NoSpace`, `ReadOnlyStore` or `Failed`, naming `what`."""
    try:
        yield
    except OSError as e:
        reason = f"{what}: {e.strerror or e}"
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(f"no space left: {reason}", next=("ckpt gc",)) from e
        if e.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise ReadOnlyStore(f"cannot write: {reason}") from e
        raise Failed(reason) from e


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of `data`; a short write goes on where it stopped."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync(fd: int, path: object = None) -> None:
    """Bring the file's bytes (and its size) to stable storage."""
    _announce("sync", path if path is not None else fd)
    if _FULLFSYNC is not None:
        with contextlib.suppress(OSError):  # not every file system knows it
            fcntl.fcntl(fd, _FULLFSYNC)
            return
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_directory(path: AnyPath, *, dir_fd: int | None = None) -> None:
    """Bring the names in a directory to stable storage."""
    _announce("sync_directory", path)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        os.fsync(fd)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems sync names with the file
            raise
    finally:
        os.close(fd)


def sync_directory_fd(fd: int) -> None:
    """Bring the names in an open directory to stable storage."""
    _announce("sync_directory", fd)
    try:
        os.fsync(fd)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def create(path: AnyPath, *, mode: int = PRIVATE_FILE, dir_fd: int | None = None) -> int:
    """Open a new file for writing with exactly `mode`, whatever the umask; fails where the name exists."""
    _announce("create", path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode & 0o700, dir_fd=dir_fd)
    try:
        os.fchmod(fd, mode)
    except OSError:
        os.close(fd)
        os.unlink(path, dir_fd=dir_fd)
        raise
    return fd


def make_directory(path: AnyPath, *, mode: int = PRIVATE_DIRECTORY, dir_fd: int | None = None) -> None:
    """Make one directory with exactly `mode`, whatever the umask; an existing directory is left as it is."""
    _announce("mkdir", path)
    try:
        os.mkdir(path, 0o700, dir_fd=dir_fd)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(path, dir_fd=dir_fd).st_mode):
            raise
        return
    os.chmod(path, mode, dir_fd=dir_fd) if dir_fd is not None else os.chmod(path, mode)


def rename(src: AnyPath, dst: AnyPath, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
    """Rename, replacing `dst`. Durable only after its directories are synced."""
    _announce("rename", dst)
    os.rename(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)


def link(src: AnyPath, dst: AnyPath) -> None:
    """Give a file a second name. Durable only after the directory is synced. Fails where the name exists."""
    _announce("link", dst)
    os.link(src, dst)


def remove(path: AnyPath, *, dir_fd: int | None = None, missing_ok: bool = False) -> None:
    """Unlink one name. Durable only after its directory is synced."""
    _announce("remove", path)
    try:
        os.unlink(path, dir_fd=dir_fd)
    except FileNotFoundError:
        if not missing_ok:
            raise


def remove_directory(path: AnyPath, *, dir_fd: int | None = None) -> None:
    """Remove one empty directory."""
    _announce("rmdir", path)
    os.rmdir(path, dir_fd=dir_fd)


def remove_tree(path: AnyPath) -> None:
    """Remove a directory of ours and all below it; links are removed, not followed. Goes on where it was cut short."""
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)
            else:
                remove(entry.path, missing_ok=True)
    remove_directory(path)


def truncate(fd: int, size: int, path: object = None) -> None:
    """Cut an open file to `size` bytes. Durable only after `sync`."""
    _announce("truncate", path if path is not None else fd)
    os.ftruncate(fd, size)


def append(fd: int, data: bytes, *, path: object = None, durable: bool = True) -> None:
    """Write `data` at the end of an `O_APPEND` descriptor in one `write`, then sync.

    Raises OSError; a short write raises `ENOSPC`. The caller cuts the file back to where it ended before.
    """
    _announce("append", path if path is not None else fd)
    if os.write(fd, data) != len(data):
        raise OSError(errno.ENOSPC, "short write")
    if durable:
        sync(fd, path)


def replace(
    path: AnyPath,
    data: bytes,
    *,
    mode: int = PRIVATE_FILE,
    durable: bool = True,
    owner: tuple[int, int] | None = None,
    temporary: str | None = None,
) -> None:
    """Set a file's whole content by temporary file, sync, rename, sync of the directory.

    At any moment, and after a power loss, the name holds the old bytes or the new ones. With `durable=False` a power
    loss may also leave it empty: only for files that are checked when read and can be deleted. `owner` is the user and
    group that the file gets; `temporary` the name in the same directory that a kill may leave behind, for who sweeps
    it. On an error the temporary file is removed. Raises OSError.
    """
    target = os.fspath(path)
    name = os.fsdecode(target)
    directory = os.path.dirname(name) or "."
    beside = f"{name}.{os.getpid()}.tmp" if temporary is None else os.path.join(directory, temporary)
    _write_beside(beside, data, mode, durable, owner)
    try:
        rename(beside, name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    if durable:
        sync_directory(directory)


def _write_beside(beside: str, data: bytes, mode: int, durable: bool, owner: tuple[int, int] | None) -> None:
    """Write a temporary file; on an error it is removed."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)  # ours, from a process that had this number before
    fd = create(beside, mode=mode)
    try:
        _fill(fd, beside, data, mode, durable, owner)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _fill(fd: int, path: str, data: bytes, mode: int, durable: bool, owner: tuple[int, int] | None) -> None:
    """Give a new file its owner and its content, and close it."""
    try:
        if owner is not None:
            os.fchown(fd, *owner)
            os.fchmod(fd, mode)  # giving a file away takes its special bits
        write_all(fd, data)
        if durable:
            sync(fd, path)
    finally:
        os.close(fd)


def place(
    path: AnyPath,
    data: bytes,
    *,
    mode: int = PRIVATE_FILE,
    owner: tuple[int, int] | None = None,
    temporary: str,
) -> None:
    """Make a durable file, whole or not at all, under a name that nothing has: fails where the name exists.

    A link under that name, even a dangling one, is not followed. `owner` and `temporary` are those of `replace`. Where
    the file system knows no second names a kill may leave part of the file. Raises FileExistsError, OSError.
    """
    name = os.fsdecode(os.fspath(path))
    directory = os.path.dirname(name) or "."
    beside = os.path.join(directory, temporary)
    if os.path.lexists(name):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    _write_beside(beside, data, mode, True, owner)
    try:
        link(beside, name)
    except OSError as e:
        if e.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        _fill(create(name, mode=mode), name, data, mode, True, owner)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)
    sync_directory(directory)


def open_lock(path: AnyPath) -> int:
    """A lock file, made if it is not there, with its mode whatever the umask."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        with contextlib.suppress(FileExistsError):
            return create(path)


def try_lock(fd: int, path: AnyPath) -> bool:
    """Take the exclusive lock on an open file; False where another has it. Raises OSError."""
    _announce("lock", path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        if e.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR):
            raise
        return False
    return True


def unlock(fd: int) -> None:
    """Let an exclusive lock go; the file stays open."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def sync_file_system(fd: int) -> None:
    """Bring everything on the file system of `fd` to stable storage: one `syncfs` on Linux, else `sync`."""
    _announce("sync_file_system", fd)
    if sys.platform == "linux":
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(fd) == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(code, os.strerror(code))
    os.sync()
