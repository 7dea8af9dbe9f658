"""Carrying changes out: exact, atomic, checked right before, taken back whole where anything is amiss."""

from __future__ import annotations

import errno
import os
import random
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.machine import IS_ROOT, NOBODY, fill, needs_root, tmpfs
from harness.manifest import Manifest, same, untouched
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpointer import disk
from checkpointer.errors import CheckpointerError, Failed, Interfered, MissingObject, NoSpace
from checkpointer.workspace.directories import Directories
from checkpointer.workspace.entry import Entry, signature
from checkpointer.workspace.odb.objects import MemorySink, ObjectType
from checkpointer.workspace.restoring.captured import Captured
from checkpointer.workspace.restoring.replacements import Replacement
from checkpointer.workspace.restoring.restore import Carried, Carrier
from checkpointer.workspace.restoring.staging import sweep

Spec = dict[bytes, tuple[str, bytes, int]]
"""Path -> kind, content, mode. Directories above a path are added by `whole`."""

TOKEN = "0123456789ab"


class Nothing:
    """A store without objects."""

    def get(self, oid: bytes) -> tuple[ObjectType, bytes]:
        raise MissingObject(oid.hex())

    def stream(self, oid: bytes) -> Iterator[bytes]:
        raise MissingObject(oid.hex())

    def size(self, oid: bytes) -> int:
        raise MissingObject(oid.hex())

    def __contains__(self, oid: bytes) -> bool:
        return False


def file(data: bytes = b"", mode: int = 0o644) -> tuple[str, bytes, int]:
    return ("file", data, mode)


def link(target: bytes) -> tuple[str, bytes, int]:
    return ("link", target, 0)


def directory(mode: int = 0o755) -> tuple[str, bytes, int]:
    return ("dir", b"", mode)


def fifo(mode: int = 0o600) -> tuple[str, bytes, int]:
    return ("fifo", b"", mode)


def whole(spec: Spec) -> Spec:
    out: Spec = {}
    for path in sorted(spec):
        parts = path.split(b"/")
        for i in range(1, len(parts)):
            out.setdefault(b"/".join(parts[:i]), directory())
        out[path] = spec[path]
    return out


def build(root: Path, spec: Spec) -> None:
    """Make the files of a spec below an empty root."""
    base = os.fsencode(root)
    spec = whole(spec)
    for path, (kind, content, mode) in spec.items():
        full = os.path.join(base, path)
        if kind == "dir":
            os.mkdir(full)
        elif kind == "link":
            os.symlink(content, full)
        elif kind == "fifo":
            os.mkfifo(full)
            os.chmod(full, mode)
        else:
            with open(full, "wb") as f:
                f.write(content)
            os.chmod(full, mode)
    for path in sorted(spec, reverse=True):
        if spec[path][0] == "dir":
            os.chmod(os.path.join(base, path), spec[path][2])


class Ground:
    """A directory that stands as one spec and is to stand as another."""

    def __init__(self, root: Path, now: Spec, wanted: Spec) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        build(root, now)
        self.sink = MemorySink(Nothing())
        before, after = self.entries(now), self.entries(wanted)
        self.changes = {
            p: Replacement(before.get(p), after.get(p)) for p in before | after if before.get(p) != after.get(p)
        }
        self.signatures = {}
        for p in before:
            self.signatures[p] = signature(os.lstat(os.path.join(os.fsencode(root), p)))
        self.before = Manifest.of(root)
        self.wanted = {p: (k, m, c) for p, (k, c, m) in whole(wanted).items()}

    def entries(self, spec: Spec) -> dict[bytes, Entry]:
        out = {}
        for path, (kind, content, mode) in whole(spec).items():
            oid = self.sink.add("blob", content) if kind in ("file", "link") else b""
            out[path] = Entry(kind, oid, mode)  # type: ignore[arg-type]
        return out

    def carry_out(self, **more: Any) -> Carried:
        with Directories(os.fsencode(self.root)) as directories:
            more.setdefault("seen_ns", time.time_ns() + 3600 * 10**9)  # nothing was written shortly before
            return Carrier(directories, self.sink, self.changes, self.signatures.get, TOKEN, **more).run()

    def now(self) -> Manifest:
        return Manifest.of(self.root)

    def check_done(self) -> None:
        now = self.now()
        told = {p: n.told for p, n in now.items() if p}
        assert told == self.wanted
        untouched(self.before, now, set(self.changes))

    def check_unchanged(self) -> None:
        same(self.before, self.now())


NOW: Spec = {
    b"keep": file(b"keep"),
    b"edit": file(b"old"),
    b"gone/deep/f": file(b"f"),
    b"gone/g": file(b"g"),
    b"tofile/x": file(b"x"),
    b"todir": file(b"was a file"),
    b"tolink": file(b"was a file"),
    b"lib": link(b"elsewhere"),
    b"pipe": fifo(),
    b"run.sh": file(b"#!/bin/sh\n", 0o644),
    b"d": directory(0o755),
    b"shut/in": file(b"1"),
}
WANTED: Spec = {
    b"keep": file(b"keep"),
    b"edit": file(b"new", 0o600),
    b"new/deep/f": file(b"fresh"),
    b"tofile": file(b"is a file"),
    b"todir/y": file(b"y"),
    b"tolink": link(b"keep"),
    b"lib/a": file(b"a"),
    b"pipe": file(b"no pipe"),
    b"run.sh": file(b"#!/bin/sh\n", 0o755),
    b"d": directory(0o700),
    b"made": fifo(0o640),
    b"shut": directory(0o555),
    b"shut/in": file(b"2"),
    b"empty": directory(),
}


def test_everything_changes_into_everything(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "w", NOW, WANTED)
    done = ground.carry_out()
    ground.check_done()
    assert b"edit" in done.written
    assert done.removed == [b"gone", b"gone/deep", b"gone/deep/f", b"gone/g", b"lib", b"todir", b"tofile/x"]
    assert not done.left


def test_nothing_to_do_touches_nothing(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "w", NOW, NOW)
    assert not ground.changes
    assert vars(ground.carry_out()) == vars(Carried())
    untouched(ground.before, ground.now(), set())


NAMES = [b"a", b"b", b"c\xff", b"-n"]
contents = st.sampled_from([b"", b"1", b"2\n"])
nodes = st.one_of(
    st.tuples(st.just("file"), contents, st.sampled_from([0o644, 0o755, 0o600, 0o444])),
    st.tuples(st.just("link"), st.sampled_from([b"a", b"../out"]), st.just(0)),
    st.tuples(st.just("dir"), st.just(b""), st.sampled_from([0o755, 0o700, 0o555])),
    st.tuples(st.just("fifo"), st.just(b""), st.just(0o600)),
)


@st.composite
def specs(draw: Callable[..., Any]) -> Spec:
    wishes = draw(st.lists(st.tuples(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), nodes), max_size=8))
    out: Spec = {}
    for parts, node in wishes:
        path = b"/".join(parts)
        above = [b"/".join(parts[:i]) for i in range(1, len(parts))]
        if any(out.get(p, directory())[0] != "dir" for p in above):
            continue
        if node[0] != "dir" and any(p.startswith(path + b"/") for p in out):
            continue
        for p in above:
            out.setdefault(p, directory())
        out[path] = node
    return out


@settings(max_examples=150)
@given(specs(), specs())
def test_any_tree_becomes_any_other(tmp_path_factory: Any, now: Spec, wanted: Spec) -> None:
    ground = Ground(tmp_path_factory.mktemp("g") / "w", now, wanted)
    ground.carry_out()
    ground.check_done()


class Stop(Exception):
    pass


def stop_at(n: int) -> Callable[[str, object], None]:
    count = 0

    def probe(verb: str, path: object) -> None:
        nonlocal count
        count += 1
        if count == n:
            raise Stop

    return probe


@pytest.fixture(autouse=True)
def _no_probe() -> Iterator[None]:
    yield
    disk.probe = None


def verbs(act: Callable[[], object]) -> list[tuple[str, object]]:
    seen: list[tuple[str, object]] = []
    disk.probe = lambda verb, path: seen.append((verb, path))
    act()
    disk.probe = None
    return seen


def test_an_error_at_any_verb_takes_everything_back(tmp_path: Path) -> None:
    total = len(verbs(lambda: Ground(tmp_path / "count", NOW, WANTED).carry_out()))
    assert total > 20
    for n in range(1, total + 1):
        ground = Ground(tmp_path / f"w{n}", NOW, WANTED)
        disk.probe = stop_at(n)
        with pytest.raises(Stop):
            ground.carry_out()
        disk.probe = None
        ground.check_unchanged()


def test_an_io_error_at_any_verb_is_ours_and_takes_everything_back(tmp_path: Path) -> None:
    for code, kind in ((errno.EIO, CheckpointerError), (errno.ENOSPC, NoSpace), (errno.EACCES, Failed)):
        n = 0
        while True:
            n += 1
            ground = Ground(tmp_path / f"{code}-{n}", NOW, WANTED)
            reached = 0

            def probe(verb: str, path: object, n: int = n, code: int = code) -> None:
                nonlocal reached
                reached += 1
                if reached == n:
                    raise OSError(code, os.strerror(code))

            disk.probe = probe
            try:
                ground.carry_out()
            except kind:
                disk.probe = None
                ground.check_unchanged()
            if reached < n:
                break
        assert n > 20


def interfere(at: str, act: Callable[[], None]) -> None:
    """Do something of the user's right before the first durable verb of this kind."""
    done = False

    def probe(verb: str, path: object) -> None:
        nonlocal done
        if verb == at and not done:
            done = True
            act()

    disk.probe = probe


BIG = {b"%03d" % i: file(b"old") for i in range(40)}
BIGGER = {b"%03d" % i: file(b"new") for i in range(40)}


@pytest.mark.parametrize("when", ["create", "sync_file_system", "rename"])
def test_an_edit_made_meanwhile_is_kept_and_the_rest_taken_back(tmp_path: Path, when: str) -> None:
    ground = Ground(tmp_path / "w", BIG, BIGGER)
    theirs = tmp_path / "w" / "030"
    interfere(when, lambda: theirs.write_bytes(b"mine"))
    with pytest.raises(Interfered) as raised:
        ground.carry_out()
    disk.probe = None
    assert "030" in raised.value.message
    assert theirs.read_bytes() == b"mine"
    same(ground.before.without(b"030"), ground.now().without(b"030"))


def test_same_size_edit_with_the_old_time_is_seen(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "w", BIG, BIGGER)
    theirs = tmp_path / "w" / "030"
    old = theirs.stat()

    def edit() -> None:
        theirs.write_bytes(b"own")
        os.utime(theirs, ns=(old.st_atime_ns, old.st_mtime_ns))

    interfere("rename", edit)
    with pytest.raises(Interfered):
        ground.carry_out()
    assert theirs.read_bytes() == b"own"


def test_a_second_write_within_one_tick_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's clock can be so coarse that a file written twice bears one time, and one signature."""
    monkeypatch.setattr(Captured, "_as_expected", lambda self, path, st: True)  # as it is within a tick
    ground = Ground(tmp_path / "w", BIG, BIGGER)
    theirs = tmp_path / "w" / "030"
    interfere("rename", lambda: theirs.write_bytes(b"own") and None)
    with pytest.raises(Interfered):
        ground.carry_out(seen_ns=time.time_ns())
    assert theirs.read_bytes() == b"own"
    assert (tmp_path / "w" / "001").read_bytes() == b"old"


def test_a_file_made_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "w", {}, {b"a": file(b"a"), b"b": file(b"b")})
    interfere("rename", lambda: (tmp_path / "w" / "b").write_bytes(b"mine") and None)
    with pytest.raises(Interfered):
        ground.carry_out()
    assert (tmp_path / "w" / "b").read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path / "w")) == ["b"]


def test_a_directory_that_is_not_empty_any_more_stays(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "w", {b"d/a": file(b"a")}, {})
    interfere("rmdir", lambda: (tmp_path / "w" / "d" / "mine").write_bytes(b"mine") and None)
    done = ground.carry_out()
    assert done.stayed == [b"d"]
    assert done.removed == [b"d/a"]
    assert (tmp_path / "w" / "d" / "mine").read_bytes() == b"mine"


def test_a_directory_that_must_give_way_but_is_not_empty_refuses(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "w", {b"d/a": file(b"a")}, {b"d": file(b"now a file")})
    (tmp_path / "w" / "d" / "mine").write_bytes(b"mine")
    with pytest.raises(Interfered):
        ground.carry_out()
    assert (tmp_path / "w" / "d" / "mine").read_bytes() == b"mine"
    assert (tmp_path / "w" / "d" / "a").read_bytes() == b"a"


OUT: Spec = {b"d/s/a": file(b"1"), b"d/s/b": file(b"1"), b"d/s/c": file(b"1")}
OUT2: Spec = {b"d/s/a": file(b"2"), b"d/s/b": file(b"2"), b"d/s/c": file(b"2"), b"d/s/new": file(b"2")}


@pytest.mark.parametrize("when", ["create", "sync", "rename"])
@pytest.mark.parametrize("which", ["d", "d/s"])
@pytest.mark.parametrize("to", ["itself", "other"])
def test_nothing_is_written_through_a_symlink(tmp_path: Path, when: str, which: str, to: str) -> None:
    """A directory is moved out and a link put in its place while the restore is at work."""
    ground = Ground(tmp_path / "w", OUT, OUT2)
    out = tmp_path / "out"
    other = tmp_path / "other"
    (other / "s").mkdir(parents=True)
    for name in "abc":
        (other / name).write_bytes(b"precious")
        (other / "s" / name).write_bytes(b"precious")
    expected = Manifest.of(other)

    def swap() -> None:
        os.rename(tmp_path / "w" / which, out)
        os.symlink(out if to == "itself" else other, tmp_path / "w" / which)

    interfere(when, swap)
    with pytest.raises(CheckpointerError):
        ground.carry_out()
    disk.probe = None
    same(expected, Manifest.of(other))
    left = [
        p
        for p, node in Manifest.of(out).items()
        if node.content == b"2" and not p.rpartition(b"/")[2].startswith(b".ckpt-")
    ]
    assert len(left) <= (1 if when == "rename" else 0), "written outside"


def test_a_hard_link_outside_keeps_its_bytes_and_its_mode(tmp_path: Path) -> None:
    ground = Ground(
        tmp_path / "w", {b"a": file(b"1"), b"m": file(b"m", 0o644)}, {b"a": file(b"2"), b"m": file(b"m", 0o755)}
    )
    for name in "am":
        os.link(tmp_path / "w" / name, tmp_path / f"out-{name}")
        ground.signatures[name.encode()] = signature(os.lstat(tmp_path / "w" / name))
    done = ground.carry_out()
    assert done.unlinked == [b"a", b"m"]
    assert (tmp_path / "out-a").read_bytes() == b"1"
    assert stat.S_IMODE((tmp_path / "out-m").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "w" / "m").stat().st_mode) == 0o755


def test_two_names_of_one_file_are_both_restored(tmp_path: Path) -> None:
    names = (b"h1", b"h2", b"h3")
    ground = Ground(tmp_path / "w", {b"h1": file(b"new")}, {name: file(b"old") for name in names})
    for name in (b"h2", b"h3"):
        os.link(tmp_path / "w" / "h1", os.path.join(os.fsencode(tmp_path), b"w", name))
        ground.changes[name] = Replacement(ground.changes[b"h1"].current, ground.changes[name].wanted)
    for name in names:
        ground.signatures[name] = signature(os.lstat(os.path.join(os.fsencode(tmp_path), b"w", name)))
    ground.carry_out()
    ground.check_done()


def test_a_mode_alone_keeps_the_inode(tmp_path: Path) -> None:
    ground = Ground(
        tmp_path / "w",
        {b"s": file(b"s", 0o000), b"d": directory(0o755)},
        {b"s": file(b"s", 0o644), b"d": directory(0o700)},
    )
    ino = (tmp_path / "w" / "s").stat().st_ino
    ground.carry_out()
    ground.check_done()
    assert (tmp_path / "w" / "s").stat().st_ino == ino


def test_setuid_and_sticky_bits_come_back(tmp_path: Path) -> None:
    ground = Ground(
        tmp_path / "w",
        {},
        {b"s": file(b"s", 0o4755), b"t": directory(0o1777), b"g/x": file(b"x"), b"g": directory(0o2755)},
    )
    ground.carry_out()
    ground.check_done()


def test_paths_longer_than_the_system_takes(tmp_path: Path) -> None:
    name = b"n" * 200
    deep = b"/".join([name] * 30)
    root = tmp_path / "w"
    root.mkdir()
    sink = MemorySink(Nothing())
    entries = {deep + b"/f": Entry("file", sink.add("blob", b"deep"), 0o644)}
    for i in range(1, 31):
        entries[b"/".join([name] * i)] = Entry("dir", b"", 0o755)
    with Directories(os.fsencode(root)) as directories:
        Carrier(directories, sink, {p: Replacement(None, e) for p, e in entries.items()}, lambda p: None, TOKEN).run()
    with Directories(os.fsencode(root)) as directories:
        fd = directories.open_file(deep + b"/f")
        assert os.read(fd, 10) == b"deep"
        os.close(fd)
        signatures = {deep + b"/f": signature(directories.lstat(deep + b"/f"))}  # type: ignore[arg-type]
        Carrier(directories, sink, {p: Replacement(e, None) for p, e in entries.items()}, signatures.get, TOKEN).run()
    assert os.listdir(root) == []


def test_large_content_streams_and_holes_stay_holes(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    data = os.urandom(3 << 20) + bytes(20 << 20) + b"end"
    sink = MemorySink(Nothing())
    oid = sink.add("blob", data)
    with Directories(os.fsencode(root)) as directories:
        Carrier(directories, sink, {b"f": Replacement(None, Entry("file", oid, 0o644))}, lambda p: None, TOKEN).run()
    assert (root / "f").read_bytes() == data
    assert (root / "f").stat().st_blocks * 512 < len(data) - (10 << 20)


def test_content_the_store_lost_changes_nothing(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "w", BIG, BIGGER)
    ground.changes[b"039"] = Replacement(ground.changes[b"039"].current, Entry("file", b"\x11" * 20, 0o644))
    with pytest.raises(MissingObject):
        ground.carry_out()
    ground.check_unchanged()


def test_user_attributes_stay(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "w", {b"a": file(b"1")}, {b"a": file(b"2")})
    try:
        os.setxattr(tmp_path / "w" / "a", "user.note", b"mine")
    except (OSError, AttributeError):
        pytest.skip("no user attributes here")
    ground.signatures[b"a"] = signature(os.lstat(tmp_path / "w" / "a"))
    ground.carry_out()
    assert os.getxattr(tmp_path / "w" / "a", "user.note") == b"mine"


@needs_root
def test_root_keeps_the_owner(tmp_path: Path) -> None:
    ground = Ground(
        tmp_path / "w",
        {b"a": file(b"1"), b"d/x": file(b"x")},
        {b"a": file(b"2", 0o4711), b"d/x": file(b"x"), b"d/new": file(b"n"), b"d/sub/l": link(b"x")},
    )
    for path in (b"a", b"d", b"d/x"):
        os.chown(os.path.join(os.fsencode(tmp_path), b"w", path), 1234, 2345)
        ground.signatures[path] = signature(os.lstat(os.path.join(os.fsencode(tmp_path), b"w", path)))
    ground.carry_out()
    ground.check_done()
    for path in ("a", "d/new", "d/sub", "d/sub/l"):
        st_ = os.lstat(tmp_path / "w" / path)
        assert (st_.st_uid, st_.st_gid) == (1234, 2345), path


@needs_root
def test_no_space_keeps_the_old_bytes(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "4m") as small:
        wanted = {b"a": file(os.urandom(1 << 20)), b"b": file(b"2")}
        ground = Ground(small / "w", {b"a": file(b"1"), b"b": file(b"1")}, wanted)
        fill(small / "filler", leave=8192)
        with pytest.raises(NoSpace):
            ground.carry_out()
        ground.check_unchanged()


def _owned(root: Path) -> None:
    for where, names, files in os.walk(os.fsencode(root)):
        for name in (b"", *names, *files):
            os.chown(os.path.join(where, name) if name else where, NOBODY, NOBODY, follow_symlinks=False)


def _nobodys(tmp_path: Path, now: Spec, wanted: Spec, closed: dict[bytes, int] | None = None) -> Ground:
    os.chmod(tmp_path, 0o777)
    above = tmp_path
    while above != above.parent and IS_ROOT:
        if not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)
        above = above.parent
    ground = Ground(tmp_path / "w", now, wanted)
    if IS_ROOT:
        _owned(tmp_path / "w")
    for path, mode in (closed or {}).items():
        os.chmod(os.path.join(os.fsencode(tmp_path), b"w", path), mode)
    for path in ground.signatures:
        ground.signatures[path] = signature(os.lstat(os.path.join(os.fsencode(tmp_path), b"w", path)))
    ground.before = Manifest.of(tmp_path / "w")
    return ground


def test_a_closed_directory_refuses_all_and_names_it(tmp_path: Path, as_nobody: Callable[..., None]) -> None:
    now: Spec = {b"a": file(b"1"), b"d/f": file(b"1", 0o444), b"d/g": file(b"g"), b"z": file(b"1")}
    wanted: Spec = {b"a": file(b"2"), b"d/f": file(b"2", 0o444), b"d": directory(), b"z": file(b"2")}
    ground = _nobodys(tmp_path, now, wanted, {b"d": 0o555})

    def child() -> None:
        with pytest.raises(Failed) as raised:
            ground.carry_out()
        assert raised.value.exit == 1
        assert raised.value.details["paths"] == ["d/f", "d/g"]
        ground.check_unchanged()
        os.chmod(tmp_path / "w" / "d", 0o755)
        ground.carry_out()

    as_nobody(child)
    ground.before = ground.now()
    ground.check_done()


@needs_root
def test_a_file_of_somebody_else_refuses(tmp_path: Path, as_nobody: Callable[..., None]) -> None:
    ground = _nobodys(tmp_path, {b"a": file(b"1"), b"f": file(b"1")}, {b"a": file(b"2"), b"f": file(b"2")})
    os.chown(tmp_path / "w" / "f", 0, 0)
    ground.signatures[b"f"] = signature(os.lstat(tmp_path / "w" / "f"))
    ground.before = ground.now()

    def child() -> None:
        with pytest.raises(Failed) as raised:
            ground.carry_out()
        assert raised.value.details["paths"] == ["f"]

    as_nobody(child)
    ground.check_unchanged()


def test_directories_that_go_or_change_their_mode_are_opened_for_the_work(
    tmp_path: Path, as_nobody: Callable[..., None]
) -> None:
    now: Spec = {
        b"ro": directory(0o555),
        b"ro/deep": directory(0o555),
        b"ro/deep/f": file(b"f", 0o444),
        b"shut": directory(0o500),
        b"shut/x": file(b"1"),
    }
    wanted: Spec = {b"shut": directory(0o750), b"shut/x": file(b"2"), b"new": directory(0o555), b"new/y": file(b"y")}
    ground = _nobodys(tmp_path, now, wanted)
    total = 0

    def child() -> None:
        nonlocal total
        total = len(verbs(ground.carry_out))
        ground.check_done()
        assert total > 8

    as_nobody(child)


def test_what_was_opened_is_closed_again_when_taken_back(tmp_path: Path, as_nobody: Callable[..., None]) -> None:
    now: Spec = {b"ro": directory(0o555), b"ro/deep": directory(0o555), b"ro/deep/f": file(b"f", 0o444)}
    wanted: Spec = {b"new/y": file(b"y")}
    for n in range(1, 9):
        place = tmp_path / str(n)
        place.mkdir()
        ground = _nobodys(place, now, wanted)

        def child(ground: Ground = ground, n: int = n) -> None:
            disk.probe = stop_at(n)
            with pytest.raises(Stop):
                ground.carry_out()
            disk.probe = None
            ground.check_unchanged()

        as_nobody(child)


def test_temporary_files_of_one_prepared_commit_are_swept_and_no_others(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "w", BIG | {b"d/x": file(b"1")}, BIGGER | {b"d/x": file(b"2")})
    child = os.fork()
    if child == 0:
        disk.probe = lambda verb, path: os._exit(9) if verb == "rename" else None
        ground.carry_out()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    foreign = tmp_path / "w" / "d" / ".ckpt-ba9876543210-1.tmp"
    foreign.write_bytes(b"not ours")
    with Directories(os.fsencode(ground.root)) as directories:
        swept = sweep(directories, TOKEN, ground.changes)
    assert len(swept) == 41
    foreign.unlink()
    ground.check_unchanged()


def test_lenient_leaves_what_is_not_as_expected(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "w", BIG, BIGGER)
    (tmp_path / "w" / "007").write_bytes(b"mine")
    done = ground.carry_out(lenient=True)
    assert list(done.left) == [b"007"]
    assert (tmp_path / "w" / "007").read_bytes() == b"mine"
    assert (tmp_path / "w" / "008").read_bytes() == b"new"


@pytest.mark.parametrize(("count", "data"), [(3, "sync"), (40, "sync_file_system")])
def test_order_of_syncs(tmp_path: Path, count: int, data: str) -> None:
    """Content is durable before a name shows it; names are durable before the end."""
    ground = Ground(tmp_path / "w", {}, {b"d/%03d" % i: file(b"%d" % i) for i in range(count)})
    seen = [verb for verb, _ in verbs(ground.carry_out) if verb not in ("create", "mkdir")]
    kinds = [verb for verb, before in zip(seen, [None, *seen[:-1]], strict=True) if verb != before]
    assert kinds == [data, "rename", "sync_directory"]
    assert seen.count("rename") == count
    assert seen.count("sync_directory") == 2
    if data == "sync":
        assert seen.count("sync") == count


def test_killed_at_any_moment_the_same_changes_reach_the_end(tmp_path: Path) -> None:
    """SIGKILL, then carry on with what stands: what settling does, without a store."""
    from checkpointer.workspace.restoring.standing import standing

    rng = random.Random(5)
    for round_ in range(6):
        ground = Ground(tmp_path / str(round_), BIG | NOW, BIGGER | WANTED)
        limit = rng.randrange(1, 120)
        child = os.fork()
        if child == 0:
            count = 0

            def probe(verb: str, path: object, limit: int = limit) -> None:
                nonlocal count
                count += 1
                if count == limit:
                    os.kill(os.getpid(), signal.SIGKILL)

            disk.probe = probe
            ground.carry_out()
            os._exit(0)
        os.waitpid(child, 0)
        with Directories(os.fsencode(ground.root)) as directories:
            sweep(directories, TOKEN, ground.changes)
            changes, signatures = {}, {}
            for path, change in ground.changes.items():
                try:
                    seen, sig = standing(directories, path)
                except OSError:
                    seen, sig = None, None
                if seen != change.wanted:
                    changes[path] = Replacement(seen, change.wanted)
                    signatures[path] = sig
            done = Carrier(directories, ground.sink, changes, signatures.get, TOKEN, lenient=True).run()
        assert not done.left
        ground.check_done()


# Mutants: without each check, the guarantee above it breaks. So the tests above can fail.


def test_without_the_signature_check_an_edit_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Captured, "_as_expected", lambda self, path, st: True)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_an_edit_made_meanwhile_is_kept_and_the_rest_taken_back(tmp_path, "rename")


def test_without_nofollow_something_is_written_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from checkpointer.workspace import directories

    monkeypatch.setattr(directories, "_OPEN", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    monkeypatch.setattr(Directories, "_note", lambda self, directory, st: None)
    monkeypatch.setattr(Directories, "confirm", lambda self, directory: None)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test_nothing_is_written_through_a_symlink(tmp_path, "rename", "d/s", "itself")
