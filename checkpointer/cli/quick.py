"""The plain forms of the commands that are called most, answered without the parser of the command line.

Loading that parser takes longer than the work. A form that is not plain here is left to it, mistakes too, so that there
is one grammar: what this module takes, the parser takes with the same meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from checkpointer.cli.call import Call


class Plain(NamedTuple):
    """What a plain `ckpt save` says."""

    label: str | None
    quiet: bool
    json: bool


def answer(words: Sequence[str]) -> int | None:
    """Answer a plain `ckpt save`; the exit status, or None where the call is anything else."""
    said = plain(words)
    if said is None:
        return None
    call = Call()
    call.out.quiet |= said.quiet
    call.out.json |= said.json
    from checkpointer.cli import saving

    return saving.save(call, said.label, force_root=False)


def plain(words: Sequence[str]) -> Plain | None:
    """What these words say if they are a plain `ckpt save`, else None."""
    if not words or words[0] != "save":
        return None
    quiet = json = False
    label: str | None = None
    rest = iter(words[1:])
    for word in rest:
        if word in ("-q", "--quiet"):
            quiet = True
        elif word == "--json":
            json = True
        elif word == "-m" and label is None:
            label = next(rest, "")
            if label.startswith("-") or not label:
                return None
        else:
            return None
    return Plain(label, quiet, json)
