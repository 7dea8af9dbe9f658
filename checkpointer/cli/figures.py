"""What an operator watches beside the state of a workspace: open questions by risk, how its runs changed hands."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkpointer.workspace.workspace import Workspace

RISKS = ("high", "normal", "low")


def of(workspace: Workspace, uncertain: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Keys for `status --json`. `uncertain` are the open questions as documents; what changed hands is counted over all
    runs of the store, from their first event on.
    """
    from checkpointer.run import claims, roster

    lives = list(claims.lives(os.fspath(roster.runs_directory(workspace.directory))))
    after = Counter(claim.after for life in lives for claim in life.claims)
    return {
        "queue": _queue(uncertain, datetime.now(UTC)),
        "claims": after.total(),
        "crashes": after["crash"],
        "takeovers": after["takeover"],
        "fenced_appends": sum(life.fenced for life in lives),
        **_snapshots(os.fspath(roster.runs_directory(workspace.directory))),
    }


def _snapshots(runs: str) -> dict[str, Any]:
    """How often one led elsewhere than its log, over all runs, and whether those of today's version are not used."""
    from checkpointer.log import glance
    from checkpointer.snapshot import Snapshots

    every = [Snapshots(os.path.join(runs, run, "snapshots")) for run in glance.runs(runs)]
    failures = sum(int(one.tally().get("full_replay_equivalence_failures", 0)) for one in every)
    quarantined = any(one.quarantined for one in every[:1])
    return {
        "full_replay_equivalence_failures": max(failures, int(quarantined)),
        "snapshots_quarantined": quarantined,
    }


def _queue(uncertain: Sequence[dict[str, Any]], now: datetime) -> dict[str, Any]:
    by_risk = dict.fromkeys(RISKS, 0)
    oldest: dict[str, float] = {}
    for one in uncertain:
        risk = one["risk"]
        by_risk[risk] += 1
        age = (now - datetime.fromisoformat(one["since"])).total_seconds() if one["since"] else 0.0
        oldest[risk] = round(max(oldest.get(risk, 0.0), age), 3)
    overdue = [f"{one['handle']} {one['about']}" for one in uncertain if one["overdue"]]
    return {"open": by_risk, "oldest_s": oldest, "overdue": overdue}
