"""The files of a driven run: a checkpoint before and after each call that may write, and who changed what between.

Where a checkpoint cannot be made the run goes on, and every event says why it is unprotected; `trouble` holds the
error. Usable by several threads.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from checkpointer.errors import CheckpointerError
from checkpointer.events import Commit, WorkspaceChanged
from checkpointer.run import closing, roster
from checkpointer.state import RunState
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.checkpoint import OPERATIONS, By, Checkpoint, CheckpointKind
from checkpointer.workspace.outcome import Saved
from checkpointer.workspace.workspace import Workspace

PATIENCE = 60.0
"""Seconds to wait for the workspace lock before going on unprotected."""


def commit_of(checkpoint: Checkpoint, *, captured: bool) -> Commit:
    return Commit(id=checkpoint.id, number=checkpoint.number, captured=captured)


class Files:
    """`run` is the run's own name, `handle` the one that checkpoints know it by (`r7`). `warn` is told once when
    protection is lost.
    """

    def __init__(
        self, workspace: Workspace, run: str, handle: str, warn: Callable[[CheckpointerError], None] | None = None
    ) -> None:
        self.workspace = workspace
        self.run = run
        self.handle = handle
        self.warn = warn or _warned
        self.trouble: CheckpointerError | None = None
        self._mutex = threading.RLock()
        self._commit: Commit | None = None
        self._known = 0

    def take_up(self, state: RunState) -> None:
        """Go on from what a run's log says."""
        self._commit = state.commit
        if state.commit is not None and state.commit.number is not None:
            self._known = max(self._known, state.commit.number)

    def now(self) -> dict[str, Any]:
        """What an event says of the files where nobody has just looked at them."""
        if self._commit is None:
            return {"unprotected": self.trouble.message if self.trouble else "no checkpoint was made yet"}
        if self.trouble is not None:
            return {"unprotected": self.trouble.message}
        return {"commit": self._commit.model_copy(update={"captured": False})}

    def verified(self) -> dict[str, Any]:
        """The same right after a look: the checkpoint as evidence, or why there is none."""
        return {"commit": self._commit} if self.trouble is None and self._commit is not None else self.now()

    def base(self) -> None:
        """A first checkpoint, before the run does anything. Watched runs whose owner died end with it."""
        dead = closing.dead(self.workspace)
        self._take("crash" if dead else "base", ())
        if dead and self.trouble is None:
            with contextlib.suppress(CheckpointerError):
                closing.close(self.workspace, dead, self.workspace.store.by_number(self._known))

    def before(self, parent: str = "") -> list[WorkspaceChanged]:
        """A checkpoint of the files as a call finds them. Gives what others did to them since, as events; what changed
        is the work of `parent` where that step makes the call.
        """
        return self._take("step", (parent,)) if parent else self._take("outside", ())

    def after(self, step: str) -> list[WorkspaceChanged]:
        """A checkpoint of the files as a call left them: what changed is the work of `step` (`t3.2`)."""
        return self._take("step", (step,))

    def during(self, steps: tuple[str, ...], kind: CheckpointKind = "step") -> list[WorkspaceChanged]:
        """A checkpoint while `steps` are at work, or right after: what changed since the one before is theirs."""
        return self._take(kind, steps)

    @property
    def newest(self) -> int:
        """The number of the newest checkpoint that the run knows of, 0 before the first."""
        return self._known

    def left(self, step: str) -> list[WorkspaceChanged]:
        """A checkpoint of what a call that was cut off left: the work of `step`, or of nobody in particular."""
        return self._take("crash", (step,) if step else ())

    def _take(self, kind: CheckpointKind, steps: tuple[str, ...]) -> list[WorkspaceChanged]:
        with self._mutex:
            try:
                return list(self._capture(kind, steps))
            except CheckpointerError as e:
                self._lost(e)
                return []

    def _lost(self, error: CheckpointerError) -> None:
        """From here on nothing is protected: said once, not with each call."""
        if self.trouble is None:
            self.warn(error)
        self.trouble = error

    def _capture(self, kind: CheckpointKind, steps: tuple[str, ...]) -> Iterator[WorkspaceChanged]:
        workspace = self.workspace
        with workspace.locked(f"a checkpoint for {self.handle}", PATIENCE):
            # A run that was started around this one sees our changes, but they are not its own.
            others = roster.others(workspace.directory, self.run, os.environ.get("CKPT_RUN", ""))
            runs = (self.handle, *others.runs) if steps else others.runs
            by: By = "agent" if steps or others.runs else "person"
            saved = workspace.save(kind=kind, runs=runs, steps=(*steps, *others.steps), by=by)
        self.trouble = None
        yield from self._noted(saved, ours=bool(steps))

    def _noted(self, saved: Saved, *, ours: bool) -> Iterator[WorkspaceChanged]:
        """An event for each checkpoint that the run's log does not know of, but for the one made for our own step."""
        before = self._known
        for checkpoint in self._since(saved.checkpoint):
            newest = checkpoint.number == saved.checkpoint.number
            self._commit = commit_of(checkpoint, captured=newest)
            if self._known and not (newest and ours and saved.created):
                yield _changed(checkpoint, self._commit, before)
            before = checkpoint.number
        self._known = max(self._known, saved.checkpoint.number)
        self._commit = commit_of(saved.checkpoint, captured=True)

    def _since(self, newest: Checkpoint) -> list[Checkpoint]:
        """The checkpoints that the run's log does not know of, oldest first."""
        if newest.number <= self._known:
            return []
        if newest.number == self._known + 1:
            return [newest]  # the usual case: no need to read the timeline
        return [c for c in self.workspace.store.checkpoints() if c.number > self._known]

    def open_turn(self) -> int:
        """A number for a turn that begins now. Raises what `Workspace.locked` raises."""
        return self._count("last_turn")

    def begin_run(self) -> int:
        """A number for a run that begins now."""
        return self._count("last_run")

    def open_question(self) -> int:
        """A number for a call that became uncertain now."""
        return self._count("last_uncertain")

    def _count(self, name: str) -> int:
        with self._mutex, self.workspace.locked("numbering", PATIENCE):
            facts = self.workspace.facts
            number = int(getattr(facts, name)) + 1
            setattr(facts, name, number)
            facts.had_run = True
            facts_file.save(self.workspace.directory, facts)
            return number


def _warned(error: CheckpointerError) -> None:
    warnings.warn(f"NOT PROTECTED from here on: {error.message}", RuntimeWarning, stacklevel=4)


def _changed(checkpoint: Checkpoint, commit: Commit, before: int) -> WorkspaceChanged:
    meta = checkpoint.meta
    cause: Any = checkpoint.kind if checkpoint.kind in OPERATIONS else "step" if meta.steps else "edit"
    return WorkspaceChanged(
        cause=cause,
        by=meta.by if cause != "edit" or checkpoint.kind == "save" else "unknown",
        checkpoint=checkpoint.number,
        before=before or None,
        commit=commit,
    )
