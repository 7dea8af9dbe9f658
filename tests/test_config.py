"""The configuration: what is set, where it came from, and a file that is not ours alone."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer import config
from checkpointer.config import KEYS, Config, parse_size
from checkpointer.errors import Usage


def test_defaults_without_a_file(tmp_path: Path) -> None:
    found = Config(tmp_path / "none.toml")
    assert all(found[name] == key.default and found.origin(name) == "default" for name, key in KEYS.items())
    assert not found.problems


def test_set_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.toml"
    path.parent.mkdir()
    path.write_text('# mine\nother = 1\n\n[gc]\n# why\nkeep_days = 7  # a week\n\n[future]\nx = "y"\n')
    found = Config(path)
    assert found["gc.keep_days"] == 7
    assert found.unknown == ["other", "future.x"]
    found.set("gc.budget", "2 GB")
    text = path.read_text()
    assert "# mine" in text
    assert "# why" in text
    assert "# a week" in text
    again = Config(path)
    assert again["gc.budget"] == 2 << 30
    assert again.origin("gc.budget") == str(path)
    assert again["gc.keep_days"] == 7


def test_set_makes_the_file_privately_and_writes_through_a_link(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        Config(tmp_path / "new" / "config.toml").set("ui.color", "never")
    finally:
        os.umask(old)
    assert (tmp_path / "new" / "config.toml").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    link = tmp_path / "link.toml"
    link.symlink_to(tmp_path / "new" / "config.toml")
    Config(link).set("ui.color", "always")
    assert link.is_symlink()
    assert Config(tmp_path / "new" / "config.toml")["ui.color"] == "always"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gc.keep_days", "-1"),
        ("gc.keep_days", "x"),
        ("gc.keep_days", "9" * 20),
        ("capture.limit", "much"),
        ("ui.color", "pink"),
        ("capture.limit", "9" * 400),
    ],
)
def test_a_value_that_does_not_fit_is_refused(tmp_path: Path, name: str, value: str) -> None:
    found = Config(tmp_path / "config.toml")
    with pytest.raises(Usage):
        found.set(name, value)
    assert not (tmp_path / "config.toml").exists()


def test_an_unknown_key_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(Usage, match=r"gc\.keep_days"):
        Config(tmp_path / "config.toml").set("gc.keep_day", "3")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 40,
        b"[gc",
        b"\xff\xfe",
        b"gc = 3\n",
        b"[gc]\nkeep_days = 'x'\n",
        b"[gc]\nkeep_days = true\n",
        b"[gc]\nbudget = nan\n",
    ],
)
def test_a_broken_file_leaves_the_defaults(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(data)
    found = Config(path)
    assert found["gc.keep_days"] == KEYS["gc.keep_days"].default
    assert found["gc.budget"] == KEYS["gc.budget"].default
    assert bool(found.problems or found.unknown) == bool(data)


def test_a_broken_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"[gc")
    with pytest.raises(Usage):
        Config(path).set("gc.keep_days", "3")
    assert path.read_bytes() == b"[gc"


@given(st.integers(0, 10**9), st.sampled_from(["", " B", "KB", " MiB", "g", " GB"]))
def test_sizes(n: int, unit: str) -> None:
    factor = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[unit.strip().lower()[:1]]
    assert parse_size(f"{n}{unit}") == n * factor


def test_directories_are_platformdirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for set_ in (False, True):
        for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(variable, str(tmp_path / "xdg")) if set_ else monkeypatch.delenv(variable, raising=False)
        assert config.base_directory("state") / "ckpt" == Path(platformdirs.user_state_dir("ckpt", appauthor=False))
        assert config.base_directory("config") / "ckpt" == Path(platformdirs.user_config_dir("ckpt", appauthor=False))


def test_the_file_is_where_the_variable_says(tmp_path: Path) -> None:
    assert config.config_path({"CKPT_CONFIG": str(tmp_path / "x.toml")}) == tmp_path / "x.toml"
    assert config.config_path({"HOME": str(tmp_path), "CKPT_CONFIG": ""}).name == "config.toml"


def test_a_value_is_taken_out_again(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# mine\n[gc]\nkeep_days = 3  # few\nkeep_number = 9\n\n[ui]\ncolor = 'never'\n")
    config = Config(path)
    assert config.unset("gc.keep_days")
    assert config["gc.keep_days"] == Config(tmp_path / "none")["gc.keep_days"]
    assert path.read_text() == "# mine\n[gc]\nkeep_number = 9\n\n[ui]\ncolor = 'never'\n"
    assert not config.unset("gc.keep_days")
    assert config.unset("ui.color")
    assert "[ui]" not in path.read_text()
    assert Config(path).problems == []
    with pytest.raises(Usage, match="did you mean"):
        config.unset("gc.keep_day")
    path.write_text("= broken")
    with pytest.raises(Usage, match="cannot be read"):
        config.unset("gc.keep_number")
