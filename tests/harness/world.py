"""One workspace with a private home, store and environment, driven through the real command line."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.machine import command
from harness.manifest import Manifest, same, untouched
from harness.starting import Started, start

AnyPath = str | bytes
TEMPORARY = b".ckpt-"


def path_of(value: Any) -> bytes:
    """A path of a JSON answer as bytes."""
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode()


def paths_of(values: Sequence[Any]) -> set[bytes]:
    return {path_of(v["path"] if isinstance(v, dict) and "path" in v else v) for v in values}


@dataclass
class Result:
    """One finished command."""

    args: tuple[AnyPath, ...]
    status: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode("utf-8", "backslashreplace")

    @property
    def err(self) -> str:
        return self.stderr.decode("utf-8", "backslashreplace")

    @property
    def text(self) -> str:
        return self.out + self.err

    @cached_property
    def json(self) -> dict[str, Any]:
        return json.loads(self.stdout)

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.split(b"\n") if line]

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]

    def __str__(self) -> str:
        words = " ".join(os.fsdecode(a) for a in self.args)
        return f"ckpt {words}\n-> {self.status}\nstdout: {self.out[-3000:]}\nstderr: {self.err[-3000:]}"


class World:
    """`root` is the workspace; everything else a command may read or write lies beside it below `base`.

    After each command these hold, whatever its exit status: it printed no traceback, it left no temporary file in the
    workspace, and nothing below any `.git` in the workspace has another byte, mode, inode or mtime (`run` may be told
    that its child does so). `sound` runs `git fsck --strict` over every store.
    """

    def __init__(self, base: Path, uid: int | None = None, root: Path | None = None, state: Path | None = None) -> None:
        self.base = base
        self.uid = uid
        self.root = root or base / "w"
        self.home = base / "home"
        self.state = state or base / "state"
        self.damaged = False
        """Set by a test that damages the store on purpose: no fsck at its end."""
        self.watch_git = True
        for directory in (self.root, self.home, self.state, base / "run", base / "tmp"):
            directory.mkdir(exist_ok=True)
        (base / "run").chmod(0o700)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CKPT_HOME": str(self.state),
            "CKPT_CONFIG": str(self.home / ".config/ckpt/config.toml"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_STATE_HOME": str(self.home / ".local/state"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "XDG_DATA_HOME": str(self.home / ".local/share"),
            "XDG_RUNTIME_DIR": str(base / "run"),
            "TMPDIR": str(base / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "CKPT": f"{sys.executable} -P -m checkpointer",
        }
        self.gitconfig("[user]\n\tname = A User\n\temail = user@example.org\n[init]\n\tdefaultBranch = main\n")
        self.own()

    # --- the user's hands -------------------------------------------------------------------------------------------

    def at(self, path: AnyPath) -> bytes:
        return os.path.join(os.fsencode(self.root), os.fsencode(path))

    def write(self, path: AnyPath, data: AnyPath = b"", mode: int | None = None) -> None:
        """Set a file's bytes in place, making directories above it."""
        full = self.at(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            os.chmod(full, mode)
        if self.uid is not None:
            self.own()

    def read(self, path: AnyPath) -> bytes:
        with open(self.at(path), "rb") as f:
            return f.read()

    def rm(self, *paths: AnyPath) -> None:
        for path in paths:
            full = self.at(path)
            if os.path.isdir(full) and not os.path.islink(full):
                shutil.rmtree(full)
            else:
                os.unlink(full)

    def has(self, path: AnyPath) -> bool:
        return os.path.lexists(self.at(path))

    def sh(self, script: str, *, cwd: Path | None = None, ok: bool = True, env: Mapping[str, str] | None = None) -> str:
        """The user at a shell."""
        done = subprocess.run(
            ["sh", "-euc", script],
            cwd=cwd or self.root,
            env={**self.env, **(env or {})},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            **self._identity(),
        )
        if ok:
            assert done.returncode == 0, f"{script}\n{done.stdout!r}\n{done.stderr!r}"
        return done.stdout.decode("utf-8", "backslashreplace")

    def gitconfig(self, text: str) -> None:
        """Add to the user's global git configuration."""
        with (self.home / ".gitconfig").open("a") as f:
            f.write(text)

    def own(self) -> None:
        """Give everything below `base` to the world's user."""
        if self.uid is None:
            return
        for directory, directories, files in os.walk(os.fsencode(self.base)):
            for name in (b"", *directories, *files):
                os.chown(
                    os.path.join(directory, name) if name else directory, self.uid, self.uid, follow_symlinks=False
                )

    def _identity(self) -> dict[str, Any]:
        if self.uid is None or self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.uid, "extra_groups": []}

    # --- what stands there ------------------------------------------------------------------------------------------

    def files(self) -> Manifest:
        """The workspace without anything below a `.git`."""
        return Manifest.of(self.root, skip=(b".git",))

    def git(self) -> Manifest:
        """Everything below each `.git` of the workspace, and nothing else."""
        if not self.root.is_dir():
            return Manifest()
        whole = Manifest.of(self.root)
        return Manifest({p: n for p, n in whole.items() if b".git" in p.split(b"/")})

    def stores(self) -> list[Path]:
        return sorted(self.state.glob("workspaces/*/shadow.git"))

    @property
    def store(self) -> Path:
        """The directory of the only workspace's store."""
        (only,) = self.stores()
        return only.parent

    def shadow(self, *args: str, store: Path | None = None) -> str:
        """git on the store, with no configuration but the store's own."""
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(store or self.store / "shadow.git"), *args],
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8"},
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"git {args}: {done.stdout[-2000:]!r} {done.stderr[-2000:]!r}"
        return done.stdout.decode("utf-8", "backslashreplace")

    def sound(self) -> None:
        """Every store passes git's strict check."""
        for store in self.stores():
            self.shadow("fsck", "--strict", "--no-dangling", "--no-progress", store=store)

    def leftovers(self) -> list[bytes]:
        found = []
        for directory, directories, files in os.walk(os.fsencode(self.root)):
            found += [os.path.join(directory, n) for n in (*directories, *files) if n.startswith(TEMPORARY)]
        return [f for f in found if not f.endswith(b".ckptignore") and f != os.fsencode(self.state)]

    # --- the command line -------------------------------------------------------------------------------------------

    def words(
        self, args: Sequence[AnyPath], env: Mapping[str, str | None] | None
    ) -> tuple[list[AnyPath], dict[str, str]]:
        start, further = command(self.uid)
        merged: dict[str, str] = {**self.env, **further}
        for key, value in (env or {}).items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        return [*start, *args], merged

    def popen(
        self,
        *args: AnyPath,
        cwd: Path | None = None,
        env: Mapping[str, str | None] | None = None,
        afresh: bool = False,
        **more: Any,
    ) -> subprocess.Popen[bytes] | Started:
        """Start a command in a process group of its own; nothing is checked. `afresh`: by an interpreter of its own."""
        words, environment = self.words(args, env)
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        identity = {} if words[0] == "unshare" else self._identity()
        if words[0] == sys.executable and not identity and not afresh:
            return start(words[2:], environment, cwd or self.root, **more)
        return subprocess.Popen(
            words, cwd=cwd or self.root, env=environment, start_new_session=True, **identity, **more
        )

    def ckpt(
        self,
        *args: AnyPath,
        ok: int | tuple[int, ...] | None = 0,
        input: bytes | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str | None] | None = None,
        changes_git: bool = False,
        cut_short: bool = False,
        timeout: float = 120,
        **more: Any,
    ) -> Result:
        """Run one command to its end. `ok` is the exit status expected, several, or None for any.

        `cut_short`: an operation was killed before, and this command only looks, so temporary files may be there.
        """
        watch = self.watch_git and not changes_git and self.root.is_dir()
        before = self.git() if watch else Manifest()
        if input is not None:
            more["stdin"] = subprocess.PIPE
        with self.popen(*args, cwd=cwd, env=env, **more) as process:
            try:
                out, err = process.communicate(input, timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                raise AssertionError(f"still at work after {timeout} s: {Result(args, -9, out, err)}") from None
        result = Result(args, process.returncode, out or b"", err or b"")
        assert b"Traceback" not in result.stderr + result.stdout, str(result)
        assert b"failed unexpectedly" not in result.stderr + result.stdout, str(result)
        if ok is not None:
            allowed = (ok,) if isinstance(ok, int) else ok
            assert result.status in allowed, f"expected {allowed}: {result}"
        if watch:
            after = self.git()
            same(before, after)
            untouched(before, after, set())
        assert cut_short or not self.leftovers(), f"temporary files left: {self.leftovers()} by {result}"
        return result

    def killed(self, *args: AnyPath, after: float) -> int:
        """Start a command and send it a SIGKILL that long after it took the workspace; how it ended."""
        with self.popen(*args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            self.at_work(process)
            time.sleep(after)
            process.kill()
            return process.wait()

    def at_work(self, process: Started | subprocess.Popen[bytes]) -> None:
        """Wait until the command holds the workspace, or has ended: before that it may still be starting."""
        mine = f"{process.pid} "
        while process.poll() is None:
            if any(lock.read_text(errors="replace").startswith(mine) for lock in self.state.glob("workspaces/*/lock")):
                return
            time.sleep(0.002)

    def step(self, script: str, *, ok: int | tuple[int, ...] | None = 0, **more: Any) -> Result:
        """One turn of an agent without hooks: `ckpt run -- sh -c SCRIPT`."""
        more.setdefault("changes_git", "git " in script)
        return self.ckpt("run", "--", "sh", "-euc", script, ok=ok, **more)

    def save(self, *args: AnyPath, **more: Any) -> int:
        """`ckpt save`; the number of the checkpoint that holds the present files."""
        number = self.ckpt("save", "--json", *args, **more).json["checkpoint"]
        assert isinstance(number, int)
        return number

    def go(self, verb: str, *args: AnyPath, to: Manifest | None = None, ok: int = 0, **more: Any) -> Result:
        """undo, redo or restore, held to what it promises.

        Done (0): the files are exactly `to`, only paths that differ were touched, and the answer names these. Any other
        status: not a byte, mode, inode or mtime of the workspace has changed.
        """
        before = self.files() if self.root.is_dir() else Manifest()
        result = self.ckpt(verb, "--json", *args, ok=ok, **more)
        now = self.files()
        changed = before.differing(now)
        options = args[: args.index("--")] if "--" in args else args
        if ok != 0 or "-n" in options:
            same(before, now)
            untouched(before, now, set())
            return result
        if to is not None:
            same(to, now)
        untouched(before, now, changed)
        answer = result.json
        named = paths_of(answer["written"]) | paths_of(answer["removed"]) | paths_of(answer["merged"])
        # A file that gave way to a folder is named by what came to stand in the folder.
        plain = {
            p
            for p in changed
            if {m[p].kind for m in (before, now) if p in m} - {"dir"} and not any(n.startswith(p + b"/") for n in named)
        }
        assert plain <= named, f"changed without being named: {sorted(plain - named)}\n{result}"
        idle = {p for p in named - changed if (p in now and now[p].kind != "dir")}
        assert not idle, f"named without having changed: {sorted(idle)}\n{result}"
        return result


MEMORY = "/dev/shm"
ENOUGH = 1 << 28


def memory() -> str | None:
    """A directory in memory where there is room: what a killed process wrote survives it there too; syncs are free."""
    if not os.access(MEMORY, os.W_OK):
        return None
    place = os.statvfs(MEMORY)
    return MEMORY if place.f_bavail * place.f_frsize >= ENOUGH else None


def make_world(*, in_memory: bool = False, **more: Any) -> World:
    """A world in a fresh directory that other users can walk through. `in_memory`: for thousands of files often."""
    base = Path(tempfile.mkdtemp(prefix="ckpt-world-", dir=memory() if in_memory else None))
    base.chmod(0o755)
    return World(base, **more)


def drop_world(world: World) -> None:
    shutil.rmtree(world.base, ignore_errors=True)
    if world.base.exists():  # a path longer than the system takes at once
        subprocess.run(["rm", "-rf", str(world.base)], check=False)
