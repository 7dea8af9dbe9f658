"""The plain forms of the commands that are called most, answered without the parser of the command line.

Loading that parser takes longer than the work. A form that is not plain here is left to it, mistakes too, so that there
is one grammar: what this module takes, the parser takes with the same meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

from checkpointer.cli.call import Call


def answer(words: Sequence[str]) -> int | None:
    """Answer a plain `ckpt save`; the exit status, or None where the call is anything else."""
    if not words or words[0] != "save":
        return None
    call = Call()
    label: str | None = None
    rest = iter(words[1:])
    for word in rest:
        if word in ("-q", "--quiet"):
            call.out.quiet = True
        elif word == "--json":
            call.out.json = True
        elif word == "-m" and label is None:
            label = next(rest, "")
            if label.startswith("-") or not label:
                return None
        else:
            return None
    from checkpointer.cli import saving

    return saving.save(call, label, force_root=False)
