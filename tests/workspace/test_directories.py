"""Directories reached by descriptor: few stay open, and one that was just given out is no other directory's."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.machine import descriptors

from checkpointer.workspace.directories import Directories

FREE = 300


@pytest.fixture
def most() -> Iterator[int]:
    """How many directories may stay open."""
    with descriptors(FREE):
        yield min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)


def deep(root: Path, name: str, depth: int) -> list[bytes]:
    """A chain of directories below `name`, each in the one before; from the top."""
    paths = [os.fsencode("/".join([name, *("d" for _ in range(i))])) for i in range(depth)]
    (root / os.fsdecode(paths[-1])).mkdir(parents=True)
    return paths


def inode(root: Path, path: bytes) -> int:
    return (root / os.fsdecode(path)).stat().st_ino


def test_what_was_given_last_stays_open_however_deep_the_next_one_is(tmp_path: Path, most: int) -> None:
    chains = [deep(tmp_path, "a", most + 9), deep(tmp_path, "b", most + 9)]
    with Directories(os.fsencode(tmp_path)) as directories:
        for first, second in [(0, -1), (-1, 0), (-1, -1), (3, -2)]:
            one, other = chains[0][first], chains[1][second]
            held = directories.fd(one)
            next_ = directories.fd(other)
            assert os.fstat(held).st_ino == inode(tmp_path, one)
            assert os.fstat(next_).st_ino == inode(tmp_path, other)


def test_most_of_the_descriptors_are_left_to_others(tmp_path: Path, most: int) -> None:
    chains = [deep(tmp_path, name, most) for name in "abc"]
    before = len(os.listdir("/dev/fd"))
    with Directories(os.fsencode(tmp_path)) as directories:
        for path in (path for chain in chains for path in chain):
            directories.fd(path)
        assert len(os.listdir("/dev/fd")) - before <= most + 1
    assert len(os.listdir("/dev/fd")) == before
