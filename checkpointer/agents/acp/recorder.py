"""One thread that writes down what passes, so that nobody who talks waits for a disk, but where that is the point.

Jobs run one after another, in the order in which they were given. What they need of the files is looked at once for
all that wait, or before a job that somebody waits for is over.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from checkpointer import home
from checkpointer.agents import asking
from checkpointer.agents.acp.facts import CallFacts
from checkpointer.agents.acp.recording import Recording
from checkpointer.errors import CheckpointerError, Usage
from checkpointer.workspace.workspace import Workspace

RENEWAL = 8.0
"""Seconds after which an idle run says that its owner lives."""
TOGETHER = 50
"""After so many jobs the files are looked at, even if more wait."""
MOST_LINES = 10
"""Lines of an answer to an undo that did not go as asked."""


class Ticket:
    """A job somebody may wait for. `refusal` says why what it is about must not go on; `said` are words for the person,
    `tell` for the agent.
    """

    def __init__(self) -> None:
        self._done = threading.Event()
        self.refusal: CheckpointerError | None = None
        self.said = ""
        self.tell = ""

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def finish(self) -> None:
        self._done.set()


class Recorder:
    """Knows the workspace of each session. `configure` gives a workspace the configuration in force, `notify` is called
    whenever a job is done, `warn` prints a line on stderr.

    With `unprotected` a session whose directory cannot be protected goes on, and is not recorded.
    """

    def __init__(
        self,
        *,
        agent: str,
        environment: Mapping[str, str],
        configure: Callable[[Workspace], Workspace],
        warn: Callable[[str], None],
        unprotected: bool = False,
    ) -> None:
        self.agent = agent
        self.notify: Callable[[], None] = lambda: None
        self._environment = asking.as_person(environment)
        self._configure = configure
        self._warn = warn
        self._unprotected = unprotected
        self._recordings: dict[str, Recording] = {}
        self._sessions: dict[str, Recording | None] = {}
        self._directories: dict[str, bytes] = {}
        self._default: Recording | None = None
        self._news: list[str] = []
        self._jobs: queue.SimpleQueue[tuple[Callable[[Ticket], None] | None, Ticket, bool]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)

    @property
    def waiting(self) -> int:
        """How many jobs are not done yet."""
        return self._jobs.qsize()

    def recordings(self) -> list[Recording]:
        """The runs that were begun."""
        return list(self._recordings.values())

    # -- before the thread runs

    def begin(self, workspace: Workspace) -> Recording:
        """The run of the directory that the agent is started in. Raises what `Recording` raises."""
        self._default = self._recordings[str(workspace.directory)] = self._record(workspace)
        return self._default

    def start(self) -> None:
        self._thread.start()

    def _record(self, workspace: Workspace) -> Recording:
        return Recording(workspace, os.fsdecode(workspace.root), self.agent, self._tell)

    # -- jobs

    def session_wanted(self, directory: str | None) -> Ticket:
        """A session is about to begin in a directory: it must be protected first."""

        def job(ticket: Ticket) -> None:
            try:
                self._in(directory)
            except CheckpointerError as e:
                if not self._unprotected:
                    ticket.refusal = e
                else:
                    self._tell(f"NOT PROTECTED: {e.message}")

        return self._give(job, waits=True)

    def session(self, name: str, directory: str | None) -> None:
        """A session has begun."""

        def job(_: Ticket) -> None:
            with contextlib.suppress(CheckpointerError):
                self._sessions.pop(name, None)
                self._sessions[name] = self._in(directory)
                self._directories[name] = os.fsencode(directory or os.getcwd())

        self._give(job)

    def prompt(self, session: str, text: str | None, *, tells: bool = False) -> Ticket:
        """A prompt is on its way. With `tells` it may carry what the agent must know: see `Ticket.tell`."""

        def job(ticket: Ticket) -> None:
            for recording in self._of(session):
                ticket.tell = recording.prompt(session, text, tells=tells)
            ticket.said = self._take_news()

        return self._give(job, waits=True)

    def call(self, session: str, facts: CallFacts) -> None:
        def job(_: Ticket) -> None:
            for recording in self._of(session):
                recording.call(session, facts)

        self._give(job)

    def effect(self, session: str) -> Ticket:
        """Something is about to be done, and waits for us."""

        def job(_: Ticket) -> None:
            for recording in self._of(session):
                recording.look()

        return self._give(job, waits=True)

    def hear(self, session: str, text: str) -> None:
        def job(_: Ticket) -> None:
            for recording in self._of(session):
                recording.hear(session, text)

        self._give(job)

    def answered(self, session: str, stop: str) -> Ticket:
        def job(ticket: Ticket) -> None:
            for recording in self._of(session):
                recording.answered(session, stop)
            ticket.said = self._take_news()

        return self._give(job, waits=True)

    def command(self, session: str, words: list[str]) -> Ticket:
        """A person asked ckpt for something; the answer is in `said`."""

        def job(ticket: Ticket) -> None:
            for recording in self._of(session):
                recording.flush()
            root = self._directories.get(session, os.getcwdb())
            done = asking.ask(words, asking.directory_of(root), self._environment)
            ticket.said = asking.shortened(done.text, MOST_LINES if done.status else 40) or "nothing to say"
            for recording in self._of(session):
                recording.undone()

        return self._give(job, waits=True)

    def close(self, how: Literal["ended", "interrupted"], status: int | None) -> None:
        """End every run; on return it is done."""

        def job(_: Ticket) -> None:
            for recording in self._recordings.values():
                recording.close(how, status)

        self._give(job, waits=True)
        self._jobs.put((None, Ticket(), False))
        self._thread.join()

    # -- the thread

    def _give(self, job: Callable[[Ticket], None], *, waits: bool = False) -> Ticket:
        ticket = Ticket()
        self._jobs.put((job, ticket, waits))
        return ticket

    def _work(self) -> None:
        together = 0
        while True:
            try:
                job, ticket, waits = self._jobs.get(timeout=RENEWAL)
            except queue.Empty:
                self._safely(self._renew)
                continue
            if job is None:
                return
            self._safely(job, ticket)
            together += 1
            if waits or self._jobs.empty() or together >= TOGETHER:
                together = 0
                self._safely(self._flush)
            ticket.finish()
            self.notify()

    def _safely(self, work: Callable[..., None], *given: Ticket) -> None:
        """Nothing that goes wrong here may stop those who talk."""
        try:
            work(*given)
        except CheckpointerError as e:
            self._tell(f"NOT PROTECTED from here on: {e.message}")
        except Exception as e:
            self._tell(f"this could not be recorded ({type(e).__name__}: {e})")

    def _renew(self) -> None:
        for recording in self._recordings.values():
            recording.renew()

    def _flush(self) -> None:
        for recording in self._recordings.values():
            recording.flush()

    # -- parts

    def _in(self, directory: str | None) -> Recording:
        """The run of a directory's workspace, begun if there is none. Raises what making one raises."""
        if directory is None:
            if self._default is None:
                raise Usage("this session names no directory", kept="nothing was written")
            return self._default
        place = home.locate(os.fsencode(directory))
        if place is not None and place.state == "gone":
            raise Usage(f"{directory} is gone", kept="its checkpoints are kept", next=("ckpt undo",))
        workspace = home.open_place(place) if place is not None else home.make(os.fsencode(directory))
        known = self._recordings.get(str(workspace.directory))
        if known is None:
            known = self._recordings[str(workspace.directory)] = self._record(self._configure(workspace))
        return known

    def _of(self, session: str) -> Iterator[Recording]:
        """The run that a session is recorded in, if it is."""
        recording = self._sessions.get(session, self._default)
        if recording is not None:
            yield recording

    def _tell(self, text: str) -> None:
        """Say something on stderr, and in the conversation at the next occasion. What was said last is not repeated."""
        if not self._news or self._news[-1] != text:
            self._news.append(text)
            self._warn(text)

    def _take_news(self) -> str:
        news, self._news = self._news, []
        return "\n".join(f"ckpt: {text}" for text in news)
