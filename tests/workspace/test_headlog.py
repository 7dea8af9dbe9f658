"""Git's log of HEAD as an undo tells it: of the repository that git would find, and of nothing that could block."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from checkpointer.workspace.project.headlog import moved
from checkpointer.workspace.project.plainfile import read_plain

DAY = timedelta(days=1)


def git(where: Path, *words: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return subprocess.run(
        ["git", *words], cwd=where, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main", "p")
    git(tmp_path / "p", "commit", "-q", "--allow-empty", "-m", "one")
    return tmp_path / "p"


def last(root: Path) -> tuple[str, str, bool] | None:
    now = datetime.now(UTC)
    return moved(os.fsencode(root), now - DAY, now + DAY)


def test_a_move_is_told_of_a_directory_in_the_repository(project: Path) -> None:
    (project / "d").mkdir()
    assert last(project / "d") == (git(project, "rev-parse", "HEAD"), "main", True)
    git(project, "checkout", "-q", "--detach")
    git(project, "commit", "-q", "--allow-empty", "-m", "two")
    assert last(project) == (git(project, "rev-parse", "HEAD"), "a detached HEAD", True)
    assert moved(os.fsencode(project), datetime.now(UTC) + DAY, datetime.now(UTC) + 2 * DAY) is None


def test_a_worktree_has_a_log_of_its_own(project: Path) -> None:
    git(project, "worktree", "add", "-q", "-b", "side", "../w")
    git(project.parent / "w", "commit", "-q", "--allow-empty", "-m", "three")
    assert last(project.parent / "w") == (git(project.parent / "w", "rev-parse", "HEAD"), "side", True)


@pytest.mark.parametrize("name", ["logs/HEAD", "HEAD"])
def test_a_fifo_is_never_waited_for(project: Path, name: str) -> None:
    (project / ".git" / name).unlink()
    os.mkfifo(project / ".git" / name)
    assert last(project) is None


def test_what_only_looks_like_a_repository_is_none(tmp_path: Path) -> None:
    (tmp_path / ".git" / "logs").mkdir(parents=True)
    (tmp_path / ".git" / "logs" / "HEAD").write_text(f"{'0' * 40} {'1' * 40} x <x> 1 +0000\tcommit\n")
    assert last(tmp_path) is None


def test_of_a_long_file_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    assert read_plain(os.fsencode(path), limit=4, end=True) == b"6789"
    assert read_plain(os.fsencode(path), limit=40, end=True) == b"0123456789"
    with pytest.raises(OSError, match="longer"):
        read_plain(os.fsencode(path), limit=4)
