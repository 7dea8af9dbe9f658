"""The rows about hooks: CPU of `ckpt hook` beside the start of a bare interpreter, with a resident and without one.

    cd tests && python -m bench.hookrows [--files 1000] [--rounds 15] [--place DIR]

What is measured is the caller's own CPU; the resident's stands beside it. The command is started as installers of today
write it: those of a few years ago import `re` there, which takes as long as the interpreter itself: the last row.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.stage import Bench, Row
from bench.trees import make

BARE = [sys.executable, "-I", "-S", "-c", "pass"]
LAUNCHER = f"#!{sys.executable}\nimport sys\nfrom checkpointer.__main__ import main\nsys.exit(main())\n"
TICK = 1 / os.sysconf("SC_CLK_TCK")


class Agent:
    """Plays Claude Code in a tree; `env` says whether a resident is there."""

    def __init__(self, command: list[str], root: Path, env: dict[str, str]) -> None:
        self.command = command
        self.root = root
        self.env = env
        self._calls = iter(range(10**6))

    def spent(self, words: list[str], data: bytes = b"") -> float:
        """CPU seconds of one process."""
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            null = subprocess.DEVNULL
            process = subprocess.Popen(words, cwd=self.root, env=self.env, stdin=file, stdout=null, stderr=null)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{words}: {process.returncode}")
        return usage.ru_utime + usage.ru_stime

    def hook(self, event: str, **more: object) -> float:
        told = {"session_id": "bench", "cwd": str(self.root), "hook_event_name": event, **more}
        return self.spent([*self.command, "hook", "claude", event], json.dumps(told).encode())

    def turn(self, paths: list[Path]) -> Iterator[tuple[str, float]]:
        """One turn: what each of its hooks cost."""
        n = next(self._calls)
        yield "a prompt", self.hook("UserPromptSubmit", prompt=f"go {n}")
        for tool, kind in (("Bash", "a tool that writes"), ("Read", "a tool that reads")):
            call = {"tool_name": tool, "tool_input": {"command": f"{n}"}, "tool_use_id": f"{tool}{n}"}
            yield kind, self.hook("PreToolUse", **call)
            if tool == "Bash":
                with open(paths[n % len(paths)], "a") as f:
                    f.write("more\n")
            yield kind, self.hook("PostToolUse", **call, tool_response={"ok": True})
        yield "the end of a turn", self.hook("Stop", last_assistant_message="done")


def hooks(bench: Bench, count: int) -> None:
    """Rows of a tree of `count` files."""
    root = bench.place / f"hooks{count}"
    root.mkdir()
    paths = make(root, count)
    launcher = bench.place / "ckpt"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    time.sleep(2.5)  # nothing is racy any more
    for resident in (False, True):
        run = None
        env = dict(bench.env)
        if resident:
            script = 'echo "$CKPT_RESIDENT"; exec cat'
            run = subprocess.Popen(
                [str(launcher), "run", "-q", "--", "sh", "-c", script],
                cwd=root, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            assert run.stdout is not None
            env["CKPT_RESIDENT"] = run.stdout.readline().decode().strip()
        agent = Agent([str(launcher)], root, env)
        list(agent.turn(paths))  # the base is taken, and what is needed loaded
        before = _worked(run.pid) if run else 0.0
        bare, found = [], {}
        for _ in range(bench.rounds):
            bare.append(agent.spent(BARE))
            for kind, seconds in agent.turn(paths):
                found.setdefault(kind, []).append(seconds)
        where = "with a resident" if resident else f"alone, {count:,} files"
        base = statistics.median(bare)
        for kind, seconds in found.items():
            ours = statistics.median(seconds)
            mark = 1.5 if resident else 12.0
            bench.tell(Row(f"`ckpt hook` {where}: {kind} (python -I -S)", ours, base, ours / base, mark, "s of CPU"))
        if run is not None:
            each = (_worked(run.pid) - before) / bench.rounds / 6
            bench.tell(Row("the resident's work for one hook (python -I -S)", each, base, each / base, 6.0, "s of CPU"))
            old = bench.place / "old"
            old.write_text(LAUNCHER.replace("import sys\n", "import re\nimport sys\n"))
            old.chmod(0o755)
            slow = Agent([str(old)], root, env)
            ours = statistics.median(s for _ in range(bench.rounds) for k, s in slow.turn(paths) if "reads" in k)
            name = "the same, started as an old installer writes it (python -I -S)"
            bench.tell(Row(name, ours, base, ours / base, 2.5, "s of CPU"))
            run.communicate()


def _worked(pid: int) -> float:
    """CPU seconds of the children of a `ckpt run` (its resident), and of theirs (Linux)."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = re.sub(r"^.*\) ", "", stat.read_text()).split()
        except OSError:
            continue
        if fields[1] == str(pid):
            total += sum(map(int, fields[11:15])) * TICK
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--place", type=Path, default=Path(__file__).resolve().parents[2])
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix=".bench-", dir=given.place))
    try:
        hooks(Bench(place, given.rounds), given.files)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
