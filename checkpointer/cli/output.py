"""The two streams: the answer on stdout, everything said beside it on stderr; colours and the pager.

Text is written in the stream's own encoding; what it cannot hold is escaped, so that a plain `C` locale loses nothing
and breaks nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def wants_color(choice: str, stream: IO[str], environ: dict[str, str] | os._Environ[str] = os.environ) -> bool:
    """`--color` and the configuration decide first, then NO_COLOR, FORCE_COLOR, then whether it is a terminal."""
    if choice in ("always", "never"):
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(stream) and environ.get("TERM", "") != "dumb"


def is_terminal(stream: IO[Any]) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


class Output:
    """Where a command prints. `quiet` silences notes and hints, never the answer and never an error."""

    def __init__(self) -> None:
        self.json = False
        self.quiet = False
        self.color = "auto"
        self._pager: subprocess.Popen[bytes] | None = None

    def style(self, text: str, *names: str, err: bool = False) -> str:
        """`text` in colour, if the stream it goes to takes any."""
        if not names or not wants_color(self.color, sys.stderr if err else sys.stdout):
            return text
        return f"\x1b[{';'.join(CODES[n] for n in names)}m{text}\x1b[m"

    def write(self, data: bytes) -> None:
        """Bytes of the answer, as they are."""
        if self._pager is not None and self._pager.stdin is not None:
            self._pager.stdin.write(data)
            return
        sys.stdout.flush()
        sys.stdout.buffer.write(data)

    def line(self, text: str = "") -> None:
        """A line of the answer."""
        self.write(_encoded(text + "\n", sys.stdout))

    def document(self, value: Any) -> None:
        """One JSON document, on one line."""
        self.write(json.dumps(value, ensure_ascii=True, allow_nan=False).encode() + b"\n")

    def note(self, text: str) -> None:
        """What is worth saying beside the answer."""
        if not self.quiet:
            self.error(text)

    def hint(self, text: str) -> None:
        """What could be typed next; only a person at a terminal is told."""
        if not self.quiet and not self.json and is_terminal(sys.stderr):
            self.error(self.style(text, "dim", err=True))

    def error(self, text: str) -> None:
        """A line on stderr, whatever was asked for."""
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            sys.stdout.flush()
            sys.stderr.flush()
            sys.stderr.buffer.write(_encoded(text + "\n", sys.stderr))
            sys.stderr.flush()

    @contextlib.contextmanager
    def paged(self, configured: str = "") -> Iterator[None]:
        """What is printed inside goes through a pager, if stdout is a terminal."""
        command = _pager_command(configured) if is_terminal(sys.stdout) and not self.json else []
        if not command:
            yield
            return
        environ = dict(os.environ)
        environ.setdefault("LESS", "FRX")
        environ.setdefault("LESSCHARSET", "utf-8")
        import subprocess

        sys.stdout.flush()
        try:
            self._pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environ)
        except OSError:
            yield
            return
        try:
            yield
        except BrokenPipeError:  # the reader left: all that was wanted was read
            pass
        finally:
            pager, self._pager = self._pager, None
            with contextlib.suppress(OSError):
                assert pager.stdin is not None
                pager.stdin.close()
            while True:
                with contextlib.suppress(KeyboardInterrupt):  # the pager decides what Ctrl-C means
                    pager.wait()
                    break


def _pager_command(configured: str) -> list[str]:
    import shlex
    import shutil

    for text in (os.environ.get("CKPT_PAGER"), configured or None, os.environ.get("PAGER")):
        if text is not None:
            try:
                words = shlex.split(text)
            except ValueError:
                continue
            if not words or words == ["cat"]:
                return []
            if any(c in text for c in "|;&<>$`"):
                return ["/bin/sh", "-c", text]
            return words if shutil.which(words[0]) else []
    return ["less", "-FRX"] if shutil.which("less") and os.environ.get("TERM", "dumb") != "dumb" else []


def _encoded(text: str, stream: IO[str]) -> bytes:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace")
