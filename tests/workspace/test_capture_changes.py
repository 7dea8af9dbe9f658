"""A capture that leans on the table finds what a capture without one finds, whatever was done in between."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.captures import Place, same, set_times, standing, told
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpointer.workspace.reading import contents
from checkpointer.workspace.reading.table import Record, Table, pack


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def settled() -> None:
    """Let the files become old enough to be trusted."""
    time.sleep(0.15)


def test_nothing_is_read_where_nothing_changed(place: Place) -> None:
    for i in range(20):
        place.write(f"d{i % 3}/f{i}", b"%d" % i)
    settled()
    first = place.save()
    second = place.save()
    assert second.bytes_read == 0
    assert second.root == first.root
    assert second.files == first.files == 20


def test_fresh_files_are_read_again_once(place: Place) -> None:
    place.write("f", b"1234")
    assert place.save().bytes_read == 4
    settled()
    assert place.save().bytes_read == 4, "it could have changed after the capture within one tick of the clock"
    assert place.save().bytes_read == 0


def test_a_same_size_edit_with_the_time_put_back(place: Place) -> None:
    path = place.write("f", b"aaa")
    os.utime(path, (1_577_836_800, 1_577_836_800))
    settled()
    place.save()
    before = os.stat(path)
    with open(path, "r+b") as f:
        f.write(b"bbb")
    set_times(path, before)
    assert told(place.save().tree)[b"f"][2] == b"bbb"


def test_edits_within_one_tick_of_the_clock(place: Place) -> None:
    path = place.write("f", b"0000")
    for i in range(40):
        with open(path, "r+b") as f:
            f.write(b"%04d" % i)
        assert told(place.save().tree)[b"f"][2] == b"%04d" % i


@pytest.mark.parametrize("directory", ["", "d/"])
def test_a_clock_that_went_backwards(place: Place, directory: str) -> None:
    """The table is forged as a clock that stood still would have made it: equal times, another content."""
    path = place.write(directory + "f", b"aaa")
    settled()
    place.save()
    with open(path, "r+b") as f:
        f.write(b"bbb")
    key = directory.rstrip("/")
    seen = [_stat(os.path.dirname(path)), ("f", _stat(path))]

    def forged() -> Table:
        table = Table.load(place.table_path)
        table.records[key] = Record(*table.records[key])._replace(seen=pack(seen))
        return table

    name = os.fsencode(directory) + b"f"
    assert told(place.look(table=forged()).tree)[name][2] == b"aaa", "the forged table was believed"
    table = forged()
    table.header = table.header._replace(started_ns=time.time_ns() + 3600 * 10**9)
    assert told(place.look(table=table).tree)[name][2] == b"bbb"


def _stat(path: bytes) -> tuple[int, ...]:
    st = os.lstat(path)
    return (st.st_mode, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)


def test_times_in_the_future(place: Place) -> None:
    path = place.write("f", b"aaa")
    future = time.time() + 86400 * 3650
    os.utime(path, (future, future))
    settled()
    place.save()
    assert place.save().bytes_read == 0
    before = os.stat(path)
    with open(path, "r+b") as f:
        f.write(b"bbb")
    set_times(path, before)
    assert told(place.save().tree)[b"f"][2] == b"bbb"


def test_one_change_deep_down_reads_one_file(place: Place) -> None:
    for i in range(50):
        place.write(f"a/b{i % 5}/c{i}/f", b"%d" % i)
    settled()
    place.save()
    place.write("a/b3/c13/f", b"changed")
    present = place.save()
    assert present.bytes_read == len(b"changed")
    same(present.tree, standing(place.root))


def test_a_lost_table_costs_time_only(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkpointer.workspace.odb.packs._SMALL", 0)  # every pack is a large one
    for i in range(8):
        place.write(f"d{i % 3}/f{i}", b"%d" % i)
    os.mkdir(place.root + b"/empty")
    settled()
    expected = place.save().root
    place.write("d1/new", b"new")
    settled()
    expected = place.save().root
    whole = place.table_path.read_bytes()
    assert whole.count(b"ckpt scan table") == 1
    for size in (*range(0, len(whole), 97), len(whole) - 1):
        place.table_path.write_bytes(whole[:size])
        assert place.look(table=Table.load(place.table_path)).root == expected, size
        damaged = bytearray(whole)
        damaged[size] ^= 0xFF
        place.table_path.write_bytes(damaged)
        assert place.look(table=Table.load(place.table_path)).root == expected, size
    for content in (b"", bytes(len(whole)), b"garbage" * 100, whole + b"\0" * 50, whole + whole):
        place.table_path.write_bytes(content)
        assert place.save().root == expected
        assert place.save().bytes_read == 0, "a damaged table is replaced"
    place.table_path.unlink()
    place.table_path.mkdir()
    assert place.look(table=Table.load(place.table_path)).root == expected


def test_a_table_of_other_checkpoints(place: Place) -> None:
    place.write("f", b"1")
    place.save()
    place.write("f", b"22")
    settled()
    old = Table.load(place.table_path)
    second = place.save(table=old)
    shutil.copy(place.table_path, place.keeping / "copy")
    place.write("f", b"333")
    settled()
    place.save()
    shutil.copy(place.keeping / "copy", place.table_path)
    place.write("g", b"4")
    present = place.save()
    assert present.root != second.root
    same(present.tree, standing(place.root))
    settled()
    place.save()
    assert place.look(table=Table.load(place.table_path)).bytes_read == 0
    table = Table.load(place.table_path)
    table.header = table.header._replace(root=b"\1" * 20)
    assert place.look(table=table).bytes_read > 0, "a table of a checkpoint that is not in the store counts for nothing"


def test_what_is_gone_is_gone_from_the_table_too(place: Place) -> None:
    for name in ("gone/in/f", "stays/f"):
        place.write(name)
    os.makedirs(place.root + b"/gone/empty")
    os.mkfifo(place.root + b"/gone/p")
    place.write("gone/odd", b"1", 0o600)
    place.save()
    shutil.rmtree(place.root + b"/gone")
    place.save()
    assert set(Table.load(place.table_path).records) == {"", "stays"}
    place.write("stays/g")
    same(place.save().tree, standing(place.root))


def test_a_table_grows_by_what_changed_and_is_rewritten_in_time(place: Place) -> None:
    for i in range(100):
        place.write(f"d{i}/f", b"%d" % i)
    settled()
    place.save()
    first = place.table_path.stat().st_size
    sizes = []
    for i in range(60):
        place.write("d7/f", b"%d" % i)
        table = Table.load(place.table_path)
        place.save(table=table)
        sizes.append(place.table_path.stat().st_size)
    assert sizes[0] - first < first / 5
    assert max(sizes) < 2 * first + (1 << 16) + 2000
    assert place.look(table=Table.load(place.table_path)).root == place.look().root


# Random trees and edits

NAMES = st.sampled_from(
    [b"a", b"b", b"c", b"dir", b"caf\xe9", b"new\nline", b".gitignore", b".ckptignore", b"x.log", b".git"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
RULES = st.sampled_from([b"*.log\n", b"a\n", b"dir/\n", b"!a\n", b"/b\n", b"dir/*\n!dir/c\n", b""])
EDITS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.one_of(st.binary(max_size=5), RULES)),
    st.tuples(st.just("remove"), PATHS, st.just(b"")),
    st.tuples(st.just("mkdir"), PATHS, st.just(b"")),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from([b"644", b"755", b"600", b"700"])),
    st.tuples(st.just("link"), PATHS, PATHS),
    st.tuples(st.just("fifo"), PATHS, st.just(b"")),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("save"), st.just(b""), st.just(b"")),
)


def _edit(root: bytes, verb: str, path: bytes, value: bytes) -> None:
    full = os.path.join(root, path)
    with contextlib.suppress(OSError):
        if verb == "write":
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if not os.path.exists(full) or os.path.isfile(full):
                with open(full, "wb") as f:
                    f.write(value)
        elif verb == "remove":
            if os.path.isdir(full) and not os.path.islink(full):
                shutil.rmtree(full)
            else:
                os.unlink(full)
        elif verb == "mkdir":
            os.makedirs(full)
        elif verb == "chmod":
            if not os.path.islink(full):
                os.chmod(full, int(value, 8))
        elif verb == "link":
            os.symlink(value, full)
        elif verb == "fifo":
            os.mkfifo(full)
        elif verb == "rename":
            os.rename(full, os.path.join(root, value))


@settings(max_examples=80)
@given(st.lists(EDITS, max_size=25))
def test_with_the_table_as_without(edits: list[tuple[str, bytes, bytes]]) -> None:
    with (
        contextlib.ExitStack() as stack,
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory,
    ):
        patch.setattr(contents, "SLACK_NS", 20_000_000)  # so that most of the table counts without long waits
        place = stack.enter_context(contextlib.closing(Place(Path(directory))))
        make_repository(place.path / "dir")
        for verb, path, value in [*edits, ("save", b"", b"")]:
            if verb != "save":
                _edit(place.root, verb, path, value)
                continue
            time.sleep(0.025)
            fresh = place.look()
            parallel = place.look(table=Table.load(place.table_path), jobs=2)
            present = place.save()
            assert present.root == fresh.root == parallel.root
            on_disk = standing(place.root)
            for seen, node in told(present.tree).items():
                assert on_disk.get(seen) == node or seen.endswith(b".git")  # a file that names no repository
            for missing in on_disk.keys() - told(present.tree).keys():
                assert present.ignored(missing, on_disk[missing][0] == "dir") or b".git" in missing.split(b"/")


def make_repository(directory: Path) -> None:
    """What git takes for a repository, without starting git."""
    for name in ("objects", "refs", "info"):
        os.makedirs(directory / ".git" / name)
    (directory / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (directory / ".git" / "info" / "exclude").write_text("c\n")
