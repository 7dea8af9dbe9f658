"""What a failure looks like: message, what was kept, what to type next; or the JSON document; and the exit status."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from checkpointer.errors import CheckpointerError, Conflict


def wants_json(args: Sequence[str]) -> bool:
    """Did the call ask for JSON? Asked of the raw words, since the parse itself may have failed."""
    own = args[: args.index("--")] if "--" in args else args
    return "--json" in own


def error_document(code: str, message: str, kept: str, following: Sequence[str], status: int, **more: Any) -> str:
    commands = [re.sub(r" {2,}\(.*\)$", "", line) for line in following]  # without the words for people
    error = {"code": code, "message": message, "kept": kept, "next": commands, "exit": status}
    return json.dumps(
        {"schema": 1, "error": {**error, **{k: v for k, v in more.items() if k not in error}}}, default=str
    )


def report(error: CheckpointerError, *, as_json: bool) -> int:
    """Print one of our errors; its exit status."""
    if as_json:
        _out(error_document(error.code, error.message, error.kept, error.next, error.exit, **error.details))
        return error.exit
    _err(error.message)
    if isinstance(error, Conflict) and error.details.get("conflicts"):
        for line in _ways(error):
            _err("  " + line)
        return error.exit
    if error.kept:
        _err(f"kept: {error.kept}")
    for i, command in enumerate(error.next):
        _err(("next: " if i == 0 else "      ") + command)
    return error.exit


def _ways(error: Conflict) -> list[str]:
    """The conflicts of an undo, a line each, and the ways on with what each of them does."""
    from checkpointer.cli.phrase import count, shell

    conflicts = error.details["conflicts"]
    paths = [path_of(c) for c in conflicts]
    width = max(len(shell(p)) for p in paths)
    see = next((n.partition(" -- ")[0] for n in error.next if n.startswith("ckpt diff ")), "")
    out = []
    for conflict, path in zip(conflicts, paths, strict=True):
        told = f"{shell(path):{width}}   {conflict_words(conflict)}"
        out.append(f"{told}      see: {see} -- {shell(path)}" if see and conflict.get("lines") else told)
    total = error.details.get("files", len(paths))
    names = shell(paths[0]) if len(paths) == 1 else count(len(paths), "file")
    held = error.details.get("checkpoint")
    one = len(paths) == 1
    forced = total - error.details.get("impossible", 0)
    stay = f"; your {names} {'stays' if one else 'stay'} in checkpoint {held}" if held else ""
    said = {
        "--skip": f"take back the other {total - len(paths)}, leave {names} as {'it is' if one else 'they are'}",
        "--force": f"take back {'all ' if forced == total else ''}{forced}{stay}",
    }
    commands = [n for n in error.next if not n.startswith("ckpt diff ")]
    longest = max((len(n) for n in commands), default=0)
    for command in commands:
        out.append(f"{command:{longest}}   {said.get(command.rpartition(' ')[2], '')}".rstrip())
    return out


def path_of(conflict: Any) -> bytes:
    from checkpointer.workspace.entry import from_json

    path = conflict["path"]
    return path if isinstance(path, bytes) else from_json(path)


def conflict_words(conflict: Any) -> str:
    """`lines 12-18, at 14:06, outside any agent`."""
    from checkpointer.cli.phrase import clock, lines

    at = conflict.get("at")
    words = [
        lines(conflict.get("lines")) or conflict.get("why") or "",
        f"at {clock(datetime.fromisoformat(at))}" if at else "",
        conflict.get("by") or "",
    ]
    return ", ".join(w for w in words if w)


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
