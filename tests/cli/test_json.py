"""What programs read: the keys of every answer, and of every failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transcript import Done, Shell

SAVE = {"checkpoint", "commit", "created", "changed", "uncovered"}
WENT = {
    "checkpoint",
    "commit",
    "before",
    "unit",
    "written",
    "removed",
    "merged",
    "skipped",
    "kept",
    "conflicts",
    "uncovered",
}
LOG = {
    "checkpoint",
    "commit",
    "kind",
    "at",
    "run",
    "turn",
    "prompt",
    "label",
    "added",
    "modified",
    "removed",
    "undone",
    "current",
}
STATUS = {
    "workspace", "store", "protected", "reason", "since", "checkpoint", "changed", "uncovered",
    "open_turn", "undo", "redo",
    "uncertain", "store_bytes",
}  # fmt: skip
ERROR = {"code", "message", "kept", "next", "exit"}
STAMP = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def read(done: Done, status: int = 0) -> dict[str, Any]:
    assert done.status == status, (done.out, done.err)
    assert done.out.count("\n") == 1
    return json.loads(done.out)  # type: ignore[no-any-return]


def error(done: Done) -> dict[str, Any]:
    found = json.loads(done.out)
    assert found["schema"] == 1
    assert found["error"].keys() >= ERROR
    assert found["error"]["exit"] == done.status
    assert done.err == ""
    return found["error"]  # type: ignore[no-any-return]


def test_save(shell: Shell) -> None:
    (shell.root / "a").write_text("1\n")
    found = read(shell.ckpt("save", "--json"))
    assert found.keys() >= SAVE
    assert (found["schema"], found["checkpoint"], found["created"], found["changed"]) == (1, 1, True, ["a"])
    assert len(found["commit"]) == 40
    again = read(shell.ckpt("save", "--json"))
    assert (again["checkpoint"], again["commit"], again["created"], again["changed"]) == (1, found["commit"], False, [])


def test_a_path_that_is_no_text(shell: Shell) -> None:
    Path(b"caf\xe9".join([bytes(shell.root) + b"/", b""]).decode("utf-8", "surrogateescape")).touch()
    found = read(shell.ckpt("save", "--json"))
    assert found["changed"] == [{"b64": "Y2Fm6Q=="}]
    assert read(shell.ckpt("show", "1", "--json"))["changed"] in (
        [],
        [{"path": {"b64": "Y2Fm6Q=="}, "change": "added"}],
    )


def test_undo_redo_restore(shell: Shell) -> None:
    (shell.root / "a").write_text("1\n")
    shell.ckpt("save")
    shell.work("t1", "r1", "echo 2 > a; echo new > b")
    would = read(shell.ckpt("undo", "-n", "--json"))
    assert would["checkpoint"] is None
    assert would["dry_run"] is True
    for verb, words in (("undo", ()), ("redo", ()), ("restore", ("1",)), ("undo", ())):
        found = read(shell.ckpt(verb, *words, "--json"))
        assert found.keys() >= WENT
        assert found["checkpoint"] > found["before"]
        assert sorted(found["written"] + found["removed"]) == ["a", "b"]
    assert would["written"] == ["a"]
    assert would["removed"] == ["b"]


def test_a_conflict(shell: Shell) -> None:
    (shell.root / "a").write_text("1\n2\n3\n")
    shell.ckpt("save")
    shell.work("t1", "r1", "sed -i s/2/two/ a")
    (shell.root / "a").write_text("1\nmine\n3\n")
    found = error(shell.ckpt("undo", "--json"))
    assert (found["code"], found["exit"]) == ("conflict", 3)
    assert found["conflicts"][0].keys() >= {"path", "lines", "by"}
    assert found["conflicts"][0]["path"] == "a"
    assert "ckpt undo --skip" in found["next"]
    skipped = read(shell.ckpt("undo", "--skip", "--json"))
    assert skipped["skipped"] == ["a"]
    assert [c["path"] for c in skipped["conflicts"]] == ["a"]


def test_log(shell: Shell) -> None:
    (shell.root / "a").write_text("1\n")
    shell.ckpt("save", "-m", "start")
    shell.work("t1", "r1", "echo 2 > a; echo new > b")
    lines = [json.loads(line) for line in shell.ckpt("log", "--json").out.splitlines()]
    assert all(line.keys() >= LOG for line in lines)
    turn, start = lines
    assert (turn["turn"], turn["run"], turn["kind"], turn["added"], turn["modified"], turn["removed"]) == (
        "t1",
        "r1",
        "turn",
        1,
        1,
        0,
    )
    assert (start["label"], start["kind"], start["undone"], turn["current"], start["current"]) == (
        "start",
        "save",
        False,
        True,
        False,
    )
    assert __import__("re").fullmatch(STAMP, turn["at"])
    assert shell.ckpt("log", "--json", "-n", "0").out == ""
    assert len(shell.ckpt("log", "--json", "--checkpoints").out.splitlines()) >= 2


def test_status(shell: Shell) -> None:
    assert read(shell.ckpt("--json")).keys() >= STATUS
    (shell.root / "a").write_text("1\n")
    shell.ckpt("save")
    shell.work("t1", "r1", "echo 2 > a")
    (shell.root / "b").write_text("mine\n")
    found = read(shell.ckpt("status", "--json"))
    assert found.keys() >= STATUS
    assert (found["protected"], found["reason"], found["undo"], found["redo"], found["changed"]) == (
        True,
        None,
        "t1",
        None,
        ["b"],
    )
    assert found["workspace"] == str(shell.root)
    assert found["store_bytes"] > 0
    shell.ckpt("undo")
    assert read(shell.ckpt("--json"))["redo"] == "t1"
    off = read(shell.ckpt("--json", CKPT_OFF="1"))
    assert off["protected"] is False
    assert "CKPT_OFF" in off["reason"]


def test_failures(shell: Shell) -> None:
    assert error(shell.ckpt("undo", "--json"))["code"] == "no-store"
    (shell.root / "a").write_text("1\n")
    shell.ckpt("save")
    assert error(shell.ckpt("redo", "--json"))["code"] == "nothing-to-redo"
    assert error(shell.ckpt("restore", "9", "--json"))["code"] == "usage"
    assert error(shell.ckpt("gc", "--keep-days", "0", "--json"))["code"] == "needs-person"
    (shell.base / "home" / "x").mkdir()
    refused = error(shell.ckpt("-C", str(shell.base / "home"), "save", "--json"))
    assert (refused["code"], refused["exit"]) == ("refused-root", 2)


def test_every_looking_command_answers_in_json(shell: Shell) -> None:
    (shell.root / "a").write_text("1\n")
    shell.ckpt("save")
    shell.work("t1", "r1", "echo 2 > a")
    for words in (
        ("show",),
        ("show", "t1"),
        ("show", "1"),
        ("diff",),
        ("diff", "1", "2"),
        ("verify",),
        ("gc", "-n"),
        ("pin", "1", "-m", "x"),
    ):
        found = read(shell.ckpt(*words, "--json"))
        assert found["schema"] == 1
    for words in (("log",), ("workspaces",), ("config",)):
        assert [json.loads(line) for line in shell.ckpt(*words, "--json").out.splitlines()]
