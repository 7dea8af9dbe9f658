"""An agent program between an editor and us: started, spoken with, recorded, and its end told as it was."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from checkpointer.agents.acp.guardian import Guardian
from checkpointer.agents.acp.proxy import Proxy
from checkpointer.agents.acp.recorder import Recorder
from checkpointer.agents.acp.recording import Recording
from checkpointer.agents.acp.relay import Relay
from checkpointer.run.child import CannotStart, Child

EDITOR = (0, 1)
"""The editor talks to our input and reads our output."""


def environment_for(recording: Recording | None, environment: Mapping[str, str]) -> dict[str, str]:
    """What the agent gets to know: its run, and that its own hooks have nothing to report."""
    if recording is None:
        return dict(environment)
    return {
        **environment,
        "CKPT_RUN": recording.handle,
        "CKPT_EPOCH": str(recording.pen.epoch),
        "CKPT_WORKSPACE": os.fsdecode(recording.workspace.root),
        "CKPT_ACP": recording.handle,
    }


def converse(argv: Sequence[str], recorder: Recorder, environment: Mapping[str, str]) -> int:
    """Start the agent, pass everything on until it has ended, end its run. Returns its status as a shell does.

    Raises `CannotStart`; then the run is ended too.
    """
    to_agent, from_agent = os.pipe(), os.pipe()
    try:
        child = Child(argv, environment, (to_agent[0], from_agent[1]))
    except CannotStart as e:
        recorder.start()
        recorder.close("interrupted", e.status)
        raise
    os.close(to_agent[0])
    os.close(from_agent[1])
    guardian = Guardian(child.pid, recorder.recordings)
    proxy = Proxy(Relay(recorder), EDITOR, (from_agent[0], to_agent[1]), lambda: recorder.waiting, child.send)
    recorder.notify = proxy.wake
    recorder.start()
    proxy.start()
    status = child.wait()
    proxy.agent_ended()
    proxy.drained.wait()
    recorder.close("interrupted" if status > 128 else "ended", status)
    proxy.finished.wait()
    guardian.dismiss()
    return status
