"""Differences between two sets of files in git's own format, its `--stat`, and lines counted.

Contents come through `read(entry)`, so that nothing of the user's git is asked or obeyed. What git's format has no
words for (empty directories, fifos, the modes of directories) stands on lines that begin with `#`, which `git apply`
skips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from checkpointer.workspace.entry import Entry, show

Changes = Mapping[bytes, tuple[Entry | None, Entry | None]]
Read = Callable[[Entry], bytes]

BIG = 32 << 20
"""A file larger than this is not compared by line."""
_WITH_CONTENT = ("file", "link")
_INDENT_HEURISTIC = 1 << 18
_NO_NEWLINE = b"\\ No newline at end of file\n"


class Stat(NamedTuple):
    """Lines added and removed; `binary` where lines mean nothing, then both are 0."""

    added: int
    removed: int
    binary: bool = False


class Delta(NamedTuple):
    """One path's two contents. A side that git has no content for is None."""

    path: bytes
    old: Entry | None
    new: Entry | None


def deltas(changes: Changes) -> Iterator[Delta]:
    """What git would show, by path: a change of kind is a deletion and then a creation."""
    for path in sorted(changes):
        old, new = (e if e is not None and e.kind in _WITH_CONTENT else None for e in changes[path])
        if (old is None and new is None) or any(e is not None and e.kind == "uncovered" for e in changes[path]):
            continue
        if old is not None and new is not None and old.kind != new.kind:
            yield Delta(path, old, None)
            yield Delta(path, None, new)
        else:
            yield Delta(path, old, new)


def others(changes: Changes) -> Iterator[str]:
    """The changes git has no words for, one line each."""
    for path in sorted(changes):
        old, new = changes[path]
        name = show(path) if path else "."
        for side, word in ((old, "removed"), (new, "new")):
            other = new if side is old else old
            if side is not None and side.kind not in _WITH_CONTENT and (other is None or other.kind != side.kind):
                kind = {"dir": "directory", "uncovered": "uncovered path"}.get(side.kind, side.kind)
                yield f"# {word} {kind} {name}"
        if old is not None and new is not None and old.kind == new.kind and old.kind not in _WITH_CONTENT:
            kind = "directory" if old.kind == "dir" else old.kind
            yield f"# mode {old.mode:o} -> {new.mode:o} of {kind} {name}"


def git_mode(entry: Entry) -> int:
    if entry.kind == "link":
        return 0o120000
    return 0o100755 if entry.mode & 0o100 else 0o100644


def quote(path: bytes, prefix: bytes = b"") -> bytes:
    """A path as git writes it in a patch: in quotes where its bytes would break the line."""
    name = prefix + path
    try:
        name.decode("utf-8")
        plain = not any(b < 0x20 or b in (0x7F, 0x22, 0x5C) for b in name)
    except UnicodeDecodeError:
        plain = False
    if plain:
        return name
    short = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 0x22: b'"', 0x5C: b"\\"}
    out = bytearray(b'"')
    for b in name:
        if b in short:
            out += b"\\" + short[b]
        elif b < 0x20 or b >= 0x7F:
            out += b"\\%03o" % b
        else:
            out.append(b)
    return bytes(out + b'"')


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:8000] or len(data) > BIG


def _hunks(old: bytes, new: bytes) -> tuple[bytes, Stat]:
    """The hunks between two texts, and their lines counted."""
    from checkpointer.workspace.odb.libgit import pygit2

    git = pygit2()
    patch = git.Patch.create_from(old, new, flag=git.enums.DiffOption(_INDENT_HEURISTIC))
    _, added, removed = patch.line_stats
    data: bytes = patch.data
    start = 0 if data.startswith(b"@@ ") else data.find(b"\n@@ ") + 1
    return (data[start:] if b"@@ " in data else b""), Stat(added, removed)


def _contents(delta: Delta, read: Read) -> tuple[bytes, bytes] | None:
    """Both contents, or None where they are binary."""
    old = read(delta.old) if delta.old is not None else b""
    if _is_binary(old):
        return None
    new = read(delta.new) if delta.new is not None else b""
    return None if _is_binary(new) else (old, new)


def stat(delta: Delta, read: Read) -> Stat:
    """Lines added and removed in one path."""
    if delta.old is not None and delta.new is not None and delta.old.oid == delta.new.oid:
        return Stat(0, 0)
    both = _contents(delta, read)
    if both is None:
        return Stat(0, 0, True)
    if delta.old is None or delta.new is None:
        data = both[0] or both[1]
        lines = data.count(b"\n") + (not data.endswith(b"\n") if data else 0)
        return Stat(0, lines) if delta.new is None else Stat(lines, 0)
    return _hunks(*both)[1]


def patch(delta: Delta, read: Read) -> bytes:
    """One path's change as git prints it."""
    path, old, new = delta
    a, b = quote(path, b"a/"), quote(path, b"b/")
    head = [b"diff --git %s %s" % (a, b)]
    if old is None and new is not None:
        head.append(b"new file mode %06o" % git_mode(new))
    elif new is None and old is not None:
        head.append(b"deleted file mode %06o" % git_mode(old))
    elif old is not None and new is not None and old.mode != new.mode:
        head += [b"old mode 100%03o" % old.mode, b"new mode 100%03o" % new.mode]
    same = old is not None and new is not None and old.oid == new.oid
    if same:
        return b"\n".join(head) + b"\n"
    ids = b"..".join((e.oid.hex()[:7] if e is not None else "0000000").encode() for e in (old, new))
    unchanged = old is not None and new is not None and old.mode == new.mode
    head.append(b"index " + ids + (b" %06o" % git_mode(old) if unchanged and old is not None else b""))
    names = [b"/dev/null" if old is None else a, b"/dev/null" if new is None else b]
    both = _contents(delta, read)
    if both is None:
        return b"\n".join(head) + b"\nBinary files %s and %s differ\n" % (names[0], names[1])
    hunks, _ = _hunks(*both)
    if hunks:
        marks = [n + b"\t" if b" " in n and n[:1] != b'"' else n for n in names]  # as git: the name ends at the tab
        head += [b"--- " + marks[0], b"+++ " + marks[1]]
    return b"\n".join(head) + b"\n" + hunks


def colored(data: bytes) -> bytes:
    """A patch in git's colours."""
    out = []
    in_hunk = False
    for line in data.split(b"\n"):
        if line.startswith(b"@@ "):
            in_hunk = True
            close = line.find(b" @@", 3) + 3
            out.append(b"\x1b[36m" + line[:close] + b"\x1b[m" + line[close:])
        elif line.startswith((b"diff --git ", b"# ")) and not (in_hunk and line.startswith(b"# ")):
            in_hunk = False
            out.append(b"\x1b[1m" + line + b"\x1b[m")
        elif line and not in_hunk:
            out.append(b"\x1b[1m" + line + b"\x1b[m")
        elif line.startswith(b"+"):
            out.append(b"\x1b[32m" + line + b"\x1b[m")
        elif line.startswith(b"-"):
            out.append(b"\x1b[31m" + line + b"\x1b[m")
        else:
            out.append(line)
    return b"\n".join(out)


def stat_table(found: list[tuple[Delta, Stat]], width: int = 80) -> Iterator[str]:
    """Lines of git's `--stat`, and its sum at the end; nothing where nothing changed."""
    if not found:
        return
    merged: dict[bytes, list[tuple[Delta, Stat]]] = {}
    for delta, one in found:
        merged.setdefault(delta.path, []).append((delta, one))
    names = {p: show(p) for p in merged}
    longest = max(len(n) for n in names.values())
    most = max(sum(s.added + s.removed for _, s in group) for group in merged.values())
    digits = max(len(str(most)), 3 if any(s.binary for _, s in found) else 1)
    room = max(10, width - longest - digits - 5)
    for path, group in merged.items():
        added, removed = sum(s.added for _, s in group), sum(s.removed for _, s in group)
        if any(s.binary for _, s in group):
            yield f" {names[path]:{longest}} | {'Bin':>{digits}}"
            continue
        scale = min(1.0, room / most) if most else 1.0
        bars = "+" * _scaled(added, scale) + "-" * _scaled(removed, scale)
        yield f" {names[path]:{longest}} | {added + removed:>{digits}}" + (f" {bars}" if bars else "")
    yield summary(len(merged), sum(s.added for _, s in found), sum(s.removed for _, s in found))


def _scaled(n: int, scale: float) -> int:
    return max(1, int(n * scale)) if n else 0


def summary(files: int, added: int, removed: int) -> str:
    """git's last line of `--stat`."""
    parts = [f" {files} file{'s' if files != 1 else ''} changed"]
    if added or not removed:
        parts.append(f"{added} insertion{'s' if added != 1 else ''}(+)")
    if removed or not added:
        parts.append(f"{removed} deletion{'s' if removed != 1 else ''}(-)")
    return ", ".join(parts)
