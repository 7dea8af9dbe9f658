"""What must hold before a directory becomes a workspace: it is no refused root, and whoever asks knows how big it is.

Directories are compared by device and inode, not by spelling, so that a link, a `..`, a bind mount or a trailing slash
changes nothing. Whether a directory *contains* one of ours is asked of the resolved path.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import struct
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from checkpointer.errors import RefusedRoot
from checkpointer.workspace.entry import show

SYSTEM = (
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/run",
    "/var/tmp",
    "/home",
    "/Applications",
    "/Library",
    "/Network",
    "/System",
    "/Users",
    "/Volumes",
    "/cores",
    "/private",
    "/private/etc",
    "/private/tmp",
    "/private/var",
    "/private/var/tmp",
    "/nix",
    "/nix/store",
    "/snap",
)
PSEUDO = (b"/proc/", b"/sys/", b"/dev/")
"""What stands below these is no file anybody wrote; `/dev/shm` is the exception."""

_AT_FDCWD, _STATX_BTIME = -100, 0x800

NETWORK = frozenset(("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "afs", "fuse.sshfs", "glusterfs", "lustre"))
FLEETING = frozenset(("tmpfs", "ramfs"))


def real(path: bytes) -> bytes:
    """The one spelling of a path: absolute, without links, `.` and `..`. It need not exist."""
    resolved = os.path.realpath(path)
    resolved = b"/" + resolved.lstrip(b"/")  # POSIX lets two leading slashes stand
    if sys.platform == "darwin":
        with contextlib.suppress(OSError):  # as the file system spells it: letters' case and composed characters
            import fcntl

            fd = os.open(resolved, os.O_RDONLY | os.O_CLOEXEC)
            try:
                resolved = fcntl.fcntl(fd, 50, b"\0" * 1024).rstrip(b"\0") or resolved  # F_GETPATH
            finally:
                os.close(fd)
    return resolved


def born(path: bytes) -> int:
    """When a file or directory was made, in nanoseconds, 0 where the file system does not say.

    An inode number may be given to a new directory at once; a birth is not given twice.
    """
    if sys.platform != "linux":
        try:
            return int(getattr(os.stat(path), "st_birthtime", 0) * 1e9)
        except OSError:
            return 0
    import ctypes

    try:
        statx = ctypes.CDLL(None).statx
    except (AttributeError, OSError):  # an old C library
        return 0
    answer = ctypes.create_string_buffer(256)
    if statx(_AT_FDCWD, path, 0, _STATX_BTIME, answer) != 0:
        return 0
    (mask,) = struct.unpack_from("=I", answer, 0)
    seconds, fraction = struct.unpack_from("=qI", answer, 80)
    return int(seconds) * 10**9 + int(fraction) if mask & _STATX_BTIME else 0


def home_directories(environ: Mapping[str, str] = os.environ) -> list[bytes]:
    """The user's home as `$HOME` says and as the password database says; either may be missing."""
    homes = [os.fsencode(environ["HOME"])] if environ.get("HOME", "").startswith("/") else []
    with contextlib.suppress(KeyError, OSError):
        homes.append(os.fsencode(pwd.getpwuid(os.getuid()).pw_dir))
    return [h for h in homes if h.startswith(b"/")]


def _unescape(field: bytes) -> bytes:
    """Undo the octal escapes of /proc/self/mountinfo."""
    for code, byte in ((rb"\040", b" "), (rb"\011", b"\t"), (rb"\012", b"\n"), (rb"\134", b"\\")):
        field = field.replace(code, byte)
    return field


def mounts() -> dict[bytes, str]:
    """Every mount point and its file system type, where the system lists them; later mounts cover earlier ones."""
    found: dict[bytes, str] = {}
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", "rb") as f:
        for line in f.read().split(b"\n"):
            fields = line.split(b" ")
            if len(fields) > 6 and b"-" in fields:
                found[_unescape(fields[4])] = os.fsdecode(fields[fields.index(b"-") + 1])
    return found


def is_mount(path: bytes) -> bool:
    """Is something mounted here? A bind mount counts where the system lists it."""
    return os.path.ismount(path) or path in mounts()


def file_system(path: bytes) -> str:
    """The type of the file system that holds `path`, `""` where the system does not say."""
    table = mounts()
    path = real(path)
    while path not in table and path != b"/":
        path = os.path.dirname(path)
    return table.get(path, "")


def _same(path: bytes, st: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), st)
    except OSError:
        return False


def _reason(root: bytes, stores: bytes, environ: Mapping[str, str]) -> str | None:
    homes = home_directories(environ)
    try:
        st: os.stat_result | None = os.stat(root)
    except OSError:
        st = None

    def same(path: bytes) -> bool:
        return path == root or (st is not None and _same(path, st))

    if any(same(h) for h in homes):
        return "it is a home directory"
    if any(same(os.fsencode(p)) for p in SYSTEM):
        return "it is a directory of the system"
    if root.startswith(PSEUDO) and not root.startswith(b"/dev/shm/"):
        return "it is a directory of the system"
    if os.path.dirname(root) in (b"/home", b"/Users"):
        return "it is a home directory"
    above = {p for h in homes for p in _upward(real(h))}
    if any(same(p) for p in above):
        return "a home directory is in it"
    import tempfile

    if same(real(os.fsencode(tempfile.gettempdir()))):
        return "it is the directory for temporary files"
    if same(os.path.dirname(stores)) or root == stores or root.startswith(stores + b"/"):
        return "it is where ckpt keeps its stores"
    if st is not None and is_mount(root):
        return "a file system is mounted there"
    return None


def refuse(root: bytes, stores: bytes, environ: Mapping[str, str] = os.environ) -> None:
    """Raise `RefusedRoot` if this directory must not become a workspace unasked.

    `root` is any spelling of it; `stores` the directory that holds all stores.
    """
    resolved = real(root)
    reason = _reason(resolved, real(stores), environ)
    if reason is not None:
        raise RefusedRoot(
            f"{show(resolved)} is not taken as a workspace: {reason}",
            kept="nothing was written",
            next=("cd into a project, or --force-root if you mean it",),
        )


def never_climb_to(path: bytes, environ: Mapping[str, str] = os.environ) -> bool:
    """May a search that started below never take this directory? A home, what holds one, a directory of the system."""
    reason = _reason(path, b"/nowhere/at/all", environ)
    return reason is not None and reason != "a file system is mounted there"


def _upward(path: bytes) -> Iterator[bytes]:
    while path != b"/":
        path = os.path.dirname(path)
        yield path


class Survey(NamedTuple):
    """How many entries a tree holds. `complete` is False when counting stopped early: there are more."""

    entries: int
    complete: bool
    largest: tuple[tuple[bytes, int], ...]  # directories with the most entries seen below them


def survey(root: bytes, ignored: Callable[[bytes, bool], bool], *, stop: int = 50_000, names: int = 3) -> Survey:
    """Count what a first checkpoint would read, widest level first, and stop after `stop` entries.

    `ignored(path, is_dir)` is asked for every path. Never raises OSError: what cannot be listed counts as empty.
    """
    counts: Counter[bytes] = Counter()
    waiting: deque[bytes] = deque([b""])
    entries = 0
    while waiting and entries <= stop:
        directory = waiting.popleft()
        top = b"/".join(directory.split(b"/")[:2])
        try:
            with os.scandir(os.path.join(root, directory) if directory else root) as found:
                for e in found:
                    path = directory + b"/" + e.name if directory else e.name
                    is_dir = e.is_dir(follow_symlinks=False)
                    if e.name == b".git" or ignored(path, is_dir):
                        continue
                    entries += 1
                    counts[top] += 1
                    if is_dir:
                        waiting.append(path)
        except OSError:
            continue
    del counts[b""]
    outer: Counter[bytes] = Counter()
    for path, n in counts.items():
        outer[path.split(b"/")[0]] += n
    largest = []
    import heapq

    for path, n in heapq.nlargest(names, outer.items(), key=lambda item: (item[1], item[0])):
        inside = [(p, m) for p, m in counts.items() if p.startswith(path + b"/") and m * 5 >= n * 4]
        largest.append(inside[0] if inside else (path, n))
    return Survey(entries, not waiting and entries <= stop, tuple(largest))


def notes(root: bytes, store: bytes) -> list[str]:
    """What a person should know about where the files and their store stand; empty while all is well."""
    found = []
    held = file_system(store)
    if held in FLEETING:
        found.append(f"the store is on {held}: it will not survive a restart of the machine")
    elif held in NETWORK:
        found.append(f"the store is on a network file system ({held}): locks and syncs may not hold there")
    worked = file_system(root)
    if worked in NETWORK:
        found.append(f"this directory is on a network file system ({worked}): changes by other hosts may be seen late")
    with contextlib.suppress(OSError):
        if stat.S_IMODE(os.stat(store).st_mode) & 0o077:
            found.append("others can read the store: its directory should have mode 0700")
    return found
