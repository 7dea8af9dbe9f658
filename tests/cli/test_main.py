"""How a call ends: exit statuses, no traceback, quiet where nobody reads, JSON for failures too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from transcript import Shell, in_child

from checkpointer import errors
from checkpointer.__main__ import main
from checkpointer.cli import app


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def failing(shell: Shell, error: BaseException, *words: str, **env: str):  # type: ignore[no-untyped-def]
    def act() -> int:
        def run(_: object) -> int:
            raise error

        app.run = run  # type: ignore[assignment]
        return main(list(words))

    return in_child(act, cwd=shell.root, env={**shell.env, **env})


def test_our_errors_say_what_was_kept_and_what_to_type(shell: Shell) -> None:
    done = failing(
        shell, errors.Busy("someone is at work", kept="nothing was written", next=("ckpt status", "wait")), "undo"
    )
    assert (done.status, done.out) == (4, "")
    assert done.err == "someone is at work\nkept: nothing was written\nnext: ckpt status\n      wait\n"


def test_our_errors_as_json(shell: Shell) -> None:
    error = errors.Conflict(
        "no", kept="all", next=("a", "b"), conflicts=[{"path": "x", "lines": [[1, 2]], "by": "you"}], files=3
    )
    done = failing(shell, error, "--json", "undo")
    assert done.status == 3
    assert done.err == ""
    assert json.loads(done.out) == {
        "schema": 1,
        "error": {
            "code": "conflict", "message": "no", "kept": "all", "next": ["a", "b"], "exit": 3,
            "conflicts": [{"path": "x", "lines": [[1, 2]], "by": "you"}], "files": 3,
        },
    }  # fmt: skip


def every_error(root: type[errors.CheckpointerError]) -> list[type[errors.CheckpointerError]]:
    return [root, *(e for sub in root.__subclasses__() for e in every_error(sub))]


@pytest.mark.parametrize("kind", every_error(errors.CheckpointerError))
def test_every_error_has_its_status(shell: Shell, kind: type[errors.CheckpointerError]) -> None:
    error = kind("x", seq=1) if kind is errors.LogDamaged else kind("x")
    done = failing(shell, error, "--json")
    assert done.status == kind.exit
    assert kind.exit in (1, 2, 3, 4, 5)
    assert json.loads(done.out)["error"]["code"] == kind.code


@pytest.mark.parametrize(
    "error",
    [RuntimeError("bo\nom"), AssertionError(), OSError(5, "Input/output error", "/x"), RecursionError(), MemoryError()],
)
def test_what_should_not_happen_is_one_line(shell: Shell, error: Exception) -> None:
    done = failing(shell, error, "status")
    assert done.status == 1
    assert "Traceback" not in done.err
    assert "kept: " in done.err
    assert json.loads(failing(shell, error, "status", "--json").out)["error"]["exit"] == 1


def test_a_traceback_can_be_seen(shell: Shell) -> None:
    done = failing(shell, RuntimeError("boom"), "status", CKPT_DEBUG="1")
    assert "Traceback" in done.err
    assert "boom" in done.err


def test_a_full_disk_is_called_that(shell: Shell) -> None:
    done = failing(shell, OSError(28, "No space left on device"), "gc", "--json")
    assert json.loads(done.out)["error"]["code"] == "no-space"


def test_an_interrupt(shell: Shell) -> None:
    done = failing(shell, KeyboardInterrupt(), "undo")
    assert (done.status, done.err) == (130, "interrupted\n")


def test_nobody_reads(shell: Shell) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "checkpointer", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=shell.root,
        env=shell.env,
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 128 + signal.SIGPIPE


@pytest.mark.parametrize(
    "words", [("nosuch",), ("save", "--nosuch"), ("cat",), ("log", "-n", "x"), ("--color", "pink"), ("-C",)]
)
def test_usage(shell: Shell, words: tuple[str, ...]) -> None:
    done = shell.ckpt(*words)
    assert done.status == 2
    assert done.out == ""
    assert "next: " in done.err
    document = (
        json.loads(shell.ckpt(*words, "--json").out) if words != ("-C",) else json.loads(shell.ckpt("--json", "-C").out)
    )
    assert document["error"]["code"] == "usage"
    assert document["error"]["exit"] == 2


def test_json_behind_two_dashes_is_a_path(shell: Shell) -> None:
    assert shell.ckpt("nosuch", "--", "--json").out == ""


def test_common_flags_on_both_sides(shell: Shell) -> None:
    (shell.root / "d").mkdir()
    one = shell.ckpt("-C", "d", "--json", "config", "gc.keep_days")
    assert one.out == shell.ckpt("config", "gc.keep_days", "-C", "d", "--json").out
    assert json.loads(one.out)["key"] == "gc.keep_days"
    assert shell.ckpt("-C", "d", "config", "-C", ".", "gc.keep_days").status == 0


def test_the_version_and_the_help_are_the_same_everywhere(shell: Shell) -> None:
    import checkpointer

    assert shell.ckpt("--version").out == f"ckpt {checkpointer.version()}\n"
    assert shell.ckpt("--version", "-q").out == f"ckpt {checkpointer.version()}\n"
    assert f'version = "{checkpointer.version()}"' in Path(__file__).parents[2].joinpath("pyproject.toml").read_text()
    assert shell.ckpt("--help").out == shell.ckpt("-h").out


def test_the_help_lists_every_command_under_its_group(shell: Shell) -> None:
    from checkpointer.cli.registry import COMMANDS, GROUPS

    text = shell.ckpt("--help").out
    for name, entry in COMMANDS.items():
        assert entry.group in GROUPS
        assert f"\n  {name}" in text
        module, _, attribute = entry.where.partition(":")
        assert hasattr(__import__(module, fromlist=[attribute]), attribute)
        assert shell.ckpt(name, "--help").status == 0
    assert all(len(line) <= 100 for line in text.split("\n"))


@pytest.mark.parametrize(
    "locale", [{"LANG": "C", "LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_a_plain_locale(shell: Shell, locale: dict[str, str]) -> None:
    environ = {**shell.env, **locale}
    done = subprocess.run(
        [sys.executable, "-m", "checkpointer", "undo", "--", "能"], capture_output=True, cwd=shell.root, env=environ
    )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_a_current_directory_that_is_gone(shell: Shell) -> None:
    (shell.root / "gone").mkdir()
    done = shell.sh(f"cd gone && rmdir ../gone && PWD= {sys.executable} -P -m checkpointer status || test $? = 2")
    assert "Traceback" not in done.err
    assert "gone" in done.err
    assert done.status == 0
