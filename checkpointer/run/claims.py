"""Who claimed a run, when, and after what: the starts, resumes and take-overs of a log, counted over its life.

Looked for in the lines themselves, without reading what stands between them, so that all runs of a store are counted
in the time that reading their bytes takes. It is a figure: the chain is not verified, and what cannot be read is left
out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args

from checkpointer.line import BadLine, facts_of, parts
from checkpointer.log import glance
from checkpointer.log.beside import Beside

After = Literal["begun", "released", "crash", "takeover"]
_AFTER = get_args(After)
_TYPED = b'"type":"run_'
_HEAD = 120
"""A line names its type within so many bytes."""


class Claim(NamedTuple):
    """The run became somebody's with event `seq`; those before it were replayed for that. `after` is how its owner
    before ended: it let go, died, or was taken over from; `begun` where there was none.
    """

    seq: int
    at: str
    after: After


class Life(NamedTuple):
    """One run: how long its log is, and its claims, oldest first. `last` is when its last claim or end was written,
    `fenced` how many appends were refused because it was another's by then.
    """

    run: str
    handle: str
    mode: str
    events: int
    claims: tuple[Claim, ...]
    last: str
    fenced: int = 0

    @property
    def recoveries(self) -> tuple[Claim, ...]:
        """The claims whose owner before had not let go."""
        return tuple(claim for claim in self.claims if claim.after in ("crash", "takeover"))


def lives(directory: str) -> Iterator[Life]:
    """Every run below a directory of runs, the longest log first; those that cannot be read are left out."""
    named = []
    for run in glance.runs(directory):
        with contextlib.suppress(OSError):
            named.append((-os.stat(os.path.join(directory, run, "events.jsonl")).st_size, run))
    for _, run in sorted(named):
        found = life(directory, run)
        if found is not None:
            yield found


def life(directory: str, run: str) -> Life | None:
    """One run; None where its log cannot be read or does not begin as one."""
    claims: list[Claim] = []
    handle, mode, last, events = run, "", "", 0
    try:
        with open(os.path.join(directory, run, "events.jsonl"), "rb", buffering=1 << 20) as f:
            for events, line in enumerate(f, 1):
                if _TYPED not in line[:_HEAD]:
                    continue
                facts = _facts(line)
                last = str(facts.get("at", last))
                after: Any = "begun" if facts.get("type") == "run_started" else facts.get("after")
                if after in _AFTER:
                    claims.append(Claim(events, last, after))
                if after == "begun":
                    mode = str(facts.get("mode", ""))
                    number = facts.get("number")
                    handle = f"r{number}" if number is not None else run
    except OSError:
        return None
    fenced = Beside(os.path.join(directory, run)).fenced()
    return Life(run, handle, mode, events, tuple(claims), last, fenced) if claims else None


def _facts(line: bytes) -> dict[str, object]:
    try:
        return facts_of(parts(line.rstrip(b"\n"))[0])
    except BadLine:
        return {}
