"""The two streams: colours, hints, the pager and the bar, each only where somebody looks."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
from transcript import Shell

from checkpointer.cli import phrase, progress
from checkpointer.cli.output import Output, wants_color
from checkpointer.workspace.entry import show


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "environ", "terminal", "wanted"),
    [
        ("auto", {}, False, False),
        ("auto", {"TERM": "xterm"}, True, True),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {"NO_COLOR": "1", "TERM": "xterm"}, True, False),
        ("auto", {"NO_COLOR": "", "TERM": "xterm"}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "0"}, False, False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1", "TERM": "xterm"}, True, False),
    ],
)
def test_colors(choice: str, environ: dict[str, str], terminal: bool, wanted: bool) -> None:
    assert wants_color(choice, Terminal() if terminal else StringIO(), environ) is wanted


def on_terminal(shell: Shell, *words: str, seconds: float = 20, **env: str) -> tuple[int, str]:
    """Run a command whose three streams are one terminal; its status and what the terminal shows."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        words,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=shell.root,
        env={**shell.env, "TERM": "xterm", **env},
        start_new_session=True,
    )
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([master], [], [], 0.1)
        if ready:
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data
        elif process.poll() is not None:
            break
    process.kill() if process.poll() is None else None
    os.close(master)
    return process.wait(), shown.decode("utf-8", "replace").replace("\r\n", "\n")


CKPT = (sys.executable, "-m", "checkpointer")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_hints_and_notes(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    out = Output()
    out.hint("next: x")
    out.note("note")
    assert capsys.readouterr().err == "note\n"
    out.quiet = True
    out.note("note")
    out.error("error")
    assert capsys.readouterr().err == "error\n"


def test_the_bar_says_how_far(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        progress.text("capture", 5_000, 10_000, 40 << 20, 3.0)
        == "reading  [##########          ]  5,000 of 10,000 files  40 MB  3 s left"
    )
    assert progress.text("capture", 1_234, None, 0, 9.0) == "reading  1,234 files"
    assert "left" not in progress.text("read", 10, 10, 0, 9.0)


def test_the_bar_waits_half_a_second_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.Bar(Output()) as bar:
        bar("read", 1, 10)
        now[0] += 0.4
        bar("read", 2, 10)
        assert screen.getvalue() == ""
        now[0] += 0.2
        bar("read", 3, 10)
        assert "3 of 10 files" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_the_bar_is_silent_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress.Bar(Output()) as bar:
        bar._next = 0
        bar("read", 1, 10)
    assert screen.getvalue() == ""


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KB"),
        (4200, "4.1 KB"),
        (2_254_857_830, "2.1 GB"),
        (999 * 1024, "999 KB"),
        (1 << 50, "1024 TB"),
    ],
)
def test_sizes(n: int, text: str) -> None:
    assert phrase.size(n) == text


def test_paths_on_a_line() -> None:
    assert phrase.paths([b"a", b"b c", b"x\ny"]) == "a 'b c' \"x\\ny\""
    assert phrase.paths([b"%d" % i for i in range(10)], 3) == "0 1 2 and 7 more"
    assert phrase.quoted("x\ny \x1b[31mz" + "a" * 99).count("\n") == 0
    assert "\x1b" not in phrase.quoted("\x1b[31m")
    assert show(b"caf\xe9") == '"caf\\351"'


def test_lines() -> None:
    assert phrase.lines([[12, 18]]) == "lines 12-18"
    assert phrase.lines([(4, 4)]) == "line 4"
    assert phrase.lines([[1, 2], [9, 9]]) == "lines 1-2, 9"
    assert phrase.lines([]) == ""
