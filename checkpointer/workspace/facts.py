"""What `workspace.toml` says of a workspace: where it is, and the facts that outlive the checkpoints they came from."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from typing import Any

from checkpointer import disk
from checkpointer.errors import Damaged, NewerFormat
from checkpointer.workspace.entry import from_json, to_json
from checkpointer.workspace.unreadable import unreadable

FORMAT = 1
NAME = "workspace.toml"
_HEAD = "# Written by ckpt. Facts about one workspace; the checkpoints are in shadow.git, a plain git repository.\n"


class Facts:
    """`path` is absolute; `dev`, `ino` and `born` (its birth in nanoseconds, 0 if not known) are of the
    workspace directory. Numbers are the last given out, 0 for none.

    `first_kept` is the number of the oldest checkpoint on the timeline that retention left (1 while nothing was cut),
    `cut` the commit ids (hex) whose parents are gone: git's `shallow` file, which can be rebuilt from here.
    `other` holds keys that this version does not know; they are written back.
    """

    def __init__(
        self,
        path: bytes,
        dev: int = 0,
        ino: int = 0,
        born: int = 0,
        *,
        last_number: int = 0,
        last_turn: int = 0,
        last_run: int = 0,
        last_uncertain: int = 0,
        had_run: bool = False,
        first_kept: int = 1,
        cut: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.dev = dev
        self.ino = ino
        self.born = born
        self.format = FORMAT
        self.last_number = last_number
        self.last_turn = last_turn
        self.last_run = last_run
        self.last_uncertain = last_uncertain
        self.had_run = had_run
        self.first_kept = first_kept
        self.cut = list(cut)
        self.other: dict[str, Any] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Facts) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def encode(self) -> bytes:
        lines = [_HEAD]
        for name, value in vars(self).items():
            if name == "path":
                shown = to_json(self.path)
                if isinstance(shown, dict):
                    lines.append(f"path = {{ b64 = {_toml(shown['b64'])} }}\n")
                    continue
                lines.append(f"path = {_toml(shown)}\n")
            elif name != "other":
                lines.append(f"{name} = {_toml(value)}\n")
        for key, value in self.other.items():
            with contextlib.suppress(TypeError):  # tables of a later version are not ours to keep
                lines.append(f"{json.dumps(key)} = {_toml(value)}\n")
        lines.append("complete = true\n")
        return "".join(lines).encode("utf-8")


def load(directory: str | os.PathLike[str]) -> Facts:
    """Read `workspace.toml` from a workspace's store directory.

    Raises `NewerFormat`, `Damaged` where it is missing or is not what `save` wrote, `Failed` where it cannot be read
    just now.
    """
    path = os.path.join(directory, NAME)
    try:
        with open(path, "rb") as f:
            value = _parse(f.read().decode("utf-8"))
        return _decode(value, os.fspath(directory))
    except FileNotFoundError:
        raise Damaged(f"{path} is missing") from None
    except OSError as e:
        raise unreadable(e, path) from e
    except (ValueError, KeyError, TypeError) as e:  # not UTF-8 and not TOML are ValueErrors
        raise Damaged(f"{path} is damaged: {e}") from e


def _parse(text: str) -> dict[str, Any]:
    """The keys and values of the file. What `encode` writes is JSON behind each `=`; the rest is for the TOML parser,
    which takes longer to load than all of this.
    """
    found: dict[str, Any] = {}
    for line in text.split("\n"):
        if not line or line.startswith("#"):
            continue
        key, _, value = line.partition(" = ")
        try:
            if not key.isidentifier() or key in found:
                raise ValueError(key)
            found[key] = json.loads(value)
        except ValueError:
            import tomllib

            return tomllib.loads(text)
    return found


def _decode(value: dict[str, Any], directory: str) -> Facts:
    version = value["format"]
    if type(version) is int and version > FORMAT:
        raise NewerFormat(
            f"this store has format {version}, this program knows {FORMAT}: {directory}",
            kept="the store was left as it is",
            next=("ckpt --version",),
        )
    if value.pop("complete") is not True:
        raise ValueError("it is cut short")
    facts = Facts(path=from_json(value["path"]))
    known = vars(facts).keys() - {"other"}
    for name in known - {"path"}:
        found = value.get(name, getattr(facts, name))
        if type(found) is not type(getattr(facts, name)):
            raise ValueError(f"{name} is not what it must be")
        setattr(facts, name, found)
    if not all(isinstance(c, str) and len(c) == 40 for c in facts.cut):
        raise ValueError("cut is not what it must be")
    facts.other = {key: v for key, v in value.items() if key not in known}
    return facts


def save(directory: str | os.PathLike[str], facts: Facts) -> None:
    """Write `workspace.toml` durably. Raises `NoSpace`, `ReadOnlyStore`, `Failed`; the old file then stays."""
    with disk.plain_errors(NAME):
        disk.replace(os.path.join(directory, NAME), facts.encode())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    raise TypeError(type(value).__name__)
