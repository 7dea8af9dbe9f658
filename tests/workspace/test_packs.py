"""Packs: raw bytes in and out, bounded memory, few descriptors, whatever a user's git made of them."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import time
import tracemalloc
import zlib
from pathlib import Path

import pytest
from harness.machine import descriptors
from harness.shadow import checkpoint, contents, git, sound
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpointer import disk
from checkpointer.errors import Damaged, Failed, MissingObject, NoSpace
from checkpointer.workspace.odb import deflate
from checkpointer.workspace.odb.objects import CHUNK, MemorySink, Objects, oid_of
from checkpointer.workspace.odb.packfile import apply_delta
from checkpointer.workspace.odb.packindex import PackIndex, Placed, encode_index
from checkpointer.workspace.odb.packs import PackedObjects
from checkpointer.workspace.odb.packwriter import PackWriter
from checkpointer.workspace.odb.reindex import indexed_again
from checkpointer.workspace.shadow.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "shadow.git")


def pack_files(store: Store) -> list[str]:
    return sorted(n for n in os.listdir(store.objects.pack_directory) if n.endswith(".pack"))


def fresh(store: Store) -> PackedObjects:
    return PackedObjects(store.objects.directory)


def opened(path: Path, size: int | None = None) -> int:
    return os.open(path, os.O_RDONLY)


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=20))
@settings(max_examples=30)
def test_what_goes_in_comes_out(tmp_path_factory: pytest.TempPathFactory, blobs: list[bytes]) -> None:
    store = Store.create(tmp_path_factory.mktemp("s") / "shadow.git")
    with store.writer() as writer:
        ids = [writer.add("blob", b) for b in blobs]
        assert ids == [oid_of("blob", b) for b in blobs]
        assert all(i in writer for i in ids)
        assert not any(i in fresh(store) for i in ids), "nothing is there before finish"
        assert writer.finish() is not None
    objects = fresh(store)
    for oid, blob in zip(ids, blobs, strict=True):
        assert objects.get(oid) == ("blob", blob)
        assert objects.size(oid) == len(blob)
        assert b"".join(objects.stream(oid)) == blob
        assert oid in objects
        assert objects.kind(oid) == "blob"
    assert set(objects.everything()) == set(ids)
    assert isinstance(objects, Objects)


def test_nothing_is_written_twice_nor_when_empty(store: Store) -> None:
    with store.writer() as writer:
        assert writer.finish() is None
        writer.add("blob", b"x")
        writer.add("blob", b"x")
        writer.finish()
        writer.add("blob", b"x")
        assert writer.finish() is None
        assert writer.relied == {oid_of("blob", b"x")}
    with store.writer() as writer:
        writer.add("blob", b"gone again")
    assert len(pack_files(store)) == 1
    assert len(os.listdir(store.objects.pack_directory)) == 3


def test_the_ids_are_gits(store: Store) -> None:
    with store.writer() as writer:
        oid = writer.add("blob", b"hello\n")
        writer.finish()
    assert oid.hex() == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert git(store, "cat-file", "blob", oid.hex()).stdout == b"hello\n"
    git(store, "verify-pack", *(os.path.join(store.objects.pack_directory, n) for n in pack_files(store)))


def test_larger_packs_leave_memory_and_stay_one(store: Store) -> None:
    data = [random.Random(i).randbytes(700_000) for i in range(20)]
    with store.writer() as writer:
        ids = [writer.add("blob", d) for d in data]
        writer.finish()
    assert len(pack_files(store)) == 1
    assert [fresh(store).get(i)[1] for i in ids] == data
    checkpoint(store, {"a": b"1"})
    sound(store)


def test_large_files_stream_with_bounded_memory(store: Store, tmp_path: Path) -> None:
    size = 300 << 20
    path = tmp_path / "large"
    block = random.Random(1).randbytes(1 << 20)
    h = hashlib.sha1(b"blob %d\0" % size)
    with open(path, "wb") as f:
        for i in range(10):
            f.seek(i * (30 << 20))
            f.write(block)
        f.truncate(size)
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            h.update(chunk)
    fd = opened(path)
    tracemalloc.start()
    with store.writer() as writer:
        oid, read = writer.add_stream(fd, size)
        writer.finish()
    objects = fresh(store)
    assert (oid, read) == (h.digest(), size)
    out = hashlib.sha1(b"blob %d\0" % objects.size(oid))
    longest = 0
    for chunk in objects.stream(oid):
        longest = max(longest, len(chunk))
        out.update(chunk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    os.close(fd)
    assert out.digest() == oid
    assert longest <= CHUNK
    assert peak < 30 << 20
    assert os.path.getsize(os.path.join(store.objects.pack_directory, pack_files(store)[0])) < 14 << 20, "sparse"
    path.unlink()


@pytest.mark.parametrize("believed", [0, 5, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 9 * CHUNK])
@pytest.mark.parametrize("really", [0, 5, CHUNK, CHUNK + 1, 3 * CHUNK + 17])
def test_a_file_of_another_size_than_believed(store: Store, tmp_path: Path, believed: int, really: int) -> None:
    data = random.Random(really).randbytes(really)
    (tmp_path / "f").write_bytes(data)
    fd = opened(tmp_path / "f")
    with store.writer() as writer:
        before = writer.add("blob", b"before")
        found = writer.add_stream(fd, believed)
        after = writer.add("blob", b"after")
        writer.finish()
    memory = MemorySink(fresh(store)).add_stream(fd, believed)
    os.close(fd)
    assert found == memory == (oid_of("blob", data), really)
    assert [fresh(store).get(o)[1] for o in (before, found[0], after)] == [b"before", data, b"after"]
    assert indexed_again(os.path.join(store.objects.pack_directory, pack_files(store)[0]))
    assert not [n for n in os.listdir(store.objects.pack_directory) if n.endswith("tmp")]


def test_a_large_file_that_is_stored_already_adds_nothing(store: Store, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(random.Random(1).randbytes(9 << 20))
    fd = opened(tmp_path / "f")
    for _ in range(2):
        with store.writer() as writer:
            writer.add_stream(fd, 9 << 20)
            writer.add_stream(fd, 9 << 20)
            writer.finish()
    with store.writer() as writer:
        writer.add_stream(fd, 9 << 20)
        writer.add("blob", b"small")
        writer.finish()
    os.close(fd)
    assert sorted(os.path.getsize(os.path.join(store.objects.pack_directory, n)) >> 20 for n in pack_files(store)) == [
        0,
        9,
    ]


def test_incompressible_data_costs_no_space_and_little_time() -> None:
    noise = random.Random(1).randbytes(8 << 20)
    text = b"the same line again\n" * 400_000
    assert len(deflate.compress(noise)) < len(noise) + 2000
    assert len(deflate.compress(text)) < len(text) // 20
    assert zlib.decompress(deflate.compress(noise)) == noise
    assert zlib.decompress(deflate.compress(b"")) == b""


def test_the_memory_sink_reads_large_files_again(store: Store, tmp_path: Path) -> None:
    data = random.Random(2).randbytes(3 * CHUNK + 1)
    (tmp_path / "f").write_bytes(data)
    for reopen in (None, lambda: opened(tmp_path / "f")):
        sink = MemorySink(store.objects)
        fd = opened(tmp_path / "f")
        oid, _ = sink.add_stream(fd, len(data), reopen)
        os.close(fd)
        assert sink.size(oid) == len(data)
        assert b"".join(sink.stream(oid)) == data
        assert sink.get(oid) == ("blob", data)
        assert oid in sink
    (tmp_path / "f").write_bytes(data[:-1] + b"?")
    with pytest.raises(Damaged):
        sink.get(oid)
    (tmp_path / "f").unlink()
    with pytest.raises(MissingObject):
        sink.get(oid)
    assert not pack_files(store)


def test_the_memory_sink_is_bounded(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemorySink, "KEEP", 1 << 20)
    sink = MemorySink(store.objects)
    ids = {}
    tracemalloc.start()
    for i in range(40):
        data = random.Random(i).randbytes(200_000)
        (tmp_path / "f").write_bytes(data)
        fd = opened(tmp_path / "f")
        ids[sink.add_stream(fd, len(data))[0]] = i
        os.close(fd)
    assert tracemalloc.get_traced_memory()[0] < 3 << 20
    tracemalloc.stop()
    for oid, i in ids.items():
        assert sink.get(oid)[1] == random.Random(i).randbytes(200_000)


def many(store: Store, number: int) -> list[bytes]:
    ids = []
    for i in range(number):
        with PackWriter(store.objects.directory, store.objects, keep=False) as writer:
            ids.append(writer.add("blob", b"%d" % i))
            writer.add("blob", b"also %d" % i)
            writer.finish()
    return ids


def test_a_thousand_packs_with_256_descriptors(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "sync", lambda *a: None)
    monkeypatch.setattr(disk, "sync_directory", lambda *a, **k: None)
    ids = many(store, 1000)
    held: list[int] = []
    try:
        with descriptors(250):
            objects = fresh(store)
            for i in random.Random(1).sample(range(1000), 1000):
                assert objects.get(ids[i]) == ("blob", b"%d" % i)
            while True:  # not one descriptor left but ours
                try:
                    held.append(os.open("/dev/null", os.O_RDONLY))
                except OSError:
                    break
            for i in (0, 500, 999):
                assert objects.get(ids[i]) == ("blob", b"%d" % i)
    finally:
        for fd in held:
            os.close(fd)
    start = time.perf_counter()
    for i in range(20_000):
        assert oid_of("blob", b"none %d" % i) not in objects
    assert (time.perf_counter() - start) / 20_000 < 0.0002, "a miss is cheap"


def test_descriptors_go_with_their_owner(store: Store) -> None:
    ids = many(store, 3)
    before = len(os.listdir("/dev/fd"))
    for _ in range(20):
        objects = fresh(store)
        assert all(objects.get(i) for i in ids)
        chunks = objects.stream(ids[0])
        next(chunks)
    del objects, chunks
    assert len(os.listdir("/dev/fd")) == before


def test_what_another_process_wrote_is_found(store: Store) -> None:
    other = fresh(store)
    assert oid_of("blob", b"1") not in other
    with store.writer() as writer:
        oid = writer.add("blob", b"1")
        writer.finish()
    assert other.get(oid) == ("blob", b"1")
    with pytest.raises(MissingObject, match="is not in the store"):
        other.get(b"\1" * 20)


def test_packs_that_vanish_are_looked_for_elsewhere(store: Store) -> None:
    ids = many(store, 5)
    reader = fresh(store)
    reader.get(ids[0])
    git(store, "config", "gc.pruneExpire", "never")
    git(store, "repack", "-q", "-a", "-d", "-k")
    assert [reader.get(i)[1] for i in ids] == [b"%d" % i for i in range(5)]


def grown(store: Store, times: int = 12) -> dict[int, dict[bytes, bytes]]:
    """Checkpoints of a growing text, so that git makes deltas."""
    lines = [b"line %d %s" % (i, os.urandom(8).hex().encode()) for i in range(3000)]
    known = {}
    for i in range(times):
        lines[i * 7] = b"changed in %d" % i
        made = checkpoint(
            store,
            {"text": b"\n".join(lines), f"d/{i}": b"%d" % i, "d/big": os.urandom(2 << 20) if not i else None}
            if i < 2
            else {"text": b"\n".join(lines), f"d/{i}": b"%d" % i},
        )
        known[made.number] = contents(store, made)
    return known


def test_everything_is_readable_after_a_users_gc(store: Store) -> None:
    known = grown(store)
    for words in (
        ["gc", "-q", "--aggressive", "--prune=now"],
        ["repack", "-q", "-a", "-d", "-f", "--window=50", "--depth=50"],
    ):
        git(store, *words)
        listed = git(
            store, "verify-pack", "-v", *(os.path.join(store.objects.pack_directory, n) for n in pack_files(store))
        )
        assert b"chain length" in listed.stdout, "there are deltas"
        reader = Store(store.path)
        assert {c.number: contents(reader, c) for c in reader.checkpoints()} == known
        for oid in reader.objects.everything():
            assert reader.objects.size(oid) == len(reader.objects.get(oid)[1])
    made = checkpoint(store, {"more": b"1"})
    assert len(known) + 1 == made.number
    sound(store)


def test_loose_objects_are_read(store: Store, tmp_path: Path) -> None:
    known = grown(store)
    aside = tmp_path / "aside"
    aside.mkdir()
    for name in os.listdir(store.objects.pack_directory):
        os.rename(os.path.join(store.objects.pack_directory, name), aside / name)
    for pack in sorted(aside.glob("*.pack")):
        with open(pack, "rb") as f:
            git(store, "unpack-objects", "-q", stdin=f)
    reader = Store(store.path)
    assert {c.number: contents(reader, c) for c in reader.checkpoints()} == known
    assert all(oid in reader.objects for oid in list(reader.objects.loose()))
    for oid in list(reader.objects.loose()):
        assert reader.objects.size(oid) == len(reader.objects.get(oid)[1])
    victim = next(iter(reader.objects.loose())).hex()
    path = Path(store.objects.directory, victim[:2], victim[2:])
    path.chmod(0o600)
    whole = path.read_bytes()
    for bad in (b"", whole[:-5], b"\0" * len(whole), b"garbage", zlib.compress(b"blob 3\0four")):
        path.write_bytes(bad)
        with pytest.raises(Damaged):
            fresh(store).get(bytes.fromhex(victim))
        with pytest.raises(Damaged):
            list(fresh(store).stream(bytes.fromhex(victim)))
    path.write_bytes(whole)


def test_the_index_is_the_one_git_makes(store: Store, tmp_path: Path) -> None:
    many(store, 1)
    with store.writer() as writer:
        for i in range(700):
            writer.add("blob", b"%d" % i * 100)
        writer.finish()
    for name in pack_files(store):
        path = os.path.join(store.objects.pack_directory, name)
        git(store, "index-pack", "-o", str(tmp_path / "made.idx"), path)
        ours = Path(path.replace(".pack", ".idx")).read_bytes()
        assert (tmp_path / "made.idx").read_bytes() == ours == indexed_again(path)
        (tmp_path / "made.idx").unlink()


def test_offsets_beyond_two_and_four_gigabytes() -> None:
    placed = [Placed(bytes([i]) * 20, i, i << 28) for i in range(0, 256, 3)]
    index = PackIndex("pack-x", encode_index(placed, b"d" * 20))
    assert list(index) == placed
    assert index.find(bytes([255]) * 20) == 255 << 28
    assert index.find(b"\1" + b"\0" * 19) is None
    assert index.pack_digest == b"d" * 20
    assert index.find(b"\3" * 20) == 3 << 28


@given(
    st.binary(max_size=2000), st.lists(st.tuples(st.integers(0, 1999), st.integers(1, 300), st.binary(max_size=127)))
)
@settings(max_examples=100)
def test_deltas(base: bytes, steps: list[tuple[int, int, bytes]]) -> None:
    def length(n: int) -> bytes:
        out = bytearray()
        while n > 127:
            out.append(n & 127 | 128)
            n >>= 7
        return bytes([*out, n])

    expected, ops = b"", b""
    for start, size, text in steps:
        piece = base[start : start + size]
        if len(piece) == size:
            ops += bytes([0x80 | 0x01 | 0x02 | 0x10 | 0x20, start & 255, start >> 8, size & 255, size >> 8])
            expected += piece
        if text:
            ops += bytes([len(text)]) + text
            expected += text
    delta = length(len(base)) + length(len(expected)) + ops
    assert apply_delta(base, delta, "x") == expected
    for bad in (delta[:-1] if ops else b"", length(len(base) + 1) + delta[1:] if len(base) < 127 else b"", b"\xff"):
        if bad != delta:
            with pytest.raises(Damaged):
                apply_delta(base, bad, "x")


DAMAGE = {
    "truncated to zero": lambda b: b"",
    "cut": lambda b: b[: len(b) // 2],
    "cut in the last byte": lambda b: b[:-1],
    "nul": lambda b: b"\0" * len(b),
    "garbage": lambda b: random.Random(1).randbytes(len(b)),
    "one bit": lambda b: b[: len(b) // 2] + bytes([b[len(b) // 2] ^ 1]) + b[len(b) // 2 + 1 :],
    "missing": lambda b: None,
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("suffix", [".pack", ".idx"])
def test_damage_is_an_error_or_is_made_good(store: Store, how: str, suffix: str) -> None:
    data = random.Random(3).randbytes(5000)
    with store.writer() as writer:
        oid = writer.add("blob", data)
        writer.finish()
    path = Path(store.objects.pack_directory, pack_files(store)[0]).with_suffix(suffix)
    bad = DAMAGE[how](path.read_bytes())
    if bad is None:
        path.unlink()
    else:
        path.write_bytes(bad)
    for read in (lambda o: o.get(oid)[1], lambda o: b"".join(o.stream(oid))):
        if suffix == ".idx" or how == "cut in the last byte":
            assert read(fresh(store)) == data
        else:
            with pytest.raises(Damaged, match=oid.hex()) as e:
                read(fresh(store))
            assert how != "missing" or isinstance(e.value, MissingObject)
    again = Store(store.path)
    with again.writer() as writer:
        assert writer.add("blob", data) == oid
        writer.finish()
    assert fresh(store).get(oid) == ("blob", data), "saving it again makes it whole"


class Blind(PackedObjects):
    """Knows of nothing that is stored."""

    def __contains__(self, oid: bytes) -> bool:
        return False


def test_a_second_copy_is_read_where_the_first_is_damaged(store: Store) -> None:
    for extra in (b"1", b"2"):
        writer = PackWriter(store.objects.directory, Blind(store.objects.directory), keep=False)
        oid = writer.add("blob", b"precious" * 100)
        writer.add("blob", extra)
        writer.finish()
    assert len(pack_files(store)) == 2
    for name in pack_files(store):
        path = Path(store.objects.pack_directory, name)
        whole = path.read_bytes()
        path.write_bytes(whole[:14] + b"\0" * (len(whole) - 34) + whole[-20:])
        assert fresh(store).get(oid) == ("blob", b"precious" * 100)
        path.write_bytes(whole)


def test_a_full_disk_leaves_nothing_behind(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(store, {"a": b"1"})
    before = sorted(os.listdir(store.objects.pack_directory))

    def full(verb: str, path: object) -> None:
        if verb == "sync":
            raise OSError(28, "No space left on device")

    with store.writer() as writer:
        writer.add("blob", os.urandom(6 << 20))
        monkeypatch.setattr(disk, "probe", full)
        with pytest.raises(NoSpace):
            writer.finish()
    monkeypatch.setattr(disk, "probe", None)
    left = sorted(os.listdir(store.objects.pack_directory))
    assert [n for n in left if not n.endswith(".keep")] == [n for n in before if not n.endswith(".keep")]


def test_workers_write_packs_of_their_own(store: Store) -> None:
    writer = store.writer()
    for i in range(3):
        child = os.fork()
        if child == 0:
            mine = writer.fork()
            mine.add("blob", b"of worker %d" % i)
            mine.finish()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    checkpoint(store, {"a": b"of worker 1"})
    assert len(pack_files(store)) >= 4
    assert store.objects.get(oid_of("blob", b"of worker 2"))[1] == b"of worker 2"
    assert not [n for n in os.listdir(store.objects.pack_directory) if n.endswith(".keep")], "one checkpoint, one token"


def test_objects_that_vanish_under_a_capture_are_noticed(store: Store) -> None:
    with store.writer() as orphan:
        orphan.add("blob", b"unreachable")
        orphan.finish()
    checkpoint(store, {"a": b"1"})
    tip = store.tip()
    assert tip is not None
    with store.writer() as writer:
        writer.add("blob", b"unreachable")
        git(store, "repack", "-q", "-a", "-d", "--no-keep-unreachable")
        for name in os.listdir(store.objects.pack_directory):
            assert not name.endswith(".keep")
        with pytest.raises(Failed, match="removed from the store"):
            store.commit(writer, bytes.fromhex(tip.tree), tip.meta, parent=tip)
    assert store.tip() == tip


def test_nothing_of_libgit2_is_needed() -> None:
    code = (
        "import sys; import checkpointer.workspace.shadow.store, checkpointer.workspace.shadow.retention;"
        "import checkpointer.audit;"
        "assert not {'pygit2', 'pydantic', 'click', 'watchdog'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
