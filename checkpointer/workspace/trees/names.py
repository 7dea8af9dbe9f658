"""Names as they stand in git trees: those that git's own checks could refuse stand there escaped.

`git fsck` refuses a name that some file system takes for `.git`, reads every file that one could take for `.gitmodules`
or `.gitattributes`, and warns of links named so or like `.gitignore` and `.mailmap`. The set escaped here is larger
than the set git refuses: so no attribute or submodule of a project is obeyed by a git that looks at the store.

An escaped name is `ckpt%` followed by the true one with `%XX` for every byte but ASCII letters, digits, `_` and `-`.
A true name that begins with `ckpt%` is escaped too, so the map is injective and is undone without a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from checkpointer.errors import Damaged

MARK = b"ckpt%"
_QUOTED = re.compile(rb"%([0-9A-F]{2})")
_OTHER = re.compile(rb"[^A-Za-z0-9_-]")
_ESCAPED = re.compile(rb"ckpt%(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+", re.DOTALL)
# What HFS+ drops when it compares names: zero-width and direction marks, and the byte order mark.
_DROPPED = re.compile(rb"\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf")
# Cheap and generous: everything that the rules below could answer yes to.
_SUSPECT = re.compile(rb"(?:\A|\0)(?:\.|\xe2\x80|\xe2\x81|\xef\xbb|ckpt%)|[~\\]")
# The name itself, what NTFS and HFS+ ignore behind it, and what git stops reading at.
_LONG = re.compile(rb"\.git(?:modules|attributes)?(?:\Z|[ .:\x80-\xff])")
_LONG_LINK = re.compile(rb"\.(?:gitignore|mailmap)(?:\Z|[ .:\x80-\xff])")
# NTFS short names: some letters, `~`, a number. Git knows the usual six letters and the hash fallback.
_SHORT = re.compile(rb"([a-z0-9]{0,6})~[1-9]")
_SHORT_OF = (b"git", b"gitmod", b"gi7eba", b"gitatt", b"gi7d29")
_SHORT_OF_LINK = (b"gitign", b"gi250a", b"mailma", b"maba30")


def _part_refused(part: bytes, link: bool) -> bool:
    plain = _DROPPED.sub(b"", part).lower()
    if _LONG.match(plain) or (link and _LONG_LINK.match(plain)):
        return True
    short = _SHORT.match(plain)
    if short is None:
        return False
    names = _SHORT_OF + _SHORT_OF_LINK if link else _SHORT_OF
    return any(name.startswith(short[1]) for name in names)


def escape(name: bytes, *, link: bool = False) -> bytes:
    """The name of a file or directory (`link`: of a symbolic link) as it stands in a git tree."""
    if not _SUSPECT.search(name):
        return name
    if name.startswith(MARK) or any(_part_refused(part, link) for part in name.split(b"\\")):
        return MARK + _OTHER.sub(lambda m: b"%%%02X" % m[0][0], name)
    return name


def unescape(name: bytes) -> bytes:
    """The true name behind one that stands in a git tree. Raises `Damaged` on one that `escape` never makes."""
    if not name.startswith(MARK):
        return name
    if not _ESCAPED.fullmatch(name):
        raise Damaged(f"not a name of ours in a tree: {name!r}")
    return _QUOTED.sub(lambda m: bytes((int(m[1], 16),)), name[len(MARK) :])


def plain(names: Iterable[bytes]) -> bool:
    """Is it certain, at one look, that none of these names is escaped?"""
    return not _SUSPECT.search(b"\0".join(names))
