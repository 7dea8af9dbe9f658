"""Run the benchmark: each row alternates ours and git's, and prints medians and their ratio.

    cd tests && python -m bench [--files 1000 --files 10000 --files 100000] [--rounds 5] [--json FILE] [--place DIR]

Everything runs on the file system of `--place` (default: where the checkout is), which must not be a tmpfs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.trees import Baseline, change, make


@dataclass
class Row:
    """One line of the table. `ours` and `base` are medians in seconds (or what `unit` says); lower is better."""

    name: str
    ours: float
    base: float | None
    ratio: float
    mark: float
    unit: str = "s"


class Bench:
    """A place to work in, and a command line that is really started each time."""

    def __init__(self, place: Path, rounds: int) -> None:
        self.place = place
        self.rounds = rounds
        self.rows: list[Row] = []
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(place / "home"),
            "CKPT_HOME": str(place / "state"),
            "CKPT_CONFIG": str(place / "config.toml"),
        }
        (place / "home").mkdir()

    def ckpt(self, root: Path, *args: str) -> None:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "checkpointer", "-q", *args], cwd=root, env=self.env, capture_output=True
        )
        if done.returncode:
            raise SystemExit(f"ckpt {args}: {done.stderr.decode()}")

    def forget(self) -> None:
        shutil.rmtree(self.place / "state", ignore_errors=True)

    def pair(
        self,
        name: str,
        mark: float,
        ours: Callable[[], object],
        base: Callable[[], object],
        before_ours: Callable[[], object] = lambda: None,
        before_base: Callable[[], object] = lambda: None,
    ) -> None:
        """Time both alternately, each after its preparation."""
        mine, theirs = [], []
        for _ in range(self.rounds):
            before_base()
            theirs.append(timed(base))
            before_ours()
            mine.append(timed(ours))
        row = Row(name, statistics.median(mine), statistics.median(theirs), 0.0, mark)
        row.ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
        self.tell(row)

    def tell(self, row: Row) -> None:
        self.rows.append(row)
        base = "" if row.base is None else f"{row.base:9.3f} {row.unit}"
        print(f"{row.name:58} {row.ours:9.3f} {row.unit} {base:12} {row.ratio:7.2f}  (<= {row.mark})", flush=True)


def timed(work: Callable[[], object]) -> float:
    os.sync()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


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

    if count <= 10_000:
        bench.pair(
            f"first checkpoint, {count:,} files, fresh process",
            0.3,
            lambda: bench.ckpt(root, "save"),
            lambda: git.checkpoint(),
            bench.forget,
            new_git,
        )
    else:
        bench.ckpt(root, "save")
        git.checkpoint()
    stamp = iter(range(10**6))

    def edit() -> None:
        change([paths[next(stamp) % len(paths)]], "one more")

    bench.ckpt(root, "save")
    name = f"checkpoint after 1 change, full scan, {count:,} files"
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
    bench.pair(f"ckpt undo of 500 files in {count:,}", 2.5, lambda: bench.ckpt(root, "undo"), git.add, agent)


def restore(bench: Bench, root: Path, paths: list[Path], git: Baseline) -> None:
    """A whole `ckpt restore` of 500 files, beside `git read-tree -u --reset`."""
    some = paths[:: len(paths) // 500][:500]
    bench.ckpt(root, "save", "-m", "before-restores")
    first = git.checkpoint()

    def spoil() -> None:
        change(some, "spoilt")

    def spoil_git() -> None:
        change(some, "spoilt")
        git.add()

    bench.pair(
        "ckpt restore of 500 files in 10,000, fresh process, scan included",
        4.0,
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
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "checkpointer", "-q", "save"], cwd=root, env=bench.env, start_new_session=True
    )
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, action="append", help="sizes of the trees")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--place", type=Path, default=Path(__file__).resolve().parents[2])
    given = parser.parse_args()
    sizes = given.files or [1_000, 10_000, 100_000]
    place = Path(tempfile.mkdtemp(prefix=".bench-", dir=given.place))
    bench = Bench(place, given.rounds)
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, medians of {given.rounds}"
    )
    try:
        for count in sizes:
            files(bench, count)
        if sys.platform == "linux":
            memory(bench, max(sizes))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if given.json:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        record = {"platform": platform.platform(), "cores": os.cpu_count(), "cpu_seconds": usage.ru_utime}
        given.json.write_text(json.dumps({**record, "rows": [asdict(row) for row in bench.rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
