"""What is taken out of words before they are written, and what is left alone."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpointer import canon, redaction
from checkpointer.log import JsonlLog, catch_up
from checkpointer.redaction import MARK, Rules, marked, rules
from checkpointer.testing.script import Script

CHANCE = random.Random(4)


def some(n: int, letters: str = string.ascii_letters + string.digits) -> str:
    return "".join(CHANCE.choices(letters, k=n - 2)) + "a1"


TOKENS = {
    "github": "ghp_" + some(36),
    "fine": "github_pat_" + some(40),
    "gitlab": "glpat-" + some(20),
    "slack": "xoxb-" + some(24, string.digits),
    "model": "sk-proj-" + some(40),
    "other model": "sk-ant-api03-" + some(60),
    "payment": "sk_live_" + some(24),
    "google": "AIza" + some(35),
    "cloud": "AKIA" + some(14, string.ascii_uppercase).upper() + "Z9",
    "hub": "hf_" + some(34),
    "npm": "npm_" + some(36),
    "pypi": "pypi-" + some(80),
    "signed": f"eyJ{some(20)}.eyJ{some(30)}.{some(40)}",
    "key": "-----BEGIN RSA PRIVATE KEY-----\n" + some(300) + "\n-----END RSA PRIVATE KEY-----",
}
LEFT = (
    "9c1185a5c5e9fc54612808977ee8f548b2258d31",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709e3b0c44298fc1c149afbf4c8",
    "75b28631-e707-ceb9-dfe7-fd510e6d339c",
    "https://example.org/a/b?c=d",
    "git@example.org:a/b.git",
    "TOKEN=$TOKEN make",
    "api_key = os.environ['API_KEY']",
    "password = getpass.getpass()",
    "max_tokens=4096",
    "task-based-desk-sk-something",
    "the token is in the safe",
    "sk-learn-pipelines-for-tabular-data-and-more",
)


def cleaned(value: Any, with_rules: Rules = Rules()) -> Any:  # noqa: B008 - immutable
    frozen = canon.freeze(value)
    return with_rules.clean(frozen, canon.dumps(frozen))


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_a_shape_goes_wherever_it_stands(token: str) -> None:
    for value in (token, f"run it with {token} please", {"a": [{"b": token}]}, f"X='{token}'"):
        found = cleaned(value)
        assert token not in json.dumps(found)
        assert token[:40] not in json.dumps(found)
        assert marked(found)
        assert cleaned(found) == found


def test_what_a_name_says_is_a_secret_goes() -> None:
    found = cleaned({"password": "hunter2", "API-Key": "abc", "user": "me", "n": {"Authorization": "Basic abc"}})
    assert found == {
        "password": f"{MARK}password]",
        "API-Key": f"{MARK}API-Key]",
        "user": "me",
        "n": {"Authorization": f"{MARK}Authorization]"},
    }
    for text in ("export API_KEY=abcdef12345", "db_password: 'abcdef12345'", '{"client_secret":"abcdef12345"}'):
        assert "abcdef12345" not in cleaned(text)
    assert "s3cret" not in cleaned("postgres://me:s3cret@db/x")
    assert cleaned({"password": "$PASSWORD", "token": 5}) == {"password": "$PASSWORD", "token": 5}


@pytest.mark.parametrize("text", LEFT)
def test_hashes_ids_and_code_stay(text: str) -> None:
    value = canon.freeze({"x": text})
    assert cleaned(value) == value
    assert cleaned(text) == text


def test_what_else_is_one_can_be_said() -> None:
    assert cleaned("my id is INT-1234", rules(extra=r"INT-\d+")) == f"my id is {MARK}configured]"
    assert cleaned(TOKENS["github"], rules(on=False)) == TOKENS["github"]
    for wrong in ("(", ".*"):
        with pytest.raises(ValueError, match="regular expression"):
            rules(extra=wrong)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[JsonlLog]:
    yield JsonlLog(str(tmp_path / "r1"))
    redaction.use(Rules())


def test_a_planted_secret_is_in_no_byte_of_a_run(log: JsonlLog) -> None:
    script = Script(log)
    for token in TOKENS.values():
        script.user(f"use {token}")
        script.model(content={"text": "x" * 70_000, "why": [token]})
    before = script.pen.state
    for path in Path(log.directory).rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not [name for name, token in TOKENS.items() if token[:40].encode() in data]
    assert catch_up(log).state == before
    assert MARK in str(next(r for r in log.read() if r.seq == 2).load(log.fetch))
