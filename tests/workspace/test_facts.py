"""`workspace.toml`: what is written comes back, a newer one is refused, a damaged one is said to be damaged."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.errors import Damaged, NewerFormat, ReadOnlyStore
from checkpointer.workspace import facts
from checkpointer.workspace.facts import Facts

SOME = Facts(b"/home/me/x", 1, 2, last_number=17, last_turn=3, last_run=7, had_run=True, first_kept=5, cut=["a" * 40])


@given(st.binary(max_size=30), st.integers(0, 2**63), st.booleans(), st.lists(st.just("b" * 40), max_size=3))
def test_it_comes_back(
    tmp_path_factory: pytest.TempPathFactory, path: bytes, n: int, run: bool, cut: list[str]
) -> None:
    directory = tmp_path_factory.mktemp("s")
    known = Facts(path, n, n, last_number=n, last_turn=n, last_run=n, had_run=run, first_kept=n, cut=cut)
    facts.save(directory, known)
    assert facts.load(directory) == known
    assert (directory / "workspace.toml").stat().st_mode & 0o777 == 0o600


def test_a_person_can_read_it(tmp_path: Path) -> None:
    facts.save(tmp_path, SOME)
    value = tomllib.loads((tmp_path / "workspace.toml").read_text())
    assert value["path"] == "/home/me/x"
    assert value["format"] == 1
    assert value["last_number"] == 17


def test_unknown_keys_are_kept(tmp_path: Path) -> None:
    facts.save(tmp_path, SOME)
    file = tmp_path / "workspace.toml"
    file.write_text('"a later key" = ["x", 1]\nshiny = "\\u007f"\n' + file.read_text())
    known = facts.load(tmp_path)
    known.last_number = 18
    facts.save(tmp_path, known)
    assert facts.load(tmp_path).other == {"a later key": ["x", 1], "shiny": "\x7f"}
    assert facts.load(tmp_path).last_number == 18


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    facts.save(tmp_path, SOME)
    file = tmp_path / "workspace.toml"
    file.write_text(file.read_text().replace("format = 1", "format = 2").replace("complete = true", ""))
    with pytest.raises(NewerFormat, match="format 2"):
        facts.load(tmp_path)


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    facts.save(tmp_path, SOME)
    file = tmp_path / "workspace.toml"
    whole = file.read_bytes()
    for end in range(len(whole) - 1):
        file.write_bytes(whole[:end])
        with pytest.raises(Damaged):
            facts.load(tmp_path)
    for bad in (b"\0" * len(whole), b"\xff\xfe", whole.replace(b"17", b'"17"'), whole.replace(b"a" * 40, b"a" * 39)):
        file.write_bytes(bad)
        with pytest.raises(Damaged, match=r"workspace\.toml"):
            facts.load(tmp_path)
    file.unlink()
    with pytest.raises(Damaged, match="is missing"):
        facts.load(tmp_path)
    file.mkdir()
    with pytest.raises(Damaged):
        facts.load(tmp_path)


def test_where_nothing_can_be_written_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from checkpointer import disk

    facts.save(tmp_path, SOME)

    def refuse(verb: str, path: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(disk, "probe", refuse)
    with pytest.raises(ReadOnlyStore):
        facts.save(tmp_path, Facts(b"/other"))
    assert facts.load(tmp_path) == SOME
