"""The command `ckpt`, and `python -m checkpointer`: no traceback leaves it, and every end has its exit status."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # what stands at the top here, every hook of an agent pays for
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

INTERRUPTED = 130
UNREAD = 141
"""The status of a program that a broken pipe ended, as a shell gives it."""


def main(args: Sequence[str] | None = None) -> int:
    """Answer one call and return its exit status. As the program itself (`args` is None), a hook ends here."""
    words = list(sys.argv[1:] if args is None else args)
    if sys.platform == "win32":
        print("ckpt runs on Linux and macOS; on Windows use it inside WSL 2", file=sys.stderr)
        return 1
    _open_streams()
    if words in (["--version"], ["version"]):
        from checkpointer import version

        print(f"ckpt {version()}")
        return 0
    try:
        status = _answer(words)
        sys.stdout.flush()
    except BrokenPipeError:
        _hush()
        return UNREAD
    except KeyboardInterrupt:
        _hush_on_error()
        return INTERRUPTED
    except OSError as e:  # of stdout itself: all else was answered further in
        _hush()
        print(f"the answer could not be written: {e.strerror or e}", file=sys.stderr)
        return 1
    if args is None and words[:1] == ["hook"]:
        _end(status)
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


def _answer(words: list[str]) -> int:
    if words == ["status", "--short"]:  # a shell prompt asks this each time: no click, no scan
        from checkpointer.cli.prompt import short

        return short()
    if words[:1] == ["hook"] and not {"--help", "-h"}.intersection(words[1:2]):  # agents call it at each step
        from checkpointer.cli.hooking import hook

        return hook(words[1:])
    from checkpointer.cli import failure, quick
    from checkpointer.errors import CheckpointerError

    as_json = failure.wants_json(words)
    try:
        status = quick.answer(words)
        return _parsed(words, as_json=as_json) if status is None else status
    except CheckpointerError as e:
        return failure.report(e, as_json=as_json)
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] == "checkpointer":
            raise
        print(f"ckpt is not installed as a whole: {e.name} is missing", file=sys.stderr)
        print("next: install agent-checkpointer again, with what it depends on", file=sys.stderr)
        return 1
    except Exception as e:
        if os.environ.get("CKPT_DEBUG") not in (None, "", "0"):
            raise
        if isinstance(e, OSError) and e.errno is not None:
            with_path = f"{e.strerror}: {e.filename!r}" if e.filename else str(e.strerror)
            from checkpointer.errors import Failed, NoSpace

            kind = NoSpace if e.errno in (28, 122) else Failed
            return failure.report(kind(with_path, kept="what checkpoints hold is untouched"), as_json=as_json)
        return failure.unexpected(e, as_json=as_json)


def _parsed(words: list[str], *, as_json: bool) -> int:
    import click

    from checkpointer.cli import app, failure

    try:
        return app.run(words)
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as e:
        context = getattr(e, "ctx", None)
        following = [f"{context.command_path} --help"] if context is not None else ["ckpt --help"]
        return failure.usage(e.format_message(), as_json=as_json, following=following)


def _hush() -> None:
    """Nobody reads stdout any more: keep the interpreter from complaining when it flushes at its end."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.close(sink)


def _hush_on_error() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _hush()
    print("interrupted", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
