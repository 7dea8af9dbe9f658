"""Runs transcripts: commands and what they print, side by side, as a person sees them.

A line `$ COMMAND` is run in the workspace; what follows is its stdout, lines of stderr behind `! `, then `[3]` if it
ended with 3. `ckpt` runs in a forked child of this process, everything else in `sh`. Two words make turns without an
agent: `step t3.1 r7 SCRIPT` and `turn t3 r7 SCRIPT`. Ages, times, ids, sizes and directories are normalised.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any


@dataclass
class Done:
    status: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode("utf-8", "backslashreplace")

    @property
    def err(self) -> str:
        return self.stderr.decode("utf-8", "backslashreplace")


def in_child(function: Any, *, cwd: Path, env: Mapping[str, str], stdin: bytes = b"") -> Done:
    """Call a function in a forked child with these streams; its result is the exit status."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        child = os.fork()
        if child == 0:
            status = 99
            try:
                os.chdir(cwd)
                os.environ.clear()
                os.environ.update(env)
                for fd, file in enumerate((given, out, err)):
                    os.dup2(file.fileno(), fd)
                streams = [open(fd, mode, closefd=False) for fd, mode in ((0, "rb"), (1, "wb"), (2, "wb"))]  # noqa: SIM115
                sys.stdin, sys.stdout, sys.stderr = (TextIOWrapper(s, encoding="utf-8") for s in streams)  # type: ignore[type-var]
                status = function()
                sys.stdout.flush()
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, waited = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return Done(os.waitstatus_to_exitcode(waited), out.read(), err.read())


def without_agents(path: str, place: Path) -> str:
    """A PATH that reaches everything but agent programs; directories that hold some are shown as links."""
    from checkpointer.agents.recipes.catalogue import RECIPES

    agents = {p for r in RECIPES.values() for p in r.programs}
    shown = []
    for n, directory in enumerate(path.split(os.pathsep)):
        if not any(os.path.lexists(os.path.join(directory, a)) for a in agents):
            shown.append(directory)
            continue
        links = place / f"path-{n}"
        links.mkdir(exist_ok=True)
        for name in set(os.listdir(directory)) - agents - set(os.listdir(links)):
            (links / name).symlink_to(os.path.join(directory, name))
        shown.append(str(links))
    return os.pathsep.join(shown)


class Shell:
    """A workspace `w`, a home and a store below one directory, and a way to type commands there."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "home" / "w"
        self.root.mkdir(parents=True, exist_ok=True)
        self.env = {
            "PATH": without_agents(os.environ["PATH"], base),
            "HOME": str(base / "home"),
            "CKPT_HOME": str(base / "state"),
            "CKPT_CONFIG": str(base / "config.toml"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TZ": "UTC",
            "SHOP": str(Path(__file__).parent),
            "LOGS": str(Path(__file__).parents[2] / "fixtures" / "logs"),
        }

    def ckpt(self, *words: str | bytes, stdin: bytes = b"", cwd: Path | None = None, **env: str) -> Done:
        from checkpointer.__main__ import main

        args = [w if isinstance(w, str) else os.fsdecode(w) for w in words]
        return in_child(lambda: main(args), cwd=cwd or self.root, env={**self.env, **env}, stdin=stdin)

    def sh(self, script: str) -> Done:
        done = subprocess.run(["sh", "-euc", script], cwd=self.root, env=self.env, capture_output=True)
        return Done(done.returncode, done.stdout, done.stderr)

    def work(self, handle: str, run: str, script: str) -> Done:
        """What an agent does: the present is captured, the script runs, its end is a checkpoint."""

        def act() -> int:
            from checkpointer import home

            workspace = home.make(os.getcwdb())
            workspace.save(kind="outside")
            status = subprocess.run(["sh", "-euc", script]).returncode
            kind: Any = "step" if "." in handle else "turn"
            workspace.save(kind=kind, runs=(run,), steps=(handle,), by="agent")
            return status

        return in_child(act, cwd=self.root, env=self.env)

    def type(self, line: str) -> Done:
        """Run one line of a transcript; `BASE` in it is the directory that holds everything."""
        line = line.replace("BASE", str(self.base))
        words = shlex.split(line)
        env = dict(w.split("=", 1) for w in words[:1] if re.match("[A-Z_]+=", w))
        words = words[len(env) :]
        if words[0] == "ckpt" and not re.search(r"[|;&<>]", line):
            return self.ckpt(*words[1:], **env)
        if words[0] in ("step", "turn"):
            return self.work(words[1], words[2], words[3])
        line = re.sub(r"(?<![\w/])ckpt\b", f"{sys.executable} -P -m checkpointer", line)
        return self.sh(re.sub(r"\bpython\b(?! -P)", sys.executable, line))


def normalised(text: str, base: Path) -> str:
    """What differs from run to run, in one form."""
    text = text.replace(str(base), "BASE").replace(sys.executable, "python")
    text = re.sub(r"( {2,})(\d+ (?:s|min))\b", lambda m: " " * (len(m[1]) + len(m[2]) - 3) + "0 s", text)  # in a column
    text = re.sub(r"\b\d+ (s|min)\b", "0 s", text)
    text = re.sub(r"\b\d\d:\d\d(:\d\d)?\b", lambda m: "12:00:00" if m[1] else "12:00", text)
    text = re.sub(r"\b[0-9a-f]{40}\b", "ID", text)
    text = re.sub(r"\b(events\.)[0-9a-f]{8}\b", r"\1ID", text)
    text = re.sub(r"-[0-9a-f]{16}\b", "-HASH", text)
    text = re.sub(r"\b[0-9a-f]{32}\b", "KEY", text)
    text = re.sub(r"\b[0-9a-f]{8}\b", "KEY8", text)
    text = re.sub(r'("(?:\w+_ms|median|longest)": )[\d.]+', r"\g<1>9", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\b[\d.]+ (KB|MB)\b", "9 KB", text)
    text = re.sub(r"checked \d[\d, a-z]+", "checked FILES", text)
    text = re.sub(r'"checked": \{[^}]*\}', '"checked": FILES', text)
    return re.sub(r'("store_bytes": )\d+', r"\g<1>9", text)


def answer(done: Done, base: Path) -> str:
    lines = [line.rstrip() for line in normalised(done.out, base).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    lines += [f"! {line.rstrip()}" for line in normalised(done.err, base).split("\n") if line]
    if done.status:
        lines.append(f"[{done.status}]")
    return "".join(line + "\n" for line in lines)


def play(text: str, base: Path) -> str:
    """The transcript as it comes out now."""
    shell = Shell(base)
    out = []
    for line in text.split("\n"):
        if line.startswith("$ "):
            out.append(line + "\n" + answer(shell.type(line[2:]), base))
        elif line.startswith("#") and not any(o.startswith("$ ") for o in out):  # below, it is output
            out.append(line + "\n")
    return "".join(out)
