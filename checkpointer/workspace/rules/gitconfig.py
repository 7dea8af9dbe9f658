"""What of the user's git configuration counts here: where `core.excludesFile` and `core.attributesFile` are.

Files are read in git's order, includes and their conditions followed (`hasconfig:` is not). Of the environment only
`HOME` and `XDG_CONFIG_HOME` count. What git would refuse, a syntax error or a file it may not read, gives no rules.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterator, Mapping
from typing import Literal

from checkpointer.workspace.project.gitdir import GitDir
from checkpointer.workspace.project.plainfile import read_plain
from checkpointer.workspace.rules import wildmatch

SYSTEM = b"/etc/gitconfig"
ATTRIBUTES = [
    prefix + b"/etc/gitattributes" for prefix in (b"", b"/usr/local", b"/opt/homebrew", b"/opt/local", b"/usr")
]
"""Where gits of different makers keep the attributes of a whole system."""
_LIMIT = 4 << 20
_DEPTH = 10
_SPACE = b" \t\n\r"
_ESCAPES = {ord("t"): b"\t", ord("b"): b"\b", ord("n"): b"\n", ord("\\"): b"\\", ord('"'): b'"'}

Environment = Mapping[bytes, bytes]


class _Parser:
    """Keys and values of one file: `section.subsection.key` with section and key in lower case."""

    def __init__(self, text: bytes) -> None:
        self.text = text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n") + b"\n"
        self.at = 0

    def next(self) -> int:
        if self.at >= len(self.text):
            raise ValueError("ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def line(self) -> None:
        self.at = self.text.index(b"\n", self.at)

    def pairs(self) -> Iterator[tuple[bytes, bytes | None]]:
        section = b""
        while self.at < len(self.text):
            c = self.next()
            if c in _SPACE:
                continue
            if c in b"#;":
                self.line()
            elif c == ord("["):
                section = self.section() + b"."
            elif _letter(c):
                self.at -= 1
                yield self.pair(section)
            else:
                raise ValueError("neither a section nor a key")

    def section(self) -> bytes:
        name = bytearray()
        while (c := self.next()) != ord("]"):
            if c in _SPACE:
                return bytes(name).lower() + b"." + self.subsection(c)
            if not _key(c) and c != ord("."):
                raise ValueError("not a section")
            name.append(c)
        if not name:
            raise ValueError("a section without a name")
        return bytes(name).lower()

    def subsection(self, c: int) -> bytes:
        while c in b" \t\r":
            c = self.next()
        if c != ord('"'):
            raise ValueError("not a subsection")
        name = bytearray()
        while (c := self.next()) != ord('"'):
            if c == ord("\\"):
                c = self.next()
            if c == ord("\n"):
                raise ValueError("a subsection ends with its line")
            name.append(c)
        if self.next() != ord("]"):
            raise ValueError("not a section")
        return bytes(name)

    def pair(self, section: bytes) -> tuple[bytes, bytes | None]:
        name = bytearray()
        while _key(c := self.next()):
            name.append(c)
        while c in b" \t":
            c = self.next()
        key = section + bytes(name).lower()
        if c == ord("\n"):
            return key, None
        if c != ord("="):
            raise ValueError("not a value")
        return key, self.value()

    def value(self) -> bytes:
        out = bytearray()
        quoted = False
        spaces = 0
        while (c := self.next()) != ord("\n") or quoted:
            if c == ord("\n"):
                raise ValueError("a quote ends with its line")
            if not quoted and c in _SPACE:
                spaces += bool(out)
                continue
            if not quoted and c in b"#;":
                self.line()
                continue
            out += b" " * spaces
            spaces = 0
            if c == ord("\\"):
                c = self.next()
                if c == ord("\n"):
                    continue
                if c not in _ESCAPES:
                    raise ValueError("an unknown escape")
                out += _ESCAPES[c]
            elif c == ord('"'):
                quoted = not quoted
            else:
                out.append(c)
        return bytes(out)


def _letter(c: int) -> bool:
    return 65 <= c <= 90 or 97 <= c <= 122


def _key(c: int) -> bool:
    return _letter(c) or 48 <= c <= 57 or c == ord("-")


def _home(environment: Environment) -> bytes:
    home = environment.get(b"HOME")
    if not home:
        raise ValueError("no home")
    return home


def _expanded(path: bytes, environment: Environment, *, real: bool = False) -> bytes:
    """`~/x` and `~user/x` as git expands them."""
    if not path.startswith(b"~"):
        return path
    user, slash, rest = path[1:].partition(b"/")
    try:
        home = pwd.getpwnam(os.fsdecode(user)).pw_dir.encode() if user else _home(environment)
    except KeyError as e:
        raise ValueError("no such user") from e
    return (os.path.realpath(home) if real else home) + slash + rest


def _xdg(name: bytes, environment: Environment) -> bytes | None:
    base = environment.get(b"XDG_CONFIG_HOME")
    if base:
        return base + b"/git/" + name
    home = environment.get(b"HOME")
    return home + b"/.config/git/" + name if home else None


class _Reader:
    def __init__(self, git: GitDir | None, environment: Environment) -> None:
        self.git = git
        self.environment = environment
        self.excludes: bytes | None = None
        self.attributes: bytes | None = None
        self.attributes_tree = False
        self.filters = False
        self.of_worktree = False

    def read(self, path: bytes, depth: int = 0) -> None:
        """One file and what it includes; a missing one says nothing. Raises ValueError, OSError."""
        if depth > _DEPTH:
            raise ValueError("includes itself")
        text = read_plain(path, limit=_LIMIT, follow=True)
        if text is None:
            return
        for key, value in _Parser(text).pairs():
            if key == b"core.excludesfile":
                if value is None:
                    raise ValueError("core.excludesFile without a value")
                self.excludes = _expanded(value, self.environment)
            elif key == b"core.attributesfile":
                self.attributes = _expanded(value or b"", self.environment)
            elif key.startswith(b"filter.") and key.endswith((b".clean", b".process")):
                self.filters = self.filters or not key.startswith(b"filter.lfs.")
            elif key == b"attr.tree":
                self.attributes_tree = True
            elif key == b"extensions.worktreeconfig":
                self.of_worktree = value is None or value.lower() in (b"true", b"yes", b"on", b"1")
            elif key == b"include.path" or (key.startswith(b"includeif.") and key.endswith(b".path")):
                if value is None:
                    raise ValueError("include without a path")
                if key == b"include.path" or self._holds(key[len(b"includeif.") : -len(b".path")], path):
                    target = _expanded(value, self.environment)
                    self.read(os.path.join(os.path.dirname(path), target), depth + 1)

    def _holds(self, condition: bytes, config: bytes) -> bool:
        keyword, _, pattern = condition.partition(b":")
        if self.git is None:
            return False
        if keyword == b"onbranch":
            branch = self.git.head()
            return branch not in (None, "detached") and wildmatch.matches(_open_end(pattern), os.fsencode(str(branch)))
        if keyword not in (b"gitdir", b"gitdir/i"):
            return False
        with contextlib.suppress(ValueError):  # then it is taken as it stands
            pattern = _expanded(pattern, self.environment, real=True)
        fixed = b""
        if pattern.startswith(b"./"):
            fixed = os.path.dirname(os.path.realpath(config)) + b"/"
            pattern = pattern[2:]
        elif not pattern.startswith(b"/"):
            pattern = b"**/" + pattern
        ignore_case = keyword == b"gitdir/i"
        for text in (os.path.realpath(self.git.path), os.path.abspath(self.git.path)):
            start = text[: len(fixed)]
            same = start.lower() == fixed.lower() if ignore_case else start == fixed
            if same and wildmatch.matches(_open_end(pattern), text[len(fixed) :], ignore_case=ignore_case):
                return True
        return False


def _open_end(pattern: bytes) -> bytes:
    return pattern + b"**" if pattern.endswith(b"/") else pattern


def _read(git: GitDir | None, environment: Environment) -> _Reader:
    """Everything that git would read. Raises ValueError, OSError where it would refuse."""
    reader = _Reader(git, environment)
    home = environment.get(b"HOME")
    for path in (SYSTEM, _xdg(b"config", environment), home + b"/.gitconfig" if home else None):
        if path is not None:
            reader.read(path)
    if git is not None:
        reader.of_worktree = False  # only the repository's own file can say so
        reader.read(os.path.join(git.common, b"config"))
        if reader.of_worktree:
            reader.read(os.path.join(git.path, b"config.worktree"))
    return reader


def excludes_file(git: GitDir | None = None, environment: Environment | None = None) -> bytes | None:
    """The path of the user's own ignore rules, or None where there can be none. The file need not exist.

    `git` is the repository asked about: its own configuration and `includeIf` count then. A relative path is one
    below the top of its work tree. Never raises.
    """
    environment = os.environb if environment is None else environment
    try:
        reader = _read(git, environment)
    except (OSError, ValueError):
        return None
    if reader.excludes is None:
        return _xdg(b"ignore", environment)
    if not reader.excludes or b"\0" in reader.excludes:
        return None
    return reader.excludes if git is None else os.path.join(git.top, reader.excludes)


def attributes_files(git: GitDir, environment: Environment | None = None) -> list[bytes]:
    """The files with attributes of a repository that lie outside its work tree. They need not exist.

    Raises ValueError, OSError where they do not tell all: the configuration cannot be read, the environment or a tree
    says more, or there are filters - of which a file may be the work that no attribute names any more. Those of LFS are
    none: what they make has another size.
    """
    environment = os.environb if environment is None else environment
    if any(name.startswith((b"GIT_CONFIG", b"GIT_ATTR")) for name in environment):
        raise ValueError("a configuration in the environment")
    reader = _read(git, environment)
    if reader.attributes_tree or reader.filters:
        raise ValueError("attributes in a tree, or filters")
    own = reader.attributes if reader.attributes is not None else _xdg(b"attributes", environment)
    found = [os.path.join(directory, b"info", b"attributes") for directory in {git.common, git.path}]
    if own and b"\0" not in own:
        found.append(os.path.join(git.top, own))
    return [*ATTRIBUTES, *found]


def object_format(git: GitDir) -> Literal["sha1", "sha256"]:
    """How the repository names its objects. Raises ValueError, OSError where its configuration cannot be read, and for
    one whose references are not in files.
    """
    text = read_plain(os.path.join(git.common, b"config"), limit=_LIMIT, follow=True) or b""
    pairs = list(_Parser(text).pairs())
    if any(key == b"extensions.refstorage" and value != b"files" for key, value in pairs):
        raise ValueError("references in another form")
    found = [value for key, value in pairs if key == b"extensions.objectformat"]
    return "sha256" if found and found[-1] == b"sha256" else "sha1"
