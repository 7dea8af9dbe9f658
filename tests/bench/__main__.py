"""Run the benchmark: each row alternates ours and git's, and prints medians and their ratio.

    cd tests && python -m bench [--files 1000 --files 10000 --files 100000] [--rounds 5] [--json FILE] [--place DIR]
                                [--readme]

Everything runs on the file system of `--place` (default: where the checkout is), which must not be a tmpfs. `--readme`
writes the table into README.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench import filerows, hookrows, table
from bench.stage import Bench

TOP = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, action="append", help="sizes of the trees")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long", action="store_true", help="also rows that take minutes a round")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--place", type=Path, default=TOP)
    parser.add_argument("--readme", action="store_true")
    given = parser.parse_args()
    sizes = given.files or [1_000, 10_000, 100_000]
    place = Path(tempfile.mkdtemp(prefix=".bench-", dir=given.place))
    bench = Bench(place, given.rounds, long=given.long)
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, medians of {given.rounds}"
    )
    try:
        for count in sizes:
            filerows.files(bench, count)
        if sys.platform == "linux":
            filerows.memory(bench, max(sizes))
            hookrows.hooks(bench, min(sizes))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if given.json:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        record = {"platform": platform.platform(), "cores": os.cpu_count(), "cpu_seconds": usage.ru_utime}
        given.json.write_text(json.dumps({**record, "rows": [asdict(row) for row in bench.rows]}, indent=1) + "\n")
    if given.readme:
        table.write(TOP / "README.md", bench.rows)


if __name__ == "__main__":
    main()
