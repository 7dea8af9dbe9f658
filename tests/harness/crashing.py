"""Killing an operation before its n-th durable verb, each time on a fresh copy."""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path

from checkpointer import disk
from harness.machine import SLOW


def killed_everywhere(source: Path, run: Callable[[Path], None], check: Callable[[Path], None]) -> int:
    """`check` what each kill of `run` leaves of a copy of `source`, and what it leaves unkilled. How many verbs it has.

    At every verb with CKPT_SLOW=1, else at every third.
    """
    for n in range(0, 400, 1 if SLOW else 3):
        place = source.parent / "copy"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(source, place, symlinks=True)
        child = os.fork()
        if child == 0:
            left = n

            def stop(verb: str, path: object) -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    os._exit(9)

            try:
                disk.probe = stop
                run(place)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 9), f"failed by itself at verb {n}"
        check(place)
        if status == 0:
            return n
    raise AssertionError("never done")
