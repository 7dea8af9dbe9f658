"""`ckpt hook`: what agent programs call. It imports nothing that it can do without, and never fails.

The command itself is answered before any command line is parsed; what `--help` and completion show is in `hookhelp`.
"""

from __future__ import annotations

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def hook(words: Sequence[str]) -> int:
    """Answer a hook whose words these are; always 0."""
    gc.disable()  # it lives for a moment, and most of what it makes are modules
    from checkpointer.agents.hook import main

    return main(words, ask)


def ask(root: bytes, run: str, words: list[str]) -> tuple[int, str]:
    """Carry out a command that a person typed as a prompt, in the workspace at `root`. What it undoes or redoes is of
    `run`. Gives the exit status and what was printed.
    """
    import contextlib
    import io
    import os

    import click

    from checkpointer.cli import app, failure
    from checkpointer.cli.call import Call
    from checkpointer.errors import CheckpointerError

    call = Call()
    call.of_person = True
    narrowed = ["--run", run] if words[0] in ("undo", "redo") else ["-n", "10"] if words == ["log"] else []
    printed = io.BytesIO()
    out = io.TextIOWrapper(printed, encoding="utf-8", errors="backslashreplace", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            status = app.run(["-C", os.fsdecode(root), words[0], *narrowed, *words[1:]], call)
        except CheckpointerError as e:
            status = failure.report(e, as_json=False)
        except click.ClickException as e:
            status = failure.usage(e.format_message(), as_json=False)
        except Exception as e:
            status = failure.unexpected(e, as_json=False)
        out.flush()
    return status, printed.getvalue().decode("utf-8", "replace")
