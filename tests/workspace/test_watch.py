"""A watch hints at bursts of change, and says when hints may be missing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from checkpointer.workspace.watch import Watch


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    root, store = tmp_path / "w", tmp_path / "store"
    root.mkdir()
    store.mkdir()
    return root, store


def test_a_burst_is_told_once_after_it_went_quiet(places: tuple[Path, Path]) -> None:
    root, store = places
    stop = threading.Event()
    with Watch(os.fsencode(root), store) as watch:
        assert watch.lost is None
        for i in range(50):
            (root / f"f{i}").write_text("x")
        assert watch.burst(stop, quiet=0.2, longest=30)
        threading.Timer(0.5, stop.set).start()
        assert not watch.burst(stop, quiet=0.1, longest=30)


def test_changes_that_never_go_quiet_are_told_all_the_same(places: tuple[Path, Path]) -> None:
    root, store = places
    stop, busy = threading.Event(), threading.Event()

    def write() -> None:
        while not busy.wait(0.02):
            (root / "log").write_text("x")

    writer = threading.Thread(target=write)
    with Watch(os.fsencode(root), store) as watch:
        writer.start()
        try:
            assert watch.burst(stop, quiet=5, longest=0.5)
        finally:
            busy.set()
            writer.join()


def test_reading_and_a_project_git_at_work_are_no_change(places: tuple[Path, Path]) -> None:
    root, store = places
    (root / ".git").mkdir()
    (root / "a").write_text("x")
    stop = threading.Event()
    with Watch(os.fsencode(root), store) as watch:
        (root / "a").read_text()
        (root / ".git" / "index").write_text("x")
        threading.Timer(0.5, stop.set).start()
        assert not watch.burst(stop, quiet=0.05, longest=30)


def test_a_replaced_root_is_noticed(places: tuple[Path, Path]) -> None:
    root, store = places
    with Watch(os.fsencode(root), store) as watch:
        root.rmdir()
        root.mkdir()
        stop = threading.Event()
        threading.Timer(0.5, stop.set).start()
        watch.burst(stop, quiet=0.05, longest=30)
        assert watch.lost is not None


LIMIT = """
import os, sys
from pathlib import Path
from checkpointer.workspace.watch import Watch
Path("/proc/sys/user/max_inotify_watches").write_text("10")
with Watch(os.fsencode(sys.argv[1]), Path(sys.argv[2])) as watch:
    print(watch.lost)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of watches is Linux's")
def test_the_limit_of_watches_is_noticed(places: tuple[Path, Path]) -> None:
    root, store = places
    for i in range(50):
        (root / f"d{i}").mkdir()
    tried = subprocess.run(
        ["unshare", "-Ur", sys.executable, "-c", LIMIT, str(root), str(store)], capture_output=True, text=True
    )
    if "unshare failed" in tried.stderr or "Permission denied" in tried.stderr:
        pytest.skip("no user namespaces here")
    assert "inotify watch limit reached" in tried.stdout, tried.stderr
