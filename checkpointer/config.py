"""What a person may set, where each value came from, and the file that keeps it.

The file is `$CKPT_CONFIG`, else `ckpt/config.toml` in the user's configuration directory. A repository configures
nothing. Keys we do not know stay in the file and are named, never used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from checkpointer import disk
from checkpointer.errors import Usage

if TYPE_CHECKING:
    import tomlkit

Value = int | str | bool
GIB = 1 << 30


class Key(NamedTuple):
    """One thing that may be set. `size` takes bytes or `500 MB`; `int` takes whole numbers from 0."""

    name: str
    default: Value
    kind: Literal["int", "size", "text", "bool", "choice"]
    about: str
    choices: tuple[str, ...] = ()


KEYS = {
    key.name: key
    for key in (
        Key("capture.limit", GIB, "size", "a new file larger than this is not covered, and listed"),
        Key("capture.jobs", 0, "int", "processes for a first checkpoint; 0: as many as help"),
        Key("capture.heavy", 50_000, "int", "say so before a first checkpoint of more files than this"),
        Key("gc.keep_days", 30, "int", "checkpoints younger than this stay"),
        Key("gc.keep_number", 200, "int", "so many of the newest checkpoints stay, whatever their age"),
        Key("gc.budget", 5 * GIB, "size", "above this a store drops its oldest checkpoints first"),
        Key("gc.keep_runs", 90, "int", "logs of runs that are over stay for so many days"),
        Key("run.snapshot_every", 0, "int", "a driven run keeps a snapshot after so many events; 0: only at its end"),
        Key("secrets.redact", True, "bool", "take token shapes and values of secret names out of run logs"),
        Key("secrets.pattern", "", "text", "a regular expression of more that is taken out"),
        Key("hooks.ask", False, "bool", "let agents ask you before a call whose outcome is unknown is made again"),
        Key("lock.wait", 10, "int", "seconds to wait for another ckpt on the same workspace"),
        Key("ui.pager", "", "text", "the pager for log, show and diff; empty: $PAGER, else less"),
        Key("ui.color", "auto", "choice", "colours", ("auto", "always", "never")),
    )
}
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(text: str) -> int:
    """Bytes of `1073741824`, `500 MB`, `1.5GiB`; a kilobyte is 1024 bytes. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(float(match[1]) * _UNITS[match[2]])


def _checked(key: Key, value: Any) -> Value:
    """The value in the key's own type. Raises ValueError saying what is wanted."""
    text = str(value).strip()
    if key.kind == "bool":
        if text.lower() not in ("true", "false"):
            raise ValueError("true or false")
        return text.lower() == "true"
    if key.kind == "int":
        if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,15}", text):
            raise ValueError("a whole number from 0")
        return int(text)
    if key.kind == "size":
        try:
            return parse_size("" if isinstance(value, bool) else text)
        except (ValueError, OverflowError):
            raise ValueError("a size such as 500 MB") from None
    if key.kind == "choice" and text not in key.choices:
        raise ValueError(" or ".join(key.choices))
    return str(value)


def base_directory(kind: Literal["state", "config"], environ: Mapping[str, str] = os.environ) -> Path:
    """The user's directory for one kind of file, as platformdirs has it, without the import.

    Without a home (no `$HOME`, no entry in the password database) it is a private directory beside the temporary
    files: better a store that may be swept than none.
    """
    from checkpointer.workspace.guard import home_directories

    named = environ.get("XDG_STATE_HOME" if kind == "state" else "XDG_CONFIG_HOME", "").strip()
    if named.startswith("/"):
        return Path(named)
    homes = [h for h in home_directories(environ) if h != b"/"]
    if not homes:
        import tempfile

        return Path(tempfile.gettempdir()) / f"ckpt-{os.getuid()}" / kind
    home = Path(os.fsdecode(homes[0]))
    if os.uname().sysname == "Darwin":
        return home / "Library" / "Application Support"
    return home / (".local/state" if kind == "state" else ".config")


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The file that keeps the configuration; it need not exist."""
    named = environ.get("CKPT_CONFIG", "")
    return Path(os.path.abspath(named)) if named else base_directory("config", environ) / "ckpt" / "config.toml"


class Config:
    """The configuration as read at one moment.

    A file that cannot be read or parsed, or a value that does not fit, leaves the defaults in force and is named in
    `problems`: a typing error in a configuration must not take the way back away.
    """

    def __init__(self, path: Path | None = None, environ: Mapping[str, str] = os.environ) -> None:
        self.path = path if path is not None else config_path(environ)
        self.problems: list[str] = []
        self.unknown: list[str] = []
        self._set: dict[str, Value] = {}
        try:
            with open(self.path, "rb") as f:
                import tomllib

                document = tomllib.load(f)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as e:
            reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
            self.problems.append(f"{self.path} is not used: {reason}")
            return
        for name, value in _flat(document):
            key = KEYS.get(name)
            if key is None:
                self.unknown.append(name)
                continue
            try:
                self._set[name] = _checked(key, value)
            except ValueError as e:
                self.problems.append(f"{self.path}: {name} should be {e}; the default is used")

    def __getitem__(self, name: str) -> Value:
        return self._set.get(name, KEYS[name].default)

    def integer(self, name: str) -> int:
        """A number or a size in bytes."""
        return int(self[name])

    def origin(self, name: str) -> str:
        """Where the value came from: the file's path or `default`."""
        return str(self.path) if name in self._set else "default"

    def set(self, name: str, text: str) -> None:
        """Write one value, leaving every other line of the file as it is.

        Raises Usage for an unknown key, a value that does not fit, or a file that is not TOML; OSError.
        """
        import tomlkit

        key = known(name)
        try:
            value = _checked(key, text)
        except ValueError as e:
            raise Usage(f"{name} takes {e}, not {text!r}", kept="the configuration is as it was") from None
        document = self._document()
        group, _, leaf = name.partition(".")
        table = document.setdefault(group, tomlkit.table())
        if not isinstance(table, dict):
            raise Usage(f"{self.path}: {group} should be a table", kept="the file is as it was")
        table[leaf] = value
        self._write(document)
        self._set[name] = value

    def unset(self, name: str) -> bool:
        """Take one value out of the file: the default holds again. False where it is not set. Raises as `set` does."""
        known(name)
        document = self._document()
        group, _, leaf = name.partition(".")
        table = document.get(group)
        if not isinstance(table, dict) or leaf not in table:
            return False
        del table[leaf]
        if not table:
            del document[group]
        self._write(document)
        self._set.pop(name, None)
        return True

    def _document(self) -> tomlkit.TOMLDocument:
        """The file as it stands. Raises Usage where it is not TOML; OSError."""
        import tomlkit

        try:
            return tomlkit.parse(self.path.read_text(encoding="utf-8")) if self.path.exists() else tomlkit.document()
        except ValueError as e:
            raise Usage(
                f"{self.path} cannot be read: {e}", kept="the file is as it was", next=(f"correct it: {self.path}",)
            ) from None

    def _write(self, document: tomlkit.TOMLDocument) -> None:
        import tomlkit

        for directory in reversed([d for d in self.path.parents if not d.exists()]):
            disk.make_directory(directory)
        target = self.path.resolve()  # people keep this file behind a link
        mode = target.stat().st_mode & 0o777 if target.exists() else disk.PRIVATE_FILE
        disk.replace(target, tomlkit.dumps(document).encode(), mode=mode)


def known(name: str) -> Key:
    """The key of that name. Raises Usage with a suggestion."""
    if name in KEYS:
        return KEYS[name]
    import difflib

    near = difflib.get_close_matches(name, KEYS, 1, 0.5)
    raise Usage(f"there is no key {name!r}" + (f"; did you mean {near[0]}?" if near else ""), next=("ckpt config",))


def _flat(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in document.items():
        if isinstance(value, dict):
            found.extend(_flat(value, f"{prefix}{name}."))
        else:
            found.append((prefix + name, value))
    return found
