"""One report's way: to its workspace, past the gate of its run, into facts and checkpoints, and back with an answer."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from checkpointer.agents import answering, diary, letterbox
from checkpointer.agents import sessions as directories
from checkpointer.agents.dialects.report import Reply, Report
from checkpointer.agents.dialects.toolset import is_cheap
from checkpointer.agents.intake import Intake
from checkpointer.agents.letterbox import WARN
from checkpointer.agents.naming import run_name
from checkpointer.agents.scene import Scene
from checkpointer.errors import CheckpointerError, Fenced, LogDamaged, NoStore
from checkpointer.run.session import JOURNAL, Session
from checkpointer.workspace import guard

if TYPE_CHECKING:
    from checkpointer.agents.observing import Observer, Worked
    from checkpointer.workspace.outcome import Settled
    from checkpointer.workspace.workspace import Workspace

WAIT = 20.0
"""Seconds to wait for another hook of the same run; then the report is left for it."""
ANSWER = 40
"""Lines of the answer to a typed command that only looks; one that was refused has `REFUSAL` at most."""
REFUSAL = 10


class Visit:
    """One report at its workspace and its run."""

    def __init__(self, report: Report, scene: Scene) -> None:
        self.report = report
        self.scene = scene
        self.environ = scene.environ
        self.root = b""
        self.store: Path | None = None
        self.intake: Intake | None = None
        self._finished: Settled | None = None
        self._second = ""

    def close(self) -> None:
        if self.intake is not None:
            self.intake.close()

    def work(self) -> Reply:
        """All of it. Raises our errors and OSError where nothing can be kept."""
        reply = self._take_in()
        if self.report.kind == "tool-start" and self.store is not None and not is_cheap(self.report):
            from checkpointer.agents import repeating

            reply.ask = repeating.question(self.store, self.report)
        return reply

    def _take_in(self) -> Reply:
        if not self.report.session and not self.environ.get("CKPT_RUN"):
            # No conversation is told of: a run of nobody's would be a stranger's to the next such report.
            diary.write(None, self.report.agent, self.report.event, "passed over: it names no session")
            return Reply()
        directories.adopt(self.report)
        if self.report.kind == "ignored":
            return Reply()
        self.environ = directories.surroundings(self.report, self.environ, self.scene.directory)
        self.root, directory = directories.place(self.report, self.environ, self.scene.directory)
        self.store = directory if directory is not None else _made(self.root)
        self.intake = intake = Intake(self.store, run_name(self.report, self.environ))
        if directory is None or not intake.place.is_dir():
            intake.make()
        session = intake.known()
        if is_cheap(self.report) and session is not None and session.open and self._goes_on(session):
            intake.add(self.report, needed=False)
            return Reply()
        return self._pass(directory is not None)

    def _pass(self, opened: bool) -> Reply:
        """Past the gate: whoever holds it works on everything that waits, so the report may be done by another."""
        assert self.intake is not None
        intake, reports = self.intake, [self.report]
        with intake.passed(0.0) as held:
            if held:
                return self._hold([*intake.take(), self.report])
        mine = self.report.kind in ("prompt", "session-start")  # it wants an answer of its own
        if not mine:
            intake.add(self.report, needed=not is_cheap(self.report))
        with intake.passed(WAIT) as held:
            if held:
                waiting = intake.take()
                if waiting or mine:
                    return self._hold([*waiting, *(reports if mine else ())])
                return Reply()
        if answering.command(self.report) is not None:
            words = answering.busy(intake.known(), self.report)
            diary.write(self.store, self.report.agent, self.report.event, words)
            return Reply(block=words)
        if mine:
            intake.add(self.report, needed=True)
        diary.write(self.store, self.report.agent, self.report.event, "left for the hook that is at work")
        return Reply()

    def _goes_on(self, session: Session) -> bool:
        """Is this session's owner still the agent that reports, under the same epoch?"""
        process = self.scene.process
        if self.environ.get("CKPT_RUN"):
            return self.environ.get("CKPT_EPOCH") == str(session.epoch)
        return process is None or session.is_owned_by(process.pid, process.started)

    # -- holding the gate

    def _hold(self, reports: list[Report]) -> Reply:
        from checkpointer.agents.observing import Observer
        from checkpointer.workspace.workspace import Workspace

        assert self.store is not None
        assert self.intake is not None
        workspace = Workspace(self.root, self.store)
        _configure(workspace)
        self._finish(workspace)
        session = self.intake.known()
        based = False
        if session is None or not self._goes_on(session) or self._released(session):
            try:
                session, based = self._attach(workspace)
            except LogDamaged as e:
                session, based = self._begin_anew(workspace, session, e), True
        observer = Observer(workspace, self.intake, session)
        cut = answering.cut_short(session, self._finished)
        worked = observer.work(reports, based=based, mine=self.report)
        self._after(workspace, observer, worked)
        for text in (*workspace.notices, *workspace.store.notices):
            diary.write(self.store, self.report.agent, self.report.event, text)
        self._warn(workspace)
        return self._reply(workspace, observer.session, worked, cut)

    def _finish(self, workspace: Workspace) -> None:
        """An undo, redo or restore that was cut short comes to its end before anything else is said or done."""
        with contextlib.suppress(CheckpointerError):
            if workspace.store.is_pending():
                self._finished = workspace.settle()

    def _released(self, session: Session) -> bool:
        """Was the run let go, so that whoever goes on with it must claim it?"""
        return session.released and self.report.kind in ("session-start", "prompt", "tool-start")

    def _attach(self, workspace: Workspace, *, anew: bool = False) -> tuple[Session, bool]:
        from checkpointer.agents import attaching

        assert self.intake is not None
        found = attaching.attach(workspace, self.intake, self.report, self.scene.process, self.environ, anew=anew)
        for note in found.notes:
            diary.write(self.store, self.report.agent, self.report.event, note)
        if found.cut:
            letterbox.leave(self.intake.place, attaching.cut_off(found.cut))
        self._second = found.second
        return found.session, found.based

    def _begin_anew(self, workspace: Workspace, before: Session | None, error: CheckpointerError) -> Session:
        """The session goes on as another run, since the log of its own is damaged, or gone. Raises `error` where that
        run is not the session's to set aside.
        """
        from checkpointer.agents import attaching
        from checkpointer.run import roster

        assert self.store is not None
        assert self.intake is not None
        if self.environ.get("CKPT_RUN"):
            raise error
        aside = attaching.set_aside(workspace, self.intake)
        session, _ = self._attach(workspace, anew=True)
        was = before.handle if before is not None and before.handle else aside
        words = f"the log of {was} cannot be gone on with ({error.message}): this session goes on as {session.handle}"
        if aside:
            named = roster.read(self.store, aside).handle  # its number, where its first event still says it
            words += f", protected. That log stays as it is: ckpt events {named} --salvage"
        diary.write(self.store, self.report.agent, self.report.event, words)
        self._leave_warning(f"ckpt: {words}")
        return session

    def _warn(self, workspace: Workspace) -> None:
        """What no undo can bring back, and a secret that is kept now: the person is told once."""
        from checkpointer.workspace.exposed import SAYS
        from checkpointer.workspace.reading.capture import NO_WAY_BACK

        lost = [f"ckpt: {text}" for text in workspace.notices if text.endswith(NO_WAY_BACK) or SAYS in text]
        if lost:
            self._leave_warning("\n".join(lost))

    def _leave_warning(self, text: str) -> None:
        assert self.intake is not None
        before = letterbox.take(self.intake.place, WARN)
        letterbox.leave(self.intake.place, "\n".join(filter(None, (before, text))), WARN)

    def _after(self, workspace: Workspace, observer: Observer, worked: Worked) -> None:
        """What a turn's end asks for: the log brought up to date, cut-off calls settled, the run let go."""
        assert self.intake is not None
        from checkpointer.agents.observing import LONG

        made, intake = worked.draft, self.intake
        journal = intake.place / JOURNAL
        long = journal.exists() and journal.stat().st_size > LONG
        if not (made.flushes or long):
            return
        from checkpointer.agents import attaching

        try:
            refused = attaching.flushed(intake, observer.session)
        except (LogDamaged, NoStore) as e:
            observer.session = self._begin_anew(workspace, observer.session, e)
            refused = attaching.flushed(intake, observer.session)
        for text in refused:
            diary.write(self.store, self.report.agent, self.report.event, f"not in the log: {text}")
        if made.interrupted:
            observer.session, settled = attaching.interrupted(workspace, intake, observer.session)
            intake.keep(observer.session)
            letterbox.leave(intake.place, attaching.cut_off(settled))
        if made.ended and not self.environ.get("CKPT_RUN"):
            attaching.let_go(workspace, intake, observer.session, made.ended)
            observer.session.released = True
            intake.keep(observer.session)
            self._over()

    def _over(self) -> None:
        """The session is over, and nobody is there any more to be told of what was not kept in it."""
        from checkpointer.agents import protection

        protection.save(self.root, self.store, protection.Protection(session=self.report.session))

    # -- answering

    def _reply(self, workspace: Workspace, session: Session, worked: Worked, cut: str) -> Reply:
        from checkpointer.agents import protection, telling

        assert self.intake is not None
        note = protection.load(self.root, self.store, self.report.session)
        if worked.trouble is not None:
            if note.lost(worked.trouble.message, self.report.agent, process=self.scene.process):
                protection.save(self.root, self.store, note)
                diary.write(
                    self.store, self.report.agent, self.report.event, f"NOT PROTECTED: {worked.trouble.message}"
                )
        elif worked.captured is not None and note.held(worked.captured.number):
            protection.save(self.root, self.store, note)
        if self.report.kind not in ("prompt", "session-start") or self.report.subagent:
            return Reply()
        reply = Reply(person="\n".join(filter(None, (self._protection(), letterbox.take(self.intake.place, WARN)))))
        if self._second:
            reply.person = "\n".join(filter(None, (reply.person, self._second)))
        if worked.draft.asked is not None:
            reply.block = self._carried_out(worked.draft.asked, session, cut)
        elif worked.draft.again:
            reply.block = answering.again(self.intake.place, session, self._finished)
        if cut or worked.draft.again:
            self._answered(session)
        if cut and not reply.block:
            reply.person = "\n".join(filter(None, (reply.person, cut)))
        if reply.block:
            return reply
        if worked.draft.prompted:
            told = (letterbox.take(self.intake.place), telling.undone(workspace, worked.undone))
            reply.context = "\n\n".join(filter(None, told))
        return reply

    def _protection(self) -> str:
        """What the person of this session has not been told of its protection; kept as told."""
        from checkpointer.agents import protection

        note = protection.load(self.root, self.store, self.report.session)
        words = note.words()
        if words:
            protection.save(self.root, self.store, note)
        return words

    def _carried_out(self, words: list[str], session: Session, cut: str) -> str:
        """The answer to a typed command. The one that was cut short, typed once more, is that one, and no further."""
        assert self.intake is not None
        done = self._finished
        if done is not None and answering.is_finished(session, done) and words == [done.checkpoint.kind]:
            answering.keep(self.intake.place, session, cut)
            self._answered(session)
            return cut
        return "\n".join(filter(None, (cut, self._asked(words, session))))

    def _asked(self, words: list[str], session: Session) -> str:
        """The answer to a command that the person typed as a prompt. The gate is held, and what was asked is noted."""
        from checkpointer.agents import asking

        assert self.intake is not None
        status, text = self.scene.ask(self.root, session.handle, words)
        most = ANSWER if status == 0 else REFUSAL
        answer = f"ckpt: {asking.shortened(text.rstrip(), most) or 'done'}"
        if answering.changes(words):
            answering.keep(self.intake.place, session, answer)
            self._answered(session)
        return answer

    def _answered(self, session: Session) -> None:
        """What was asked last has its answer: whoever asks after this asks anew."""
        assert self.intake is not None
        answering.close(session)
        with contextlib.suppress(OSError):
            self.intake.keep(session)

    def lost(self, error: Exception) -> Reply:
        """Nothing could be kept: noted, and told to the person once."""
        from checkpointer.agents import protection

        message = _why(error)
        diary.write(self.store, self.report.agent, self.report.event, f"{type(error).__name__}: {message}")
        if isinstance(error, Fenced | NoStore) and self.environ.get("CKPT_RUN"):
            message = f"this agent belongs to a run that goes on elsewhere ({message})"
        if not self.root:
            self.root = guard.real(os.fsencode(self.report.directory or self.scene.directory or "/"))
        note = protection.load(self.root, self.store, self.report.session)
        remedy = "; begin a new session of the agent: that is kept" if isinstance(error, LogDamaged) else ""
        note.lost(message, self.report.agent, remedy, self.scene.process)
        protection.save(self.root, self.store, note)
        if answering.command(self.report) is not None:
            return Reply(block=answering.failed(self.report, message))
        if self.report.kind in ("prompt", "session-start") and not self.report.subagent:
            return Reply(person=self._protection())
        return Reply()


def _why(error: Exception) -> str:
    if isinstance(error, CheckpointerError):
        return error.message
    if isinstance(error, OSError):
        return f"{error.strerror or error}"
    return f"an error in ckpt itself ({type(error).__name__}: {' '.join(str(error).split())[:200]})"


def _made(root: bytes) -> Path:
    """The directory of a new store. Raises what `home.make` raises."""
    from checkpointer import home

    return home.make(root).directory


def _configure(workspace: Workspace) -> None:
    from checkpointer import home

    config = home.configuration()
    workspace.limit = config.integer("capture.limit")
    workspace.wait = float(config.integer("lock.wait"))
    workspace.jobs = config.integer("capture.jobs") or None
