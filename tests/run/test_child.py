"""A child process keeps its terminal, its signals and its exit status."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checkpointer.run.child import CannotStart, Child

DRIVER = "import os, sys; from checkpointer.run.child import Child; sys.exit(Child(sys.argv[1:], os.environ).wait())"


def through_us(*argv: str, **kw: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", DRIVER, *argv], stdout=subprocess.PIPE, **kw)  # type: ignore[call-overload]


def wait_for(marker: Path) -> None:
    for _ in range(1000):
        if marker.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{marker} never appeared")


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
)
def test_the_status_is_what_a_shell_reports(script: str, status: int) -> None:
    assert Child(["sh", "-c", script], os.environ).wait() == status


def test_a_missing_command_and_one_that_is_not_executable(tmp_path: Path) -> None:
    with pytest.raises(CannotStart) as missing:
        Child(["no-such-command-here"], os.environ)
    assert missing.value.status == 127
    plain = tmp_path / "plain"
    plain.write_text("not a program")
    with pytest.raises(CannotStart) as refused:
        Child([str(plain)], os.environ)
    assert refused.value.status == 126
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_sent_to_us_alone_reaches_the_child(number: signal.Signals, tmp_path: Path) -> None:
    marker = tmp_path / "ready"
    script = f"trap 'echo got; exit 7' {number.name[3:]}; touch {marker}; while :; do sleep 0.05; done"
    process = through_us("sh", "-c", script)
    wait_for(marker)
    process.send_signal(number)
    out, _ = process.communicate(timeout=20)
    assert out == b"got\n"
    assert process.returncode == 7


def test_an_ignored_hangup_stays_ignored_in_the_child(tmp_path: Path) -> None:
    marker = tmp_path / "ready"
    script = f"touch {marker}; sleep 0.5; echo lived"
    process = through_us("sh", "-c", script, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for(marker)
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=20)
    assert out == b"lived\n"


def test_ctrl_c_on_a_terminal_reaches_the_child_once(tmp_path: Path) -> None:
    marker = tmp_path / "ready"
    log = tmp_path / "log"
    script = (
        f"n=0; trap 'echo int >> {log}' INT; touch {marker}; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done; exit 5"
    )
    pid, master = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", DRIVER, "sh", "-c", script])
    wait_for(marker)
    os.write(master, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(master)
    assert os.waitstatus_to_exitcode(status) == 5
    assert log.read_text() == "int\n"


def test_the_child_has_the_terminal(tmp_path: Path) -> None:
    out = tmp_path / "out"
    pid, master = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", DRIVER, "sh", "-c", f"test -t 0 && test -t 1 && tty > {out}"])
    _, status = os.waitpid(pid, 0)
    os.close(master)
    assert os.waitstatus_to_exitcode(status) == 0
    assert out.read_text().startswith("/dev/")
