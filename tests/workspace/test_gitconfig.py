"""Where the user's own ignore rules are: as `git config --path core.excludesFile` says."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ignoretree import make_git, place, put

from checkpointer.workspace.project.gitdir import git_at
from checkpointer.workspace.rules.gitconfig import excludes_file, object_format

PIECES = [
    *("[core]\n", "[CORE] ", '[core "x"]\n', "[core.x]\n", "[user]\n", "[core]", "[", "]\n"),
    *("[ core]\n", '[x "a\\"b"]\n'),
    *("excludesFile = ~/a\n", "EXCLUDESFILE=/b\n", 'excludesFile = "c d" e # x\n'),
    *("excludesFile\n", "excludesFile =\n"),
    *("excludesFile = a\\\n  b\n", "excludesFile = a\\tb\\\\\n", 'excludesFile = "a;b"  ;c\n', "excludesFile = a\\x\n"),
    *('excludesFile = "open\n', "\texcludesfile\t=\tq  \n", "excludesFile = z\r\n"),
    *("excludes_file = n\n", "name = v\n"),
    *("# comment\n", "; [core]\n", "\n", "  ", "1 = 2\n", "excludes-file = n\n", "excludesFile : a\n"),
    *("\ufeff", "= x\n", "[]\n", '[ "x"]\n'),
    *("[include]\npath = more\n", "[include]\npath = ~/.more\n", "[include] path = missing\n", "[include]\npath\n"),
]
CONDITIONS = [
    *("gitdir:~/", "gitdir:w/", "gitdir:w/.git", "gitdir:./../w/", "gitdir:**/w/**", "gitdir:/nowhere/", "gitdir:w"),
    *("gitdir/i:W/", "gitdir:W/", "onbranch:main", "onbranch:m*", "onbranch:topic/", "gitdir:~"),
    *("other:x", "gitdir:?/"),
    *("gitdir/i:~/../W/.GIT", "gitdir:[w]/", "gitdir:*/.git", "gitdir:.git", "gitdir:~nobodyatall/"),
]
PIECES += [f'[includeIf "{c}"]\npath = more\n' for c in CONDITIONS]

config = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


def _by_git(root: bytes, environment: dict[bytes, bytes]) -> bytes | Exception | None:
    words = ["git", "config", "-z", "--path", "--get", "core.excludesfile"]
    done = subprocess.run(words, cwd=root, env=environment, capture_output=True)
    if done.returncode == 0:
        return done.stdout[:-1]
    return None if done.returncode == 1 else ValueError(done.stderr)


@given(config, config, config, config)
@settings(max_examples=120)
def test_as_git_reads_it(user: str, repository: str, more: str, xdg: str) -> None:
    with place() as (base, environment):
        home = environment[b"HOME"]
        root = base + b"/w"
        make_git(root + b"/.git")
        put(root + b"/.git/config", repository.encode())
        put(home + b"/.gitconfig", user.encode())
        put(home + b"/.config/git/config", xdg.encode())
        for name in (b"/.more", b"/more", b"/.config/git/more"):
            put(home + name, more.replace("more", "mor").encode())
        by_git = _by_git(root, environment)
        found = excludes_file(git_at(root), environment)
        if isinstance(by_git, Exception):
            assert found is None
        elif by_git is None:
            assert found == home + b"/.config/git/ignore"
        else:
            assert found == (os.path.join(root, by_git) if by_git else None)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_holds_when_git_says_so(condition: str) -> None:
    with place() as (base, environment):
        root = base + b"/w"
        make_git(root + b"/.git")
        put(environment[b"HOME"] + b"/.gitconfig", f'[includeIf "{condition}"]\npath = more\n'.encode())
        put(environment[b"HOME"] + b"/more", b"[core]\nexcludesFile = /x\n")
        by_git = _by_git(root, environment)
        if isinstance(by_git, Exception):
            by_git = None
        expected = by_git or environment[b"HOME"] + b"/.config/git/ignore"
        assert excludes_file(git_at(root), environment) == expected


def test_an_include_of_itself_ends() -> None:
    with place() as (_, environment):
        put(environment[b"HOME"] + b"/.gitconfig", b"[core]\nexcludesFile=/x\n[include]\npath = .gitconfig\n")
        assert excludes_file(None, environment) is None


def test_the_default_follows_the_environment() -> None:
    with place() as (base, environment):
        assert excludes_file(None, environment) == environment[b"HOME"] + b"/.config/git/ignore"
        assert excludes_file(None, environment | {b"XDG_CONFIG_HOME": base}) == base + b"/git/ignore"
        empty = environment | {b"XDG_CONFIG_HOME": b""}
        assert excludes_file(None, empty) == environment[b"HOME"] + b"/.config/git/ignore"
        assert excludes_file(None, {}) is None


def test_a_worktree_may_have_its_own_configuration() -> None:
    with place() as (base, environment):
        root = base + b"/w"
        make_git(root + b"/.git")
        put(root + b"/.git/config", b"[core]\nrepositoryformatversion = 1\nexcludesFile = /x\n")
        put(root + b"/.git/config.worktree", b"[core]\nexcludesFile = /y\n")
        assert excludes_file(git_at(root), environment) == _by_git(root, environment) == b"/x"
        with open(root + b"/.git/config", "ab") as f:
            f.write(b"[extensions]\nworktreeConfig = true\n")
        assert excludes_file(git_at(root), environment) == _by_git(root, environment) == b"/y"


def test_object_format() -> None:
    with place() as (base, _):
        root = base + b"/w"
        make_git(root + b"/.git")
        found = git_at(root)
        assert found is not None
        assert object_format(found) == "sha1"
        put(root + b"/.git/config", b"[extensions]\nobjectFormat = sha256\n")
        assert object_format(found) == "sha256"
        assert found.head() == "main"
        put(root + b"/.git/HEAD", b"a" * 40 + b"\n")
        assert found.head() == "detached"
