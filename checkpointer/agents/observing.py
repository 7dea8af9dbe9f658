"""An observed run: what hooks report becomes facts and checkpoints, each change of the files with whoever may own it.

The tree alone decides what changed; what a tool says it wrote is kept for people to read and for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from checkpointer.agents.dialects.report import Report
from checkpointer.agents.drafting import Draft, draft, name_of_fact
from checkpointer.agents.intake import Intake
from checkpointer.agents.neighbours import neighbours
from checkpointer.errors import CheckpointerError
from checkpointer.fields import Fields, made
from checkpointer.run.session import Fact, Session
from checkpointer.workspace import facts as facts_file
from checkpointer.workspace.checkpoint import OPERATIONS, By, Checkpoint, CheckpointKind
from checkpointer.workspace.workspace import Workspace

PATIENCE = 15.0
"""Seconds to wait for the workspace lock: a hook that is late is killed."""
LONG = 256 << 10
"""Bytes of a journal that are appended to the log although the turn goes on."""


class Worked(Fields):
    """What came of a batch. `trouble` is why the files could not be captured, None where that was not tried or went
    well; `captured` says which; `undone` are what a person did to the files since the agent was last told.
    """

    draft: Draft
    captured: Checkpoint | None = None
    trouble: CheckpointerError | None = None
    undone: list[Checkpoint] = made(default_factory=list)


class Observer:
    """Works on one run's reports while the gate is held."""

    def __init__(self, workspace: Workspace, intake: Intake, session: Session) -> None:
        self.workspace = workspace
        self.intake = intake
        self.session = session

    def work(self, reports: Sequence[Report], *, based: bool = False, mine: Report | None = None) -> Worked:
        """Take reports in; what they come to is durable when this returns. `based`: the files were captured just now;
        `mine` is the one that an answer is waited for.

        Raises what numbering a turn raises, and OSError where nothing can be written down.
        """
        told = self.session.told
        made = draft(self.session, reports, self._number, mine)
        worked = Worked(made)
        if made.reads and not based:
            self._capture(made, worked)
        commit = self._commit(worked, verified=based)
        why = worked.trouble.message if worked.trouble is not None else None
        for fact in made.facts:
            fact.setdefault("commit", commit if why is None else None)
            if why is not None:
                fact["why"] = why
            self.session.take({"f": "", "commit": fact["commit"]})
        if made.prompted:
            worked.undone = self._undone(told)
            self.session.told = max(self.session.told, self.session.known)
        self.intake.write(made.facts, self.session)
        self.intake.taken()
        self.intake.keep(self.session)
        return worked

    def _number(self) -> int:
        """A number for a turn that begins. Raises what `Workspace.locked` raises."""
        with self.workspace.locked("beginning a turn", PATIENCE):
            facts = self.workspace.facts
            facts.last_turn = max(facts.last_turn, self.session.turn) + 1
            facts.had_run = True
            facts_file.save(self.workspace.directory, facts)
            return facts.last_turn

    def _commit(self, worked: Worked, *, verified: bool) -> list[object] | None:
        if worked.captured is not None:
            return [worked.captured.id, worked.captured.number, True]
        return [self.session.commit, self.session.known, verified] if self.session.commit else None

    def _capture(self, made: Draft, worked: Worked) -> None:
        """A checkpoint of the files as they are, and a fact for each that others made since the last one."""
        own = made.owners
        try:
            with self.workspace.locked(f"a checkpoint for {self.session.handle}", PATIENCE):
                others = neighbours(self.workspace.directory, (self.session.run,))
                runs = (self.session.handle, *others.runs) if own else others.runs
                by: By = "agent" if own or others.runs or self._lost() else "person"
                saved = self.workspace.save(
                    kind=_kind(own, made), runs=runs, steps=(*own, *others.steps), by=by
                )  # fmt: skip
        except CheckpointerError as e:
            worked.trouble = e
            return
        worked.captured = saved.checkpoint
        fresh = self._since(saved.checkpoint)
        ours = bool(own) and saved.created
        steps = bool(own) and own != (made.turn,)
        found = [self._changed(c, before, made) for before, c in fresh if not (ours and steps and c is fresh[-1][1])]
        made.facts[:0] = found
        for fact in found:
            self.session.take(fact)

    def _lost(self) -> bool:
        """Could nothing be kept of this session up to now? Then what changed may be its agent's."""
        from checkpointer.agents import protection

        return bool(protection.load(self.workspace.root, self.workspace.directory, self.session.session).reason)

    def _since(self, newest: Checkpoint) -> list[tuple[int, Checkpoint]]:
        """The checkpoints that the facts do not know of, oldest first, each with the number of the one before it."""
        known = self.session.known
        if newest.number <= known:
            return []
        fresh = [newest]
        if newest.number > known + 1:
            fresh = [c for c in self.workspace.store.checkpoints() if c.number > known]
        befores = [known, *(c.number for c in fresh)]
        return list(zip(befores, fresh, strict=False))

    def _changed(self, checkpoint: Checkpoint, before: int, made: Draft) -> Fact:
        meta = checkpoint.meta
        cause = checkpoint.kind if checkpoint.kind in OPERATIONS else "step" if meta.steps else "edit"
        fact: Fact = {
            "f": "changed",
            "cause": cause,
            "by": meta.by if cause != "edit" or checkpoint.kind == "save" else "unknown",
            "checkpoint": checkpoint.number,
            "before": before or None,
            "uid": name_of_fact(),
            "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "commit": [checkpoint.id, checkpoint.number, True],
        }
        if meta.steps == (made.turn,) and made.turn:
            fact["turn"] = int(made.turn[1:])
        return fact

    def _undone(self, told: int) -> list[Checkpoint]:
        """What a person undid, redid or restored since the agent was last told."""
        if not told or self.session.known <= told:
            return []
        made = self.workspace.store.checkpoints()
        return [c for c in made if c.number > told and c.kind in OPERATIONS and c.meta.by == "person"]


def _kind(own: tuple[str, ...], made: Draft) -> CheckpointKind:
    if not own:
        return "outside"
    return "turn" if own == (made.turn,) else "step"
