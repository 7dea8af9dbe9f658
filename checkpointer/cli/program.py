"""One call of `ckpt` from its words to its exit status: no traceback leaves it, and every end has its status."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # what stands at the top here, every hook of an agent pays for
if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
UNREAD = 141
"""The status of a program that a broken pipe ended, as a shell gives it."""


def main(words: Sequence[str]) -> int:
    """Answer one call and return its exit status. What it prints is written when this returns."""
    try:
        status = _answer(list(words))
        sys.stdout.flush()
    except BrokenPipeError:
        hush()
        return UNREAD
    except KeyboardInterrupt:
        return interrupted()
    except OSError as e:  # of stdout itself: all else was answered further in
        hush()
        print(f"the answer could not be written: {e.strerror or e}", file=sys.stderr)
        return 1
    return status


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


def hush() -> None:
    """Nobody reads stdout any more: keep the interpreter from complaining when it flushes at its end."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.close(sink)


def interrupted() -> int:
    """Say that Ctrl-C ended it; the exit status."""
    try:
        sys.stdout.flush()
    except OSError:
        hush()
    print("interrupted", file=sys.stderr)
    return INTERRUPTED
