"""One path merged three ways: kinds, modes and bytes, obeying nothing of the user's git."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from checkpointer.workspace.entry import Entry
from checkpointer.workspace.odb.objects import ObjectType, oid_of
from checkpointer.workspace.undoing.merge import TEXT_LIMIT, Merged, Merger
from checkpointer.workspace.undoing.textmerge import TextMerge


class Blobs:
    def __init__(self) -> None:
        self.kept: dict[bytes, bytes] = {}

    def add(self, type: ObjectType, data: bytes) -> bytes:
        oid = oid_of(type, data)
        self.kept[oid] = data
        return oid

    def get(self, oid: bytes) -> tuple[ObjectType, bytes]:
        return "blob", self.kept[oid]

    def size(self, oid: bytes) -> int:
        return len(self.kept[oid])

    def file(self, data: bytes, mode: int = 0o644) -> Entry:
        return Entry("file", self.add("blob", data), mode)


@pytest.fixture
def blobs() -> Blobs:
    return Blobs()


def merged(blobs: Blobs, base: Entry | None, ours: Entry | None, theirs: Entry | None) -> Merged:
    return Merger(blobs, blobs.add)(base, ours, theirs)


def text(blobs: Blobs, base: bytes, ours: bytes, theirs: bytes) -> bytes | tuple[tuple[int, int], ...]:
    """The merged bytes, or the conflicting lines."""
    out = merged(blobs, blobs.file(base), blobs.file(ours), blobs.file(theirs))
    if out.why:
        return out.lines
    assert out.entry is not None
    return blobs.kept[out.entry.oid]


DIR = Entry("dir", b"", 0o755)
LINK = Entry("link", b"1" * 20, 0)
FIFO = Entry("fifo", b"", 0o644)


def test_what_only_one_side_changed_is_taken(blobs: Blobs) -> None:
    base, changed = blobs.file(b"a"), blobs.file(b"b")
    for other in (None, changed, DIR, LINK, FIFO, Entry("file", base.oid, 0o600)):
        assert merged(blobs, base, base, other) == Merged(other)
        assert merged(blobs, base, other, base) == Merged(other)
        assert merged(blobs, other, other, base) == Merged(base)
        assert merged(blobs, base, other, other) == Merged(other)


@pytest.mark.parametrize("theirs", [None, LINK, FIFO, DIR])
def test_what_was_changed_and_should_be_something_else_is_a_conflict(blobs: Blobs, theirs: Entry | None) -> None:
    assert merged(blobs, blobs.file(b"a"), blobs.file(b"b"), theirs).why


@pytest.mark.parametrize("ours", [None, LINK, FIFO, DIR])
def test_what_is_something_else_by_now_is_a_conflict(blobs: Blobs, ours: Entry | None) -> None:
    assert merged(blobs, blobs.file(b"a"), ours, blobs.file(b"b")).why


def test_made_anew_after_a_deletion_is_a_conflict(blobs: Blobs) -> None:
    assert merged(blobs, None, blobs.file(b"mine"), blobs.file(b"old")).why


def test_changes_of_far_lines_meet(blobs: Blobs) -> None:
    assert text(blobs, b"1\n2\n3\n4\n", b"1\n2\n3\nmine\n", b"old\n2\n3\n4\n") == b"old\n2\n3\nmine\n"


def test_bytes_are_exact(blobs: Blobs) -> None:
    """CRLF, no newline at the end, bytes that are no UTF-8, a carriage return alone, form feeds."""
    assert (
        text(blobs, b"a\r\nb\r\nc\r\nd\ne", b"A\r\nb\r\nc\r\nd\ne", b"a\r\nb\r\nc\r\nd\nE\xff")
        == b"A\r\nb\r\nc\r\nd\nE\xff"
    )
    assert text(blobs, b"a\nb\nc", b"a\nb\nc\nd", b"x\xc3\nb\nc") == b"x\xc3\nb\nc\nd"
    assert text(blobs, b"\xff\n\r\n\x0c\n.\n", b"\xfe\n\r\n\x0c\n.\n", b"\xff\n\r\n\x0c\n:") == b"\xfe\n\r\n\x0c\n:"
    assert text(blobs, b"a\nb\nc\n", b"a\nb\nc", b"A\nb\nc\n") == b"A\nb\nc"


def test_conflicting_lines_are_those_of_ours(blobs: Blobs) -> None:
    base = b"".join(b"%d\n" % n for n in range(1, 31))
    ours = (
        base.replace(b"\n3\n", b"\nthree\nand a half\n")
        .replace(b"\n20\n", b"\ntwenty\n")
        .replace(b"\n28\n", b"\nmine\n")
    )
    theirs = base.replace(b"\n20\n", b"\nXX\n").replace(b"\n3\n", b"\nIII\n")
    assert text(blobs, base, ours, theirs) == ((3, 4), (21, 21))


def test_lines_that_are_gone_are_shown_by_the_line_before(blobs: Blobs) -> None:
    assert text(blobs, b"1\n2\n3\n4\n", b"1\n2\n4\n", b"1\n2\nthree\n4\n") == ((2, 2),)
    assert text(blobs, b"1\n2\n", b"2\n", b"one\n2\n") == ((1, 1),)


def test_the_same_change_on_both_sides_is_none(blobs: Blobs) -> None:
    assert text(blobs, b"1\n2\n3\n4\n5\n", b"1\nx\n3\n4\nmine\n", b"1\nx\n3\n4\n5\n") == b"1\nx\n3\n4\nmine\n"


def test_neighbouring_lines_are_a_conflict_as_in_git(blobs: Blobs) -> None:
    assert text(blobs, b"1\n2\n3\n", b"1\nmine\n3\n", b"one\n2\n3\n") == ((2, 2),)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_file_that_is_no_text_is_never_merged(blobs: Blobs, which: int) -> None:
    texts = [b"1\n2\n3\n", b"1\n2\nmine\n", b"one\n2\n3\n"]
    texts[which] += b"\0"
    out = merged(blobs, *(blobs.file(data) for data in texts))
    assert ("no text" in out.why, out.lines) == (True, ())


def test_a_file_over_the_limit_is_never_merged_and_never_read(blobs: Blobs) -> None:
    base = b"1\n2\n" + b"x\n" * (TEXT_LIMIT // 2)
    entries = [blobs.file(data) for data in (base, base + b"mine\n", b"one" + base)]
    blobs.get = None  # type: ignore[assignment, method-assign]
    assert "too large" in merged(blobs, *entries).why


def test_a_file_up_to_the_limit_is_merged(blobs: Blobs) -> None:
    base = b"1\n" + b"x\n" * (TEXT_LIMIT // 2 - 2) + b"2\n"
    assert len(base) == TEXT_LIMIT
    assert text(blobs, base, base[:-2] + b"3\n", b"0" + base[1:]) == b"0" + base[1:-2] + b"3\n"


def test_links_are_never_merged_by_line(blobs: Blobs) -> None:
    base, ours, theirs = (Entry("link", blobs.add("blob", t), 0) for t in (b"a\nb\nc\n", b"a\nb\nx\n", b"y\nb\nc\n"))
    assert merged(blobs, base, ours, theirs).why


def test_mode_and_content_are_merged_apart(blobs: Blobs) -> None:
    base, ours, theirs = blobs.file(b"1", 0o644), blobs.file(b"2", 0o644), blobs.file(b"1", 0o755)
    assert merged(blobs, base, ours, theirs) == Merged(blobs.file(b"2", 0o755))
    assert merged(blobs, base, theirs, ours) == Merged(blobs.file(b"2", 0o755))


def test_a_mode_changed_both_ways_is_a_conflict(blobs: Blobs) -> None:
    modes = [blobs.file(b"1", mode) for mode in (0o644, 0o600, 0o755)]
    assert "mode" in merged(blobs, *modes).why
    assert "mode" in merged(blobs, blobs.file(b"1"), blobs.file(b"1", 0o755), None).why


def test_directories_give_way_and_meet(blobs: Blobs) -> None:
    other = DIR._replace(mode=0o700)
    assert merged(blobs, DIR, other, None) == Merged(None)
    assert merged(blobs, None, other, DIR) == Merged(other)
    assert merged(blobs, blobs.file(b"a"), other, DIR) == Merged(other)
    assert merged(blobs, DIR, DIR._replace(mode=0o500), other).why
    assert merged(blobs, DIR, blobs.file(b"mine"), None).why


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"\r\n", b"c\r\n", b"\xff\n", b"  \n"]), max_size=8)


@settings(max_examples=150)
@given(LINES, LINES, LINES, st.sampled_from([b"", b"end"]))
def test_texts_merge_as_git_merges_them(base: list[bytes], ours: list[bytes], theirs: list[bytes], end: bytes) -> None:
    texts = [b"".join(lines) + end for lines in (base, ours, theirs)]
    assume(len(set(texts)) == 3)
    found = MERGE.merge(*texts)
    for name, data in zip(("base", "ours", "theirs"), texts, strict=True):
        (SCRATCH / name).write_bytes(data)
    git = subprocess.run(
        ["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=SCRATCH, capture_output=True, check=False, env=CLEAN
    )
    if found is None:
        assert git.returncode > 0
        lines = MERGE.conflicting(*texts)
        assert lines
        assert all(1 <= a <= b <= max(1, texts[1].count(b"\n") + 1) for a, b in lines)
    else:
        assert (git.returncode, git.stdout) == (0, found)


MERGE = TextMerge()
CLEAN = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
SCRATCH = Path()


@pytest.fixture(autouse=True)
def _scratch(tmp_path_factory: pytest.TempPathFactory) -> None:
    global SCRATCH
    SCRATCH = tmp_path_factory.mktemp("texts")


HOSTILE = """
from checkpointer.workspace.undoing.textmerge import TextMerge
merge = TextMerge().merge
assert merge(b"1\\n2\\n3\\n4\\n", b"1\\n2\\n3\\nmine\\n", b"old\\n2\\n3\\n4\\n") == b"old\\n2\\n3\\nmine\\n"
assert merge(b"1\\n", b"2\\n", b"3\\n") is None
"""


def test_nothing_of_the_users_git_is_obeyed(tmp_path: Path) -> None:
    """`binary` would make every change a conflict, `merge=union` none; renames, a driver and a filter beside."""
    home = tmp_path / "home"
    for name, attributes in (("binary", "* binary\n"), ("union", "* merge=union text eol=crlf ident filter=x\n")):
        config = home / name / ".config" / "git"
        config.mkdir(parents=True)
        (config / "attributes").write_text(attributes)
        (home / name / ".gitconfig").write_text(
            f"[core]\n\tattributesFile = {config}/attributes\n\tautocrlf = true\n\tbigFileThreshold = 1\n"
            "[merge]\n\tdefault = ours\n\tconflictStyle = diff3\n\trenames = true\n"
            "[extensions]\n\tobjectFormat = sha256\n"
        )
        work = tmp_path / name
        work.mkdir()
        (work / ".gitattributes").write_text(attributes)
        hostile = {
            "HOME": str(home / name),
            "XDG_CONFIG_HOME": str(config.parent),
            "GIT_CONFIG_GLOBAL": str(home / name / ".gitconfig"),
            "GIT_DIR": str(work),
            "GIT_ATTR_SOURCE": "HEAD",
            "GIT_OBJECT_DIRECTORY": str(work),
        }
        done = subprocess.run(
            [sys.executable, "-c", HOSTILE], cwd=work, env={**os.environ, **hostile}, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        assert sorted(p.name for p in work.iterdir()) == [".gitattributes"]
