"""Which event may follow which: the run's table and a call's.

A call is `accepted` by a model turn (or comes from nowhere: a caller's slot, an observed agent), `open` once its start
is in the log, then `completed`, `failed` (a proven failure), `denied`, `uncertain`, `abandoned` by a person, or
`unreported` (its agent went on without saying how it ended). What is not in a table is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

RunStatus = Literal["new", "owned", "released", "finished"]
CallStatus = Literal["accepted", "open", "completed", "failed", "denied", "uncertain", "abandoned", "unreported"]

RUN: Final[Mapping[tuple[str, str], RunStatus]] = {
    ("new", "run_started"): "owned",
    ("owned", "run_resumed"): "owned",
    ("released", "run_resumed"): "owned",
    ("owned", "run_released"): "released",
    ("owned", "run_finished"): "finished",
    ("released", "run_finished"): "finished",
    ("owned", "log_redacted"): "owned",
    ("released", "log_redacted"): "released",
    ("finished", "log_redacted"): "finished",
    ("owned", "*"): "owned",  # every type that this table does not name
    ("released", "*"): "released",  # a hook may report late
}

CALL: Final[Mapping[tuple[str, str], CallStatus]] = {
    ("new", "accept"): "accepted",
    ("new", "start"): "open",
    ("accepted", "start"): "open",
    ("accepted", "deny"): "denied",
    # tool_call_completed by its effect; `again`: a proven failure that is tried again in the same slot
    ("open", "done"): "completed",
    ("open", "partial"): "completed",
    ("open", "none"): "failed",
    ("open", "again"): "accepted",
    ("open", "uncertain"): "uncertain",
    ("uncertain", "done"): "completed",
    ("uncertain", "partial"): "completed",
    ("uncertain", "none"): "failed",
    ("unreported", "done"): "completed",
    ("unreported", "none"): "failed",
    # tool_call_reconciled by its verdict
    ("open", "complete"): "open",
    ("open", "wait"): "open",
    ("open", "retry"): "accepted",
    ("open", "unreported"): "unreported",
    ("uncertain", "complete"): "uncertain",
    ("uncertain", "wait"): "uncertain",
    ("uncertain", "escalate"): "uncertain",
    ("uncertain", "tell"): "uncertain",
    ("uncertain", "retry"): "accepted",
    ("uncertain", "unreported"): "unreported",
    ("uncertain", "abandon"): "abandoned",
    # a later slot that is the same action
    ("accepted", "join"): "accepted",
    ("open", "join"): "open",
    ("uncertain", "join"): "uncertain",
    ("completed", "join"): "completed",
    ("abandoned", "join"): "abandoned",
    ("failed", "join"): "accepted",
    ("denied", "join"): "accepted",
}

AGAIN: Final[Mapping[str, CallStatus]] = {
    "complete": "accepted",
    "done": "completed",
    "partial": "completed",
    "none": "failed",
    "wait": "uncertain",
    "escalate": "uncertain",
    "tell": "uncertain",
    "abandon": "abandoned",
    "deny": "uncertain",
}
"""What also may follow while a call is accepted once more and an earlier attempt of it is in question: what became of
that may be found out before it starts again, and not allowing another one ends no doubt.
"""

LIVE: Final = frozenset(("accepted", "open", "uncertain"))

EDITION: Final = 2
"""Counts the changes of what `apply` does that no table and no field shows."""
