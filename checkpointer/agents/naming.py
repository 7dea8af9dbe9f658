"""What the run of a session is called."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from checkpointer.agents.dialects.report import Report


def run_name(report: Report, environ: Mapping[str, str]) -> str:
    """The own name of the run that a report belongs to: of the session, or of `ckpt run` around it."""
    inside = environ.get("CKPT_LOG") or environ.get("CKPT_RUN", "")
    if environ.get("CKPT_RUN") and inside and "/" not in inside and not inside.startswith("."):
        return inside
    digest = hashlib.sha256(report.session.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{report.agent}-{digest}"
