"""Passes bytes between an editor and an agent, both ways at once, and never waits for one while the other could go on.

Memory is bounded: nothing more is read from a side while what it sent before cannot be passed on. Our own lines go to
the editor between two of the agent's, never into one.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from checkpointer.agents.acp.lines import Lines, Piece
from checkpointer.agents.acp.relay import Passage, Relay

CHUNK: Final = 1 << 16
FULL: Final = 1 << 20
"""Bytes that may wait for a reader before no more are read for it."""
MOST_JOBS: Final = 200
"""Jobs of the recorder that may wait before no more is read."""
GRACE: Final = 10.0
"""Seconds that an agent has to end once its editor is gone; then it is asked to, and after as many more made to."""
SETTLED: Final = 0.3
"""Seconds without output after which a dead agent has said all, although somebody else holds its output open."""


class Lane:
    """One direction: where bytes come from and go to, and what waits in between."""

    def __init__(self, source: int, sink: int, look: Callable[[Piece], Passage]) -> None:
        self.source = source
        self.sink = sink
        self.look = look
        self.lines = Lines()
        self.waiting: deque[Passage] = deque()
        self.out = bytearray()
        self.inside = False
        """Does what was passed on last end within a line?"""
        self.ended = False
        """Nothing more comes."""
        self.broken = False
        """Nobody reads."""

    @property
    def done(self) -> bool:
        return self.broken or (self.ended and not self.waiting and not self.out)

    def take(self, data: bytes) -> list[Passage]:
        """Bytes that were read; none at the end of the stream. Gives what needs no place in the line."""
        pieces = self.lines.feed(data) if data else self.lines.rest()
        self.ended = not data
        apart = []
        for piece in pieces:
            try:
                passage = self.look(piece)
            except Exception:  # what we make of a line must never keep it from passing
                passage = Passage(piece.data)
            if passage.data is None:
                apart.append(passage)
            else:
                self.waiting.append(passage)
        return apart

    def ready(self) -> Passage | None:
        """The next passage, if it may go on."""
        if self.waiting and (self.waiting[0].ticket is None or self.waiting[0].ticket.done):
            return self.waiting.popleft()
        return None

    def put(self, data: bytes) -> None:
        if not self.broken:
            self.out += data
            self.inside = not data.endswith(b"\n")


class Proxy:
    """`editor` are the descriptors to read from and write to it, `agent` the same for the agent's; `end_agent` sends
    the agent a signal. Make it, `start` it, tell it with `agent_ended`; then wait for `drained` and `finished`.
    """

    def __init__(
        self,
        relay: Relay,
        editor: tuple[int, int],
        agent: tuple[int, int],
        jobs: Callable[[], int],
        end_agent: Callable[[signal.Signals], None],
    ) -> None:
        self.to_agent = Lane(editor[0], agent[1], relay.from_editor)
        self.to_editor = Lane(agent[0], editor[1], relay.from_agent)
        self.drained = threading.Event()
        self.finished = threading.Event()
        self._jobs = jobs
        self._end_agent = end_agent
        self._apart: list[Passage] = []
        self._ours: deque[bytes] = deque()
        self._agent_ended = False
        self._quiet_since = 0.0
        self._gone_since = 0.0
        self._ends: deque[signal.Signals] = deque((signal.SIGTERM, signal.SIGKILL))
        self._bell, self._ring = os.pipe()
        os.set_blocking(self._ring, False)
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Look again: something that was waited for may be done."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._ring, b"!")

    def agent_ended(self) -> None:
        self._agent_ended = True
        self.wake()

    # -- the thread

    def _run(self) -> None:
        try:
            while not self._over():
                self._step()
        finally:
            self.drained.set()
            self.finished.set()

    def _over(self) -> bool:
        """All that was to be passed on is, or nobody is left to read it."""
        if not self._agent_ended:
            return False
        here = self.to_editor
        if here.broken or (here.ended and not here.waiting and not self._apart):
            self.drained.set()
        return self.drained.is_set() and (here.broken or not (here.out or self._ours))

    def _step(self) -> None:
        reads, writes = self._wanted()
        timeout = 0.1 if self._agent_ended or self._gone_since else 5.0
        readable, writable, _ = select.select([self._bell, *reads], writes, [], timeout)
        if self._bell in readable:
            os.read(self._bell, CHUNK)
        for lane in (self.to_agent, self.to_editor):
            if lane.source in readable and lane.source in reads:
                self._read(lane)
            self._pass_on(lane)
            if lane.out and lane.sink in writable:
                self._write(lane)
        self._answers()
        self._ends_of_streams(self.to_editor.source in readable)
        self._editor_gone()

    def _wanted(self) -> tuple[list[int], list[int]]:
        busy = self._jobs() > MOST_JOBS
        lanes = (self.to_agent, self.to_editor)
        reads = [
            lane.source
            for lane in lanes
            if not (lane.ended or lane.broken or busy or lane.waiting or len(lane.out) > FULL)
        ]
        return reads, [lane.sink for lane in lanes if lane.out and not lane.broken]

    def _read(self, lane: Lane) -> None:
        try:
            data = os.read(lane.source, CHUNK)
        except OSError:
            data = b""
        self._apart += lane.take(data)

    def _pass_on(self, lane: Lane) -> None:
        """Everything that need not wait any longer goes on, in order."""
        while (passage := lane.ready()) is not None:
            before = passage.resolve(passage.ticket) if passage.ticket is not None else []
            self._ours += before
            self._say_ours()
            if passage.data is not None:
                lane.put(passage.data)
            self._ours += passage.after
            self._say_ours()

    def _answers(self) -> None:
        """Requests that we answer ourselves: whichever is done, in order."""
        while self._apart and self._apart[0].ticket is not None and self._apart[0].ticket.done:
            passage = self._apart.pop(0)
            assert passage.ticket is not None
            self._ours += passage.resolve(passage.ticket)
        self._say_ours()

    def _say_ours(self) -> None:
        """Our own lines, where none of the agent's is halfway."""
        here = self.to_editor
        if self._ours and here.inside and here.ended:
            here.put(b"\n")  # nobody will end that line any more
        while self._ours and not here.inside:
            here.put(self._ours.popleft())
        if here.broken:
            self._ours.clear()

    def _write(self, lane: Lane) -> None:
        # As much as a pipe that is ready takes without waiting: the descriptors are shared, and stay as they are.
        try:
            count = os.write(lane.sink, lane.out[: select.PIPE_BUF])
        except BlockingIOError:
            return
        except OSError:
            self._break(lane)
            return
        del lane.out[:count]

    def _break(self, lane: Lane) -> None:
        """Nobody reads any more: whoever writes is to notice it, as if we were not there."""
        lane.broken = True
        lane.out.clear()
        lane.waiting.clear()
        _shut(lane.source, reading=True)
        if lane is self.to_editor:
            self._gone_since = self._gone_since or time.monotonic()
            self.to_agent.ended = True

    def _ends_of_streams(self, heard: bool) -> None:
        here = self.to_agent
        if here.done and here.sink >= 0:
            _close(here.sink)
            here.sink = -1
        if not self._agent_ended:
            return
        now = time.monotonic()
        if heard or not self._quiet_since:
            self._quiet_since = now
        elif now - self._quiet_since > SETTLED and not self.to_editor.ended and not self.to_editor.waiting:
            self._apart += self.to_editor.take(b"")

    def _editor_gone(self) -> None:
        """An editor that neither writes nor reads is gone. Its agent should notice; one that does not is ended."""
        if self.to_agent.ended and not self._gone_since and _nobody_reads(self.to_editor.sink):
            self._gone_since = time.monotonic()
        if self._gone_since and not self._agent_ended and self._ends:
            waited = time.monotonic() - self._gone_since
            if waited > GRACE * (3 - len(self._ends)):
                self._end_agent(self._ends.popleft())


def _nobody_reads(fd: int) -> bool:
    poll = select.poll()
    try:
        poll.register(fd, 0)
        return any(event & (select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))
    except OSError:
        return False


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


def _shut(fd: int, *, reading: bool) -> None:
    """Let go of a stream whose number must stay taken."""
    with contextlib.suppress(OSError):
        sink = os.open(os.devnull, os.O_RDONLY if reading else os.O_WRONLY)
        os.dup2(sink, fd)
        os.close(sink)
