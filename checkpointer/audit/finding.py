"""What checking a store finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Progress = Callable[[str, int, int | None, int], None]


@dataclass(frozen=True)
class Finding:
    """Something that is not as it must be. `what` is one of `object pack ref chain extras facts permissions config log
    snapshot`.

    `checkpoint` is a number where the finding concerns one; `run` and `event` where it concerns a run's log. A
    `harmless` one costs nothing that was promised.
    """

    what: str
    message: str
    checkpoint: int | None = None
    harmless: bool = False
    run: str | None = None
    event: int | None = None


@dataclass
class Audit:
    """`unchecked` says what could not be looked at, and why. `checked` counts what was: kind -> how many. `misled` are
    the directories of runs of which a snapshot leads elsewhere than the log: see `audit.quarantine`.
    """

    findings: list[Finding] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    misled: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return all(f.harmless for f in self.findings)

    def add(
        self,
        what: str,
        message: str,
        checkpoint: int | None = None,
        *,
        harmless: bool = False,
        run: str | None = None,
        event: int | None = None,
    ) -> None:
        self.findings.append(Finding(what, message, checkpoint, harmless, run, event))

    def count(self, what: str, number: int = 1) -> None:
        self.checked[what] = self.checked.get(what, 0) + number
