"""What git tracks: as `git ls-files` says, whatever form its index has; damaged, everything counts as tracked."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ignoretree import Tree, git, make_git, place, put, trees

from checkpointer.workspace.rules.gitindex import Tracked
from checkpointer.workspace.rules.indexfile import parse

Place = tuple[bytes, dict[bytes, bytes]]
BLOB = {"sha1": b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"}
BLOB["sha256"] = b"473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"
WHO = ["-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always"]


def _init(root: bytes, environment: dict[bytes, bytes], *words: str) -> None:
    os.makedirs(root, exist_ok=True)
    git(root, environment, "init", "-q", *words)


def _add(root: bytes, environment: dict[bytes, bytes], paths: list[bytes], *words: str, of: str = "sha1") -> None:
    given = b"".join(b"100644 %s 0\t%s\0" % (BLOB[of], p) for p in paths)
    git(root, environment, *words, "update-index", "-z", "--add", "--replace", "--index-info", given=given)


def _listed(root: bytes, environment: dict[bytes, bytes]) -> list[bytes]:
    return sorted(set(git(root, environment, "ls-files", "-z").split(b"\0")[:-1]))


def _agree(root: bytes, environment: dict[bytes, bytes], asked: list[bytes]) -> None:
    tracked = Tracked(root)
    listed = _listed(root, environment)
    directories = {p[:i] for p in [*listed, *asked] for i, c in enumerate(p) if c == ord("/")} | set(asked)
    for path in [*listed, *asked]:
        assert (path in tracked) == (path in listed), path
    for directory in directories:
        expected = any(p == directory or p.startswith(directory + b"/") for p in listed)
        assert tracked.any_below(directory) == expected, directory
    assert tracked.any_below(b"") == bool(listed)
    assert not tracked.notices


@pytest.fixture
def work() -> Iterator[Place]:
    with place() as (base, environment):
        yield base + b"/w", environment


@given(trees(), st.sampled_from([2, 3, 4]), st.sampled_from(["sha1", "sha256"]), st.booleans())
@settings(max_examples=30)
def test_as_git_lists_it(tree: Tree, version: int, of: str, hashed: bool) -> None:
    with place() as (base, environment):
        root = base + b"/w"
        _init(root, environment, f"--object-format={of}")
        names = sorted(set(tree.files))
        half = names[::2]
        config = ["-c", f"index.version={version}", "-c", f"index.skipHash={not hashed}".lower()]
        _add(root, environment, half, *config, of=of)
        if half and version == 3:
            flagged = _listed(root, environment)[0]
            git(root, environment, *config, "update-index", "--skip-worktree", "-z", "--stdin", given=flagged + b"\0")
        _agree(root, environment, names)


def test_without_an_index_nothing_is_tracked(work: Place) -> None:
    root, environment = work
    os.makedirs(root)
    assert b"x" not in Tracked(root)
    assert not Tracked(root).any_below(b"")
    _init(root, environment)
    assert b"x" not in Tracked(root)
    assert Tracked(root).notices == []


def test_a_workspace_inside_a_work_tree(work: Place) -> None:
    root, environment = work
    _init(root, environment)
    _add(root, environment, [b"a", b"in/side/b", b"in/side/d/c", b"in/sidecar/e"])
    os.makedirs(root + b"/in/side")
    tracked = Tracked(root + b"/in/side")
    assert b"b" in tracked
    assert b"a" not in tracked
    assert tracked.any_below(b"d")
    assert tracked.any_below(b"")
    assert not tracked.any_below(b"e")


def test_a_split_index_adds_to_its_base(work: Place) -> None:
    root, environment = work
    _init(root, environment)
    git(root, environment, "config", "splitIndex.maxPercentChange", "100")
    for name in (b"a", b"d/b"):
        put(root + b"/" + name, b"")
    git(root, environment, "add", ".")
    git(root, environment, "update-index", "--split-index")
    put(root + b"/c", b"")
    git(root, environment, "add", "c")
    git(root, environment, "update-index", "--chmod=+x", "a")
    assert any(n.startswith("sharedindex.") for n in os.listdir(os.fsdecode(root) + "/.git"))
    _agree(root, environment, [b"x", b"d/x"])
    git(root, environment, "rm", "-q", "--cached", "a")
    tracked = Tracked(root)
    assert all(p in tracked for p in (b"c", b"d/b"))
    assert b"x" not in tracked
    for name in os.listdir(root + b"/.git"):
        if name.startswith(b"sharedindex."):
            os.remove(root + b"/.git/" + name)
    os.utime(root + b"/.git/index", (1, 1))  # or it would still be known
    tracked = Tracked(root)
    assert b"x" in tracked
    assert "shared index" in tracked.notices[0]


def test_a_sparse_index_tracks_all_below_its_directories(work: Place) -> None:
    root, environment = work
    _init(root, environment)
    for name in (b"a/1", b"b/c/2", b"b/3", b"top"):
        put(root + b"/" + name, b"")
    git(root, environment, "add", ".")
    git(root, environment, *WHO, "commit", "-q", "-m", "first")
    git(root, environment, "sparse-checkout", "set", "--cone", "--sparse-index", "a")
    with open(root + b"/.git/index", "rb") as f:
        assert b"b/" in parse(f.read(), id_size=20).paths
    tracked = Tracked(root)
    assert all(p in tracked for p in (b"a/1", b"b/c/2", b"b/3", b"top"))
    assert tracked.any_below(b"b")
    assert tracked.any_below(b"b/c")
    assert b"a/x" not in tracked
    assert not tracked.any_below(b"c")


def test_nested_repositories_and_submodules(work: Place) -> None:
    root, environment = work
    origin = os.path.dirname(root) + b"/origin"
    for where in (root, origin, root + b"/d/nest"):
        _init(where, environment)
        put(where + b"/in", b"")
        git(where, environment, "add", "in")
        git(where, environment, *WHO, "commit", "-q", "-m", "first")
    git(root, environment, *WHO, "submodule", "--quiet", "add", origin, "module")
    tracked = Tracked(root)
    assert all(p in tracked for p in (b"in", b"d/nest/in", b"module/in", b"module"))
    assert not any(p in tracked for p in (b"x", b"d/in", b"d/nest/x", b"module/x", b"d/nest"))
    assert tracked.any_below(b"module"), "the repository around it tracks a submodule"
    assert not tracked.any_below(b"d/nest"), "but not a repository that only lies there"


def test_its_identity_follows_the_index(work: Place) -> None:
    root, environment = work
    os.makedirs(root)
    none = Tracked(root).identity
    _init(root, environment)
    empty = Tracked(root).identity
    _add(root, environment, [b"a"])
    one = Tracked(root).identity
    _add(root, environment, [b"b"])
    assert len({none, empty, one, Tracked(root).identity}) == 4
    assert Tracked(root).identity == Tracked(root).identity


@lru_cache
def _whole(version: int) -> bytes:
    with place() as (base, environment):
        _init(base + b"/w", environment)
        _add(base + b"/w", environment, [b"a", b"d/b", b"d/c"], "-c", f"index.version={version}")
        with open(base + b"/w/.git/index", "rb") as f:
            return f.read()


class TestDamaged:
    @given(st.data(), st.sampled_from([2, 4]))
    @settings(max_examples=100)
    def test_everything_counts_as_tracked(self, data: st.DataObject, version: int) -> None:
        whole = _whole(version)
        at = data.draw(st.integers(0, len(whole) - 1))
        broken = data.draw(st.sampled_from([whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]]))
        with place() as (base, _):
            make_git(base + b"/w/.git")
            put(base + b"/w/.git/index", broken)
            tracked = Tracked(base + b"/w")
            assert b"anything" in tracked
            assert tracked.any_below(b"at/all")
            assert len(tracked.notices) == 1

    @given(st.binary(max_size=300), st.integers(2, 4), st.integers(0, 5))
    @settings(max_examples=200)
    def test_no_bytes_break_the_reader(self, body: bytes, version: int, count: int) -> None:
        data = b"DIRC" + version.to_bytes(4, "big") + count.to_bytes(4, "big") + body + bytes(20)
        with contextlib.suppress(ValueError):
            assert len(parse(data, id_size=20).paths) == count

    def test_no_index_of_another_kind_of_file(self, work: Place) -> None:
        root, environment = work
        _init(root, environment)
        os.mkfifo(root + b"/.git/index")
        assert b"x" not in Tracked(root)
        os.remove(root + b"/.git/index")
        put(root + b"/.git/config", b"[extensions\n")
        assert b"x" in Tracked(root)
