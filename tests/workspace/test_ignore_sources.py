"""A rule file that is not what it should be never blocks, never fails, and never makes more ignored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ignoretree import check_ignore, make_git, place, put

from checkpointer.workspace.rules.ignore import LONGEST, Rules

Place = tuple[bytes, dict[bytes, bytes]]


@pytest.fixture
def repository() -> Iterator[Place]:
    """A work tree whose outer rules ignore `*.o`, and a home."""
    with place() as (base, environment):
        root = base + b"/w"
        make_git(root + b"/.git")
        put(root + b"/.gitignore", b"*.o\n")
        os.mkdir(root + b"/d")
        yield root, environment


def _elsewhere(root: bytes) -> bytes:
    put(os.path.dirname(root) + b"/rules", b"*\n")
    return os.path.dirname(root) + b"/rules"


@pytest.mark.parametrize("name", [b".gitignore", b".ckptignore"])
class TestFilesInTheWorkspace:
    def test_a_link_is_not_followed(self, repository: Place, name: bytes) -> None:
        root, environment = repository
        os.symlink(_elsewhere(root), root + b"/d/" + name)
        rules = Rules(root, environment=environment)
        assert not rules.ignored(b"d/x")
        assert rules.ignored(b"d/x.o")

    def test_a_directory_is_no_rules(self, repository: Place, name: bytes) -> None:
        root, environment = repository
        os.mkdir(root + b"/d/" + name)
        rules = Rules(root, environment=environment)
        assert not rules.ignored(b"d/x")
        assert rules.ignored(b"d/x.o")

    def test_a_fifo_does_not_block(self, repository: Place, name: bytes) -> None:
        root, environment = repository
        os.mkfifo(root + b"/d/" + name)
        rules = Rules(root, environment=environment)
        assert not rules.ignored(b"d/x")
        assert rules.ignored(b"d/x.o")

    def test_too_large_means_that_everything_there_is_ours(self, repository: Place, name: bytes) -> None:
        root, environment = repository
        put(root + b"/d/" + name, b"*\n")
        os.truncate(root + b"/d/" + name, LONGEST + 1)
        rules = Rules(root, environment=environment)
        assert not any(rules.ignored(p) for p in (b"d/x", b"d/x.o", b"d/e/x.o"))
        assert rules.ignored(b"x.o")

    def test_unreadable_means_that_everything_there_is_ours(
        self, repository: Place, name: bytes, as_nobody: Callable[[Callable[[], Any]], None]
    ) -> None:
        root, environment = repository
        put(root + b"/d/" + name, b"!x.o\n")
        os.chmod(root + b"/d/" + name, 0)
        os.chmod(os.path.dirname(root), 0o755)

        def asked() -> None:
            rules = Rules(root, environment=environment)
            assert not rules.ignored(b"d/x.o")
            assert rules.ignored(b"x.o")

        as_nobody(asked)

    def test_read_by_callback_and_failing(self, repository: Place, name: bytes) -> None:
        root, environment = repository

        def read(path: bytes) -> bytes | None:
            if path == b"d/" + name:
                raise PermissionError(13, "no")
            return b"*.o\n" if path == b".gitignore" else None

        rules = Rules(root, read=read, environment=environment)
        assert not rules.ignored(b"d/x.o")
        assert rules.ignored(b"x.o")


def test_a_directory_that_cannot_be_entered_hides_its_rules(
    repository: Place, as_nobody: Callable[[Callable[[], Any]], None]
) -> None:
    root, environment = repository
    put(root + b"/d/.gitignore", b"!x.o\n")
    os.chmod(root + b"/d", 0)
    os.chmod(os.path.dirname(root), 0o755)

    def asked() -> None:
        assert not Rules(root, environment=environment).ignored(b"d/x.o")

    try:
        as_nobody(asked)
    finally:
        os.chmod(root + b"/d", 0o755)


def test_a_link_to_a_directory_is_no_way_to_other_rules(repository: Place) -> None:
    root, environment = repository
    put(os.path.dirname(root) + b"/other/.gitignore", b"!x.o\n*\n")
    os.symlink(b"../other", root + b"/link")
    rules = Rules(root, environment=environment)
    assert rules.ignored(b"link/x.o")
    assert not rules.ignored(b"link/x")


@pytest.mark.parametrize(
    "kind", ["directory", "fifo", "missing", "large", "dangling", "loop", "file", "link", "relative"]
)
def test_the_users_own_file(repository: Place, kind: str) -> None:
    root, environment = repository
    path = environment[b"HOME"] + b"/mine"
    put(environment[b"HOME"] + b"/.gitconfig", b"[core]\nexcludesFile = " + (b"mine" if kind == "relative" else path))
    put(environment[b"HOME"] + b"/.config/git/ignore", b"*.default\n")
    put(root + b"/mine", b"*.mine\n")
    if kind == "directory":
        os.mkdir(path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind in ("file", "large"):
        put(path, b"*.mine\n")
        if kind == "large":
            os.truncate(path, LONGEST + 1)
    elif kind in ("link", "dangling", "loop"):
        put(environment[b"HOME"] + b"/real", b"*.mine\n")
        os.symlink({"link": b"real", "dangling": b"nothing", "loop": b"mine"}[kind], path)
    rules = Rules(root, environment=environment)
    assert rules.ignored(b"a.mine") == (kind in ("file", "link", "relative"))
    assert not rules.ignored(b"a.default")
    assert rules.ignored(b"a.o")


@pytest.mark.parametrize("what", ["link", "directory", "missing"])
def test_as_git_takes_it(repository: Place, what: str) -> None:
    root, environment = repository
    os.remove(root + b"/.gitignore")
    if what == "link":
        os.symlink(_elsewhere(root), root + b"/.gitignore")
    elif what == "directory":
        os.mkdir(root + b"/.gitignore")
    assert check_ignore(root, environment, [b"x", b"d"]) == {b"x": None, b"d": None}
    assert not Rules(root, environment=environment).ignored(b"x")


def test_case_counts_whatever_the_configuration_says(repository: Place) -> None:
    root, environment = repository
    put(root + b"/.git/config", b"[core]\nignorecase = true\n")
    rules = Rules(root, environment=environment)
    assert not rules.ignored(b"x.O")
    assert rules.ignored(b"x.o")


def test_no_variable_of_gits_changes_anything(repository: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    root, _ = repository
    elsewhere = _elsewhere(root)
    monkeypatch.setenv("HOME", os.fsdecode(os.path.dirname(root) + b"/home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for key in ("GIT_DIR", "GIT_WORK_TREE", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_INDEX_FILE"):
        monkeypatch.setenv(key, os.fsdecode(elsewhere))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.excludesFile")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", os.fsdecode(elsewhere))
    rules = Rules(root)
    assert not rules.ignored(b"x")
    assert rules.ignored(b"x.o")


def test_without_a_home_there_are_no_rules_of_the_user(repository: Place) -> None:
    root, _ = repository
    assert Rules(root, environment={}).ignored(b"x.o")
    assert not Rules(root, environment={}).ignored(b"x")
