"""Run one command in this process and print how long a part of it took, in seconds.

python inside.py restore POINT      from the plan being known to it being cleared
python inside.py save COUNT         a save of COUNT changed files in a process that has saved before
"""

from __future__ import annotations

import os
import sys
import time


def restore(point: str) -> float:
    """The plan announced as a commit, carried out, synced, verified, the timeline moved, nothing pending any more."""
    from checkpointer.cli import app
    from checkpointer.workspace import changeover

    moments: list[float] = []
    change = changeover.Changeover
    announce, confirm = change._announce, change._confirm

    def first(self, *args):  # type: ignore[no-untyped-def]
        moments.append(time.perf_counter())
        return announce(self, *args)

    def last(self, *args):  # type: ignore[no-untyped-def]
        confirm(self, *args)
        moments.append(time.perf_counter())

    change._announce, change._confirm = first, last  # type: ignore[method-assign]
    app.run(["restore", point, "-q"])
    began, ended = moments
    return ended - began


if __name__ == "__main__":
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    took = restore(sys.argv[1])
    sys.__stdout__.write(f"{took}\n")  # type: ignore[union-attr]
