"""The command `ckpt`, and `python -m checkpointer`."""

from __future__ import annotations

import os
import sys

from checkpointer import errand

TYPE_CHECKING = False  # what stands at the top here, every hook of an agent pays for
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(args: Sequence[str] | None = None) -> int:
    """Answer one call and return its exit status. As the program itself (no `args`), a hook and a save end here."""
    words = list(sys.argv[1:] if args is None else args)
    if sys.platform == "win32":
        print("ckpt runs on Linux and macOS; on Windows use it inside WSL 2", file=sys.stderr)
        return 1
    _open_streams()
    if words in (["--version"], ["version"]):
        from checkpointer import version

        print(f"ckpt {version()}")
        return 0
    status = _carried(words)
    if status is None:
        from checkpointer.cli.program import main as answer

        status = answer(words)
    if args is None and words[:1] in (["hook"], ["save"]):
        _end(status)
    return status


def _carried(words: list[str]) -> int | None:
    """Have the resident of the run around us answer, where there is one: the exit status, or None."""
    try:
        told = errand.told(words)
    except KeyboardInterrupt:
        from checkpointer.cli.program import interrupted

        return interrupted()
    if told is None:
        return None
    status, printed = told
    try:
        sys.stdout.buffer.write(printed)
        sys.stdout.flush()
    except OSError:  # nobody reads what a hook says
        from checkpointer.cli.program import hush

        hush()
    return status


def _end(status: int) -> NoReturn:
    """End at once: taking an interpreter apart takes a while. stdout is written."""
    try:
        sys.stderr.flush()
    finally:
        os._exit(status)


def _open_streams() -> None:
    """Where one of the three streams is closed, nothing goes there; a file we open must not take its number."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, "r" if fd == 0 else "w", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    sys.exit(main())
