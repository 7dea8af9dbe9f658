"""What is answered without the parser of the command line means what the parser makes of it."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from checkpointer.cli import app, quick, saving
from checkpointer.cli.call import Call

WORDS = ("-q", "--quiet", "--json", "-m", "one", "-n", "--", "", "-C", "--force-root")
Asked = tuple[bool, bool, str | None, bool]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """What `saving.save` was asked for."""
    seen: list[Asked] = []

    def save(call: Call, label: str | None, *, force_root: bool) -> int:
        seen.append((call.out.quiet, call.out.json, label, force_root))
        return 7

    monkeypatch.setattr(saving, "save", save)
    return seen


def _parsed(words: Sequence[str]) -> Any:
    try:
        return app.run(words)
    except Exception as e:
        return type(e)


def test_one_grammar(asked: list[Asked]) -> None:
    taken = 0
    for length in range(4):
        for words in itertools.product(WORDS, repeat=length):
            asked.clear()
            status = quick.answer(["save", *words])
            if status is None:
                assert not asked, words
                continue
            taken += 1
            assert _parsed(["save", *words]) == status == 7, words
            assert asked[0] == asked[1], words
    assert taken > 20


@pytest.mark.parametrize("words", [(), ("status",), ("-q", "save"), ("saved",)])
def test_what_is_not_plain_is_left_to_the_parser(words: tuple[str, ...], asked: list[Asked]) -> None:
    assert quick.answer(words) is None
    assert not asked


def test_a_save_loads_neither_the_parser_nor_a_model(tmp_path: Any) -> None:
    """Each of these costs more than the save itself."""
    (tmp_path / "work").mkdir()
    code = (
        "import sys; from checkpointer.__main__ import main; main(['save', '-q']); main(['save', '-q'])\n"
        "heavy = {'click', 'pydantic', 'pygit2', 'watchdog', 'inspect', 'dataclasses', 'subprocess'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path / "work",
        env={"HOME": str(tmp_path), "CKPT_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
