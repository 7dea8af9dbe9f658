"""Every exception a caller may catch, under one root, each saying what was kept and what to do next.

`CheckpointerError` is never raised itself. Each class below carries a stable `code` (the `error.code` of
`--json`) and the exit status of the command line:

1 failed or nothing to do, nothing half-done; 2 usage; 3 a person must decide; 4 busy; 5 the store is damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class CheckpointerError(Exception):
    """The root. `message` says what happened, `kept` what is safe, `next` the commands to type.

    `details` are further JSON-ready facts; keys are only ever added.
    """

    code: ClassVar[str] = "failed"
    exit: ClassVar[int] = 1

    def __init__(self, message: str, *, kept: str = "", next: Sequence[str] = (), **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.kept = kept
        self.next = tuple(next)
        self.details = details

    def told(self) -> str:
        """All of it as lines for a person."""
        kept = [f"kept: {self.kept}"] if self.kept else []
        ways = [f"next: {way}" if i == 0 else f"      {way}" for i, way in enumerate(self.next)]
        return "\n".join([self.message, *kept, *ways])


class Failed(CheckpointerError):
    """The operation failed; nothing is half-done."""


class NoSpace(Failed):
    """The disk (of the store or of the workspace) is full or the quota is reached."""

    code = "no-space"


class CaptureFailed(Failed):
    """The workspace could not be read completely, so no checkpoint was made."""

    code = "capture-failed"


class ReadOnlyStore(Failed):
    """The store can be looked at but not written (an agent's sandbox often makes it so)."""

    code = "read-only-store"


class NoStore(Failed):
    """There is no store for this directory; nothing is protected here."""

    code = "no-store"


class Unconfigurable(Failed):
    """An agent's configuration is not one that can be changed safely; it is as it was. `details` have the snippet."""

    code = "configuration"


class NothingToDo(CheckpointerError):
    """Nothing to undo, redo or restore; nothing was written."""

    code = "nothing-to-undo"


class NothingToRedo(NothingToDo):
    """The redo list is empty; nothing was written."""

    code = "nothing-to-redo"


class TooOld(NothingToDo):
    """The unit or checkpoint is older than the kept end of the timeline."""

    code = "too-old"


class Usage(CheckpointerError):
    """The words of the call do not fit: an unknown handle, a bad option, a path outside the workspace."""

    code = "usage"
    exit = 2


class RefusedRoot(Usage):
    """The directory is one that must not be a workspace ($HOME, /, /tmp, a mount root, a system directory)."""

    code = "refused-root"


class NeedsPerson(CheckpointerError):
    """A person must decide; nothing was written. `next` names the ways on."""

    code = "needs-person"
    exit = 3


class Conflict(NeedsPerson):
    """The same lines were changed again later. `conflicts` is `[{"path", "lines", "by"}]`."""

    code = "conflict"


class Drift(NeedsPerson):
    """The files differ from what was recorded and nobody knows by whom."""

    code = "drift"


class Interfered(NeedsPerson):
    """A path changed between its capture and its replacement; it was left as it is."""

    code = "interfered"


class NeedsMigration(NeedsPerson):
    """The log holds an event whose meaning changed since; `ckpt migrate` writes a new log."""

    code = "needs-migration"


class Busy(CheckpointerError):
    """Somebody alive holds the lock, lease or call."""

    code = "busy"
    exit = 4


class Damaged(CheckpointerError):
    """The store, or a part of it named in the message, cannot be trusted. Other parts stay usable."""

    code = "damaged"
    exit = 5


class MissingObject(Damaged):
    """An object a checkpoint names is not in the store."""

    code = "missing-object"


class NewerFormat(Damaged):
    """The store was written by a newer version of this program."""

    code = "newer-format"


class LogDamaged(Damaged):
    """The event log is damaged before its tail; `seq` is the first event that cannot be trusted."""

    code = "log-damaged"

    def __init__(self, message: str, *, seq: int, **kw: Any) -> None:
        super().__init__(message, seq=seq, **kw)
        self.seq = seq


class LogError(CheckpointerError):
    """Root of what can go wrong when appending to an event log."""

    code = "log"


class Fenced(LogError):
    """Somebody with a higher epoch owns the run now. The event was not written."""

    code = "fenced"
    exit = 4


class Behind(LogError):
    """The log is longer than this pen knew, in the same epoch. The event was not written."""

    code = "behind"


class Finished(LogError):
    """The run is finished; nothing may follow. The event was not written."""

    code = "finished"


class OutcomeUnknown(LogError):
    """The connection broke during an append; `resolve(event id)` tells whether it was written."""

    code = "outcome-unknown"


class IllegalEvent(LogError):
    """The fold would refuse this event; it was not written."""

    code = "illegal-event"
