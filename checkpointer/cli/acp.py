"""`ckpt acp`: stands between an editor and an agent that speak the Agent Client Protocol."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from checkpointer.cli.app import Verbatim
from checkpointer.cli.call import Call
from checkpointer.cli.run import NOT_STARTED, say
from checkpointer.cli.saving import open_or_make
from checkpointer.errors import CheckpointerError, Usage
from checkpointer.run.child import CannotStart

if TYPE_CHECKING:
    from checkpointer.agents.acp.recorder import Recorder
    from checkpointer.agents.acp.recording import Recording


@click.command(cls=Verbatim, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--agent", metavar="NAME", help="What to call the agent; its program's name if not given.")
@click.option("--unprotected", is_flag=True, help="Go on even where its changes cannot be kept.")
@click.option("--force-root", is_flag=True, help="Even where a workspace should not be: a home, /, /tmp, a mount.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[--] AGENT...")
@click.pass_obj
def acp(call: Call, argv: tuple[str, ...], agent: str | None, unprotected: bool, force_root: bool) -> int:
    """Start AGENT for an editor that speaks the Agent Client Protocol, so that each prompt can be undone.

    Put `ckpt acp --` before the agent's command in the editor's settings. Prompts become turns, tool calls steps;
    `/ckpt-undo`, `/ckpt-redo` and `/ckpt-log` are added to the agent's commands and answered without a model. All
    else passes as it is. `ckpt undo` in a terminal works on the same turns.

    Exit status: that of AGENT, 128+n for signal n; 125 where the directory cannot be protected (nothing was started),
    126 and 127 as in a shell.
    """
    words = argv[1:] if argv[:1] == ("--",) else argv
    if not words:
        raise Usage("between an editor and which agent? There is none after ckpt acp", next=("ckpt acp -- AGENT",))
    if words is argv and words[0].startswith("-"):
        raise Usage(f"ckpt acp has no option {words[0]}", next=("ckpt acp --help",))
    from checkpointer.agents.acp.connection import converse, environment_for
    from checkpointer.agents.acp.recorder import Recorder

    recorder = Recorder(
        agent=agent or os.path.basename(words[0]),
        environment=os.environ,
        configure=call.opened,
        warn=lambda text: say(call, text, always=True),
        unprotected=unprotected,
    )
    try:
        recording = _protected(call, recorder, force_root, unprotected)
    except CheckpointerError as e:
        from checkpointer.cli import failure

        failure.report(e, as_json=False)  # stdout is the editor's
        call.out.error("nothing was started; ckpt acp --unprotected starts it all the same")
        return NOT_STARTED
    try:
        return converse(words, recorder, environment_for(recording, os.environ))
    except CannotStart as e:
        say(call, e.message, always=True)
        return e.status


def _protected(call: Call, recorder: Recorder, force_root: bool, unprotected: bool) -> Recording | None:
    """The run of the directory that we were started in; None where it cannot be protected and need not be."""
    from checkpointer.cli import phrase

    try:
        try:
            os.chdir(call.directory)
        except OSError as e:
            raise Usage(f"{phrase.directory(call.directory)}: {e.strerror}") from e
        workspace = open_or_make(call, force_root=force_root)
        recording = recorder.begin(workspace)
    except CheckpointerError as e:
        if not unprotected:
            raise
        say(call, f"NOT PROTECTED: {e.message}", always=True)
        return None
    where = phrase.directory(workspace.root)
    say(call, f"{recording.handle} protects {where} from checkpoint {recording.base} on")
    call.notices(workspace)
    return recording
