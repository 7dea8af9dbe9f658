"""What a failure looks like: message, what was kept, what to type next; or the JSON document; and the exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from checkpointer.errors import CheckpointerError


def wants_json(args: Sequence[str]) -> bool:
    """Did the call ask for JSON? Asked of the raw words, since the parse itself may have failed."""
    own = args[: args.index("--")] if "--" in args else args
    return "--json" in own


def error_document(code: str, message: str, kept: str, following: Sequence[str], status: int, **more: Any) -> str:
    error = {"code": code, "message": message, "kept": kept, "next": list(following), "exit": status}
    return json.dumps(
        {"schema": 1, "error": {**error, **{k: v for k, v in more.items() if k not in error}}}, default=str
    )


def report(error: CheckpointerError, *, as_json: bool) -> int:
    """Print one of our errors; its exit status."""
    if as_json:
        _out(error_document(error.code, error.message, error.kept, error.next, error.exit, **error.details))
        return error.exit
    _err(error.message)
    for conflict in error.details.get("conflicts") or ():
        _err("  " + conflict_line(conflict))
    if error.kept:
        _err(f"kept: {error.kept}")
    for i, command in enumerate(error.next):
        _err(("next: " if i == 0 else "      ") + command)
    return error.exit


def conflict_line(conflict: Any) -> str:
    from checkpointer.cli.phrase import lines, shell
    from checkpointer.workspace.entry import from_json

    path = conflict["path"]
    name = shell(path if isinstance(path, bytes) else from_json(path))
    words = [lines(conflict.get("lines")), conflict.get("by") or ""]
    return f"{name}   " + ", ".join(w for w in words if w)


def usage(message: str, *, as_json: bool, following: Sequence[str] = ("ckpt --help",)) -> int:
    """Print a mistake in the words of the call; 2."""
    if as_json:
        _out(error_document("usage", message, "nothing was written", following, 2))
    else:
        _err(message)
        for command in following:
            _err(f"next: {command}")
    return 2


def unexpected(error: BaseException, *, as_json: bool) -> int:
    """Print what should not have happened, on one line; 1."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    message = f"ckpt failed unexpectedly ({what[:300]})"
    again = "CKPT_DEBUG=1 and the same command shows where; please report that"
    if as_json:
        _out(error_document("unexpected", message, "what checkpoints hold is untouched", [again], 1))
    else:
        _err(message)
        _err("kept: what checkpoints hold is untouched")
        _err(f"next: {again}")
    return 1


def _out(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.flush()


def _err(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.buffer.write(text.encode(getattr(sys.stderr, "encoding", None) or "utf-8", "backslashreplace") + b"\n")
    sys.stderr.flush()
