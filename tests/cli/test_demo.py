"""`ckpt demo` as a person runs it: it ends well, says no where something is not so, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from transcript import Done, Shell

from checkpointer.demo import killing, ledger, stage, undoing


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "tmp").mkdir()
    shell.env["TMPDIR"] = str(tmp_path / "tmp")
    return shell


def untouched(shell: Shell) -> None:
    assert not (shell.base / "state").exists(), "the user's own store was touched"
    assert not (shell.base / "config.toml").exists()
    assert os.listdir(shell.root) == []
    assert os.listdir(shell.base / "tmp") == [], "something was left behind"
    assert os.listdir(shell.base / "home") == ["w"]


def demo(shell: Shell, *words: str, **env: str) -> Done:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "checkpointer", "demo", *words],
        cwd=shell.root,
        env={**shell.env, **env},
        capture_output=True,
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_both_halves(shell: Shell) -> None:
    """Also inside a run, and beside git's variables: none of them reaches what is shown."""
    done = demo(shell, CKPT_RUN="r9", CKPT_EPOCH="4", GIT_DIR=str(shell.base / "nowhere"))
    assert done.status == 0, done.out + done.err
    assert done.err == ""
    assert done.out.count("SIGKILL") == 3
    assert "2 requests arrived" in done.out
    assert "1 payment of order 7" in done.out
    assert "\n$ ckpt undo\n" in done.out
    assert "\n  NO" not in done.out
    assert done.out.endswith("\nall of this was so\n")
    untouched(shell)


def test_without_keys_it_pays_twice(shell: Shell) -> None:
    done = demo(shell, "--without-keys", "--json")
    assert done.status == 0, done.out + done.err
    answer = json.loads(done.out)
    assert (answer["schema"], answer["held"], answer["keys"]) == (1, True, False)
    assert "undo" not in answer
    assert all(claim["held"] for claim in answer["run"])
    assert [claim["found"] for claim in answer["run"][-3:]] == ["2 requests arrived", "", "2 payments of order 7"]
    untouched(shell)


def test_a_double_is_not_talked_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger's file decides: with a receiver that ignores keys the demonstration fails."""
    bank = killing.Bank
    monkeypatch.setattr(killing, "Bank", lambda where, ignore_keys: bank(where, ignore_keys=True))
    with stage.Stage(lambda text: None) as where:
        killing.killing(where)
        assert len(ledger.entries(os.fspath(where.base / "ledger"), "payment")) == 2
        assert not where.held
        assert [one.text for one in where.claims if not one.held] == ["it paid once"]
    assert not where.base.exists()


def test_an_undo_that_does_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = stage.Stage.type
    monkeypatch.setattr(stage.Stage, "type", lambda self, words, at: 0 if "undo" in words else real(self, words, at))
    with stage.Stage(lambda text: None) as where:
        undoing.undoing(where)
        assert not where.held


def test_nothing_claimed_is_nothing_shown() -> None:
    with stage.Stage(lambda text: None) as where:
        assert not where.held


def test_the_example_alone(shell: Shell) -> None:
    """It starts its own ledger, which ends with it; and run again, it does nothing more."""
    words = [sys.executable, killing.example(), "shop"]
    env = {**shell.env, "PYTHONPATH": str(Path(__file__).parents[2])}
    said = [subprocess.run(words, cwd=shell.root, env=env, capture_output=True, check=True).stdout for _ in range(2)]
    assert said[0] == said[1]
    assert said[0].count(b"assistant") == 4
    assert [one["kind"] for one in ledger.entries(os.fspath(shell.root / "shop.ledger"))] == ["request", "payment"]
    with open(killing.example()) as f:
        assert len(f.readlines()) < 150
