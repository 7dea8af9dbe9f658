"""The rows about files: checkpoints, undo, restore, growth, memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from bench.stage import Bench, Row
from bench.trees import Baseline, change, make, own_git


def files(bench: Bench, count: int) -> None:
    """Every row about a tree of `count` files."""
    root = bench.place / f"tree{count}"
    root.mkdir()
    paths = make(root, count)
    time.sleep(2.5)  # nothing is racy any more
    git = Baseline(root, bench.place / f"git{count}")
    fresh = iter(range(10**6))

    def new_git() -> None:
        nonlocal git
        git = Baseline(root, bench.place / f"git{count}-{next(fresh)}")

    if count <= 10_000 or bench.long:
        bench.pair(
            f"first checkpoint of {count:,} files",
            0.3,
            lambda: bench.ckpt(root, "save"),
            lambda: git.checkpoint(),
            bench.forget,
            new_git,
        )
        own_git(root)
        bench.pair(
            f"first checkpoint of {count:,} files, project with its own git",
            0.2,
            lambda: bench.ckpt(root, "save"),
            lambda: git.checkpoint(),
            bench.forget,
            new_git,
        )
        shutil.rmtree(root / ".git")
    else:
        bench.ckpt(root, "save")
        git.checkpoint()
    stamp = iter(range(10**6))

    def edit() -> None:
        change([paths[next(stamp) % len(paths)]], "one more")

    bench.ckpt(root, "save")
    name = f"checkpoint after 1 change in {count:,} files, full scan"
    mark = 1.5 if count >= 100_000 else 4.0
    bench.pair(name, mark, lambda: bench.ckpt(root, "save"), lambda: git.checkpoint(), edit, edit)
    if count >= 10_000:
        undo(bench, root, paths, git, count)
    if count == 10_000:
        restore(bench, root, paths, git)
        growth(bench, root, paths)


def undo(bench: Bench, root: Path, paths: list[Path], git: Baseline, count: int) -> None:
    """A whole `ckpt undo` of a turn that changed 500 files, beside a no-change add and write-tree."""
    some = [str(p) for p in paths[:: len(paths) // 500][:500]]
    script = "for f in sys.argv[1:]: open(f, 'a').write('# agent\\n')"

    def agent() -> None:
        bench.ckpt(root, "run", "--", sys.executable, "-c", f"import sys\n{script}", *some)

    git.add()
    bench.pair(
        f"`ckpt undo` of 500 files in {count:,} (git: a no-change add and write-tree)",
        2.5,
        lambda: bench.ckpt(root, "undo"),
        git.add,
        agent,
    )


def restore(bench: Bench, root: Path, paths: list[Path], git: Baseline) -> None:
    """500 files restored, beside `git read-tree -u --reset`: from plan to cleared plan, and the whole command."""
    some = paths[:: len(paths) // 500][:500]
    bench.ckpt(root, "save", "-m", "before-restores")
    first = git.checkpoint()

    def spoil() -> None:
        change(some, "spoilt")

    def spoil_git() -> None:
        change(some, "spoilt")
        git.add()

    inside = str(Path(__file__).with_name("inside.py"))
    bench.pair(
        "restore of 500 files in 10,000, plan to cleared plan (git read-tree -u --reset)",
        1.5,
        lambda: float(bench.python(root, inside, "before-restores")),
        lambda: git.reset(first),
        spoil,
        spoil_git,
    )
    bench.pair(
        "the whole `ckpt restore`, start and scan included (the same)",
        8.0,
        lambda: bench.ckpt(root, "restore", "before-restores"),
        lambda: git.reset(first),
        spoil,
        spoil_git,
    )


def growth(bench: Bench, root: Path, paths: list[Path]) -> None:
    """Bytes the store grows by with each one-file checkpoint."""
    (store,) = (bench.place / "state" / "workspaces").glob(f"{root.name}-*")
    before = size(store / "shadow.git")
    for i in range(20):
        change([paths[i * 7]], "growth")
        bench.ckpt(root, "save")
    each = (size(store / "shadow.git") - before) / 20 / 1024
    bench.tell(Row("store growth of a 1-file checkpoint in 10,000 files", each, None, each / 15, 1.0, "KB"))


def memory(bench: Bench, count: int) -> None:
    """The largest sum over the process group while a first checkpoint is taken."""
    root = bench.place / f"tree{count}"
    bench.forget()
    process = subprocess.Popen([*bench.command, "save", "-q"], cwd=root, env=bench.env, start_new_session=True)
    most = 0.0
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.02):
            most = max(most, group_memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.wait()
    done.set()
    watcher.join()
    bench.tell(Row(f"memory of a first checkpoint of {count:,} files", most, None, most / 300, 1.0, "MB"))


def group_memory(leader: int) -> float:
    """Megabytes: the proportional share of every process in the group (Linux)."""
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.getpgid(int(entry.name)) != leader:
                continue
            text = (entry / "smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in text.split("\n") if line.startswith("Pss:")), 0)
    return total / 1024


def size(directory: Path) -> int:
    return sum(p.stat().st_size for p in directory.rglob("*") if p.is_file())
