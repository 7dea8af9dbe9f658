"""Trees with ignore files, drawn at random, and what the real git says about them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from hypothesis import strategies as st

NAMES = [b"a", b"b", b"c", b"ab", b"abc", b"aa", b"A", b".a", b"a.b", b"a.o", b"b.o", b"x.tar.gz", b"build", b"a-c"]
NAMES += [b"a b", b"a ", b"#a", b"!a", b"a*", b"[a]", b"a\\b", b"-", b"]", b"^", b"\t", b"a\rb", b"a\r", b"a\nb"]
NAMES += [b"\xc3\xa9", b"\xff"]

PIECES = [b"a", b"b", b"c", b"ab", b"A", b"*", b"*", b"**", b"***", b"?", b"/", b"/", b"/**/", b"**/", b"/**", b"*/"]
PIECES += [b"[ab]", b"[!a]", b"[^b]", b"[a-c]", b"[c-a]", b"[a-]", b"[-a]", b"[--a]", b"[!-~]", b"[a/b]"]
PIECES += [b"[[:alpha:]]", b"[![:alpha:]]", b"[[:space:]b]", b"[[:punct:]]", b"[[:cntrl:]]", b"[[:foo:]]"]
PIECES += [b"[\x01-\xff]", b"[[:alpha]"]
PIECES += [b"[a", b"[]a]", b"[]", b"[!]]", b"[!", b"[[:alpha:]", b"[[:]", b"[:alpha:]", b"[\\]]", b"[a-\\c]", b"[\\"]
PIECES += [b"\\", b"\\\\", b"\\*", b"\\a", b"\\/", b"\\ ", b"\\#", b"\\!", b" ", b"  ", b"!", b"#", b".", b"]", b"-"]
PIECES += [b"^", b".o", b"*.o", b"build", b".tar.gz", b"a.b", b"\t", b"\r", b"\xc3\xa9", b"\xff", b"\0"]

LIKELY = [b"*", b"!*", b"*/", b"!*/", b"/*", b"!/a", b"!a/", b"a/**", b"!a/**", b"**/b", b"a/*", b"!a/b", b"/a/b/c"]
LIKELY += [b"*.o", b"!a.o", b"build/", b"[ab]"]

wild = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map(b"".join)
anchored = st.tuples(st.sampled_from([b"!", b"/", b"!/", b"a/", b"a/b/"]), wild).map(b"".join)
pattern = st.one_of(st.sampled_from(LIKELY), wild, anchored)
ends = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b" \n", b"\n\n", b"/\n", b""])
line = st.tuples(pattern, ends).map(b"".join)
starts = st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf"])
content = st.tuples(starts, st.lists(line, max_size=6).map(b"".join)).map(b"".join)
few = st.one_of(st.sampled_from([b"a", b"b", b"ab", b"a.o", b"build"]), st.sampled_from(NAMES))
a_path = st.lists(few, min_size=1, max_size=5).map(b"/".join)


class Tree(NamedTuple):
    files: list[bytes]
    rules: dict[bytes, bytes]  # directory -> its .gitignore


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    files = draw(st.lists(a_path, min_size=1, max_size=25))
    directories = sorted({b"", *(p[:i] for p in files for i, c in enumerate(p) if c == ord("/"))})
    rules = draw(st.dictionaries(st.sampled_from(directories), content, min_size=1, max_size=4))
    return Tree(files, rules)


def make_git(directory: bytes) -> None:
    """As little of a repository as git takes for one."""
    for name in (b"objects", b"refs", b"info"):
        os.makedirs(directory + b"/" + name)
    put(directory + b"/HEAD", b"ref: refs/heads/main\n")


def put(path: bytes, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def grow(root: bytes, files: list[bytes]) -> list[bytes]:
    """Make the files and the directories above them, leaving out what stands in each other's way; all paths made."""
    for name in files:
        whole = root + b"/" + name
        try:
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            if not os.path.isdir(whole):
                put(whole, b"")
        except (FileExistsError, NotADirectoryError):
            continue
    return walk(root)


def walk(root: bytes) -> list[bytes]:
    found = []
    for where, directories, files in os.walk(root):
        if b".git" in directories:
            directories.remove(b".git")
        found += [os.path.join(where, n)[len(root) + 1 :] for n in directories + files]
    return sorted(found)


def write_rules(root: bytes, rules: dict[bytes, bytes]) -> None:
    for directory, data in rules.items():
        if os.path.isdir(root + b"/" + directory):
            put(os.path.join(root, directory, b".gitignore"), data)


@contextmanager
def place() -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
    """A directory and an environment with a home below it."""
    base = os.path.realpath(tempfile.mkdtemp(prefix="ckpt-ignore-")).encode()
    os.mkdir(base + b"/home")
    try:
        yield base, {b"HOME": base + b"/home", b"PATH": os.environb[b"PATH"]}
    finally:
        shutil.rmtree(base)


def git(root: bytes, environment: dict[bytes, bytes], *words: str | bytes, given: bytes = b"") -> bytes:
    done = subprocess.run(["git", *words], cwd=root, env=environment, input=given, capture_output=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def check_ignore(
    root: bytes, environment: dict[bytes, bytes], paths: list[bytes]
) -> dict[bytes, tuple[bytes, int, bytes] | None]:
    """What git says decides about each path: file, line, pattern."""
    given = b"".join(p + b"\0" for p in paths)
    out = git(root, environment, "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin", given=given)
    fields = out.split(b"\0")[:-1]
    found: dict[bytes, tuple[bytes, int, bytes] | None] = {}
    for source, number, pattern, name in zip(*(iter(fields),) * 4, strict=True):
        found[name] = (source, int(number), pattern) if number else None
    return found
