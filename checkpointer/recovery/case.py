"""What a verdict is asked about, and what it says: facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from checkpointer.events import ABSENT, Effect, Risk, Terms, ToolCallCompleted, Verdict
from checkpointer.tools import Finding

Choice = Literal["ask", "keep", "restore"]
"""What a person said about files that a call left half done: nothing, keep them, put those of its start back."""

OwnerFate = Literal["ours", "released", "dead", "alive", "unknown"]
"""Of whoever started the call: this very process, one that let go, one that is proven dead, one that lives, or none of
these can be told."""


@dataclass(frozen=True, slots=True)
class Files:
    """What the files say of a workspace call. `captured`: they were verified at its start.

    `equal` is None where nobody can tell; then `why` says so. `explained`: all that differs can only be this call's
    own work, or nobody else edits here; `unexplained` says why not.
    """

    captured: bool
    equal: bool | None = None
    why: str = ""
    differing: tuple[str, ...] = ()
    explained: bool = False
    unexplained: str = ""
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """All that is known of one call. `terms` are the stricter of what was recorded and what is declared today.

    `first_at` is when an attempt under its present key first started, `at` the newest one. `clock` is the newest time
    that anybody in this run wrote down: where `now` is before it, a clock was set back. `processes` are those of the
    call that live, None where that cannot be told. `late` is a completion that its fenced owner left. `finding` is
    what a reconciler said, None if it was not asked; `compensated` what came of a compensation, empty for none.
    `observed`: an agent made it that is only watched, which `went_on` if it said anything after that. `earlier`: an
    attempt before the newest may have had its effect; `refused`: somebody does not allow another one.
    """

    tool: str
    effect: Effect
    key: str
    risk: Risk = "normal"
    terms: Terms = field(default_factory=Terms)
    known: bool = True
    now: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    first_at: datetime | None = None
    at: datetime | None = None
    clock: datetime | None = None
    owner: OwnerFate = "unknown"
    dead: bool = False
    processes: tuple[int, ...] | None = ()
    reason: str = "crash"
    error: Any = None
    arguments: Any = ABSENT
    effect_fields: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    late: ToolCallCompleted | None = None
    files: Files | None = None
    finding: Finding | None = None
    compensated: str = ""
    compensates: str | None = None
    carried: tuple[str, int] | None = None
    choice: Choice = "ask"
    observed: bool = False
    went_on: bool = False
    earlier: bool = False
    refused: bool = False


Act = Literal["append", "ask", "compensate", "put back"]
"""What is to be done: write the verdict down; first ask the reconciler, or compensate, and judge anew; put the files
of the start back and then write."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """`rule` is one sentence for people. `result` and the facts after it are those of a completion, where `verdict` is
    `complete`. `evidence` goes into the log.
    """

    act: Act
    verdict: Verdict
    rule: str
    by: Literal["policy", "person", "receiver", "tree", "late"] = "policy"
    evidence: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    effect: Literal["done", "none", "partial"] = "done"
    source: Literal["reconciliation", "person", "late"] = "reconciliation"
    failed: bool = False
