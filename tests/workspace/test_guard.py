"""Refused roots in every spelling, and how a tree is weighed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness.machine import needs_root, tmpfs

from checkpointer.errors import RefusedRoot
from checkpointer.workspace import guard

STORES = b"/nowhere/stores"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "homes" / "someone"
    place.mkdir(parents=True)
    return place


def refused(path: str | bytes | Path, **environ: str) -> str | None:
    try:
        guard.refuse(os.fsencode(path), STORES, environ)
    except RefusedRoot as e:
        return e.message if e.kept and e.next else "without a way on"
    return None


def test_a_project_is_taken(home: Path) -> None:
    project = home / "project"
    project.mkdir()
    assert refused(project, HOME=str(home)) is None


@pytest.mark.parametrize(
    "spelling", ["{h}", "{h}/", "{h}/.", "{h}/x/..", "/{h}", "{h}//", "{link}", "{link}/", "{h}/../someone"]
)
def test_the_home_is_refused_in_every_spelling(home: Path, tmp_path: Path, spelling: str) -> None:
    (home / "x").mkdir()
    (tmp_path / "link").symlink_to(home)
    path = spelling.format(h=home, link=tmp_path / "link")
    assert "home directory" in str(refused(path, HOME=str(home)))


@pytest.mark.parametrize("value", ["{link}", "{h}/", "{h}/."])
def test_the_home_is_found_however_it_is_named(home: Path, tmp_path: Path, value: str) -> None:
    (tmp_path / "link").symlink_to(home)
    environ = value.format(h=home, link=tmp_path / "link")
    assert "home directory" in str(refused(home, HOME=environ))


def test_what_holds_a_home_is_refused(home: Path) -> None:
    assert "a home directory is in it" in str(refused(home.parent, HOME=str(home)))


@pytest.mark.parametrize(
    "path", ["/", "//", "/.", "/tmp", "/tmp/", "/usr", "/usr/lib", "/etc/../etc", "/var/tmp", "/proc/self", "/dev"]
)
def test_the_system_is_refused(path: str) -> None:
    assert refused(path, HOME="/nonexistent") is not None


def test_a_directory_below_tmp_is_taken(tmp_path: Path) -> None:
    assert refused(tmp_path, HOME="/nonexistent") is None


def test_where_stores_are_kept_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stores" / "one").mkdir(parents=True)
    for place in (tmp_path / "stores", tmp_path / "stores" / "one"):
        with pytest.raises(RefusedRoot):
            guard.refuse(os.fsencode(place), os.fsencode(tmp_path / "stores"), {})


@pytest.mark.parametrize("value", ["", "relative", "/"])
def test_a_home_that_is_none_refuses_nothing_more(tmp_path: Path, value: str) -> None:
    assert refused(tmp_path, HOME=value) is None


@needs_root
def test_a_mount_and_a_bind_mount_of_the_home_are_refused(home: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "mounted", "1m") as mounted:
        assert "mounted" in str(refused(mounted, HOME=str(home)))
    bound = tmp_path / "bound"
    bound.mkdir()
    subprocess.run(["mount", "--bind", str(home), str(bound)], check=True)
    try:
        assert "home directory" in str(refused(bound, HOME=str(home)))
        assert guard.is_mount(os.fsencode(bound))
    finally:
        subprocess.run(["umount", str(bound)], check=True)


def test_a_user_without_an_entry_and_without_a_home(tmp_path: Path) -> None:
    script = (
        "import os\n"
        "os.setresuid(54321, 54321, 54321) if os.getuid() == 0 else None\n"
        "from checkpointer.workspace import guard\n"
        "assert guard.home_directories({}) == [] or os.getuid() != 54321\n"
        f"guard.refuse({os.fsencode(tmp_path)!r}, b'/nowhere', {{}})\n"
    )
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", "import checkpointer.workspace.guard, pwd, tempfile\n" + script], capture_output=True
    )
    assert done.returncode == 0, done.stderr


def test_a_search_never_climbs_to_a_home(home: Path) -> None:
    environ = {"HOME": str(home)}
    for path in (home, home.parent):
        assert guard.never_climb_to(os.fsencode(path), environ)
    assert guard.never_climb_to(b"/", environ)
    assert guard.never_climb_to(b"/tmp", environ)
    assert not guard.never_climb_to(os.fsencode(home / "x"), environ)


def nothing(_: bytes, __: bool) -> bool:
    return False


def test_survey_counts_all_of_a_small_tree(tmp_path: Path) -> None:
    for i in range(5):
        (tmp_path / f"d{i}").mkdir()
        for j in range(i):
            (tmp_path / f"d{i}" / f"f{j}").touch()
    (tmp_path / ".git" / "objects").mkdir(parents=True)
    found = guard.survey(os.fsencode(tmp_path), nothing)
    assert found == guard.Survey(15, True, ((b"d4", 4), (b"d3", 3), (b"d2", 2)))


def test_survey_stops_early_and_names_the_largest(tmp_path: Path) -> None:
    deep = tmp_path / "web" / "node_modules"
    deep.mkdir(parents=True)
    for i in range(300):
        (deep / f"m{i}").touch()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a").touch()
    found = guard.survey(os.fsencode(tmp_path), nothing, stop=100)
    assert not found.complete
    assert found.largest[0][0] == b"web/node_modules"

    def ignored(path: bytes, is_dir: bool) -> bool:
        return is_dir and path.endswith(b"node_modules")

    assert guard.survey(os.fsencode(tmp_path), ignored, stop=100).complete


def test_survey_does_not_follow_links_and_survives_what_it_cannot_list(tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to(tmp_path)
    assert guard.survey(os.fsencode(tmp_path), nothing).entries == 1
    assert guard.survey(os.fsencode(tmp_path / "gone"), nothing).entries == 0


@needs_root
def test_a_store_that_will_not_last_is_named(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "fleeting", "1m") as fleeting:
        fleeting.chmod(0o700)
        assert any("tmpfs" in n for n in guard.notes(os.fsencode(tmp_path), os.fsencode(fleeting)))


def test_an_open_store_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert any("0700" in n for n in guard.notes(os.fsencode(tmp_path), os.fsencode(tmp_path)))


def test_mount_points_are_read_unescaped(tmp_path: Path, as_nobody: Any) -> None:
    assert b"/" in guard.mounts() or not os.path.exists("/proc/self/mountinfo")
    assert guard._unescape(rb"/a\040b\134c") == b"/a b\\c"
