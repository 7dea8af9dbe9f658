"""What `ckpt hook --help` says; the call itself is answered by `checkpointer.cli.hooking`, without this."""

from __future__ import annotations

import click

from checkpointer.agents.dialects import NAMES
from checkpointer.cli.app import Verbatim
from checkpointer.cli.hooking import hook as answer


@click.command(cls=Verbatim, context_settings={"ignore_unknown_options": True})
@click.argument("agent", metavar="AGENT", type=click.Choice(NAMES))
@click.argument("event", required=False, metavar="[EVENT]")
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="")
def hook(agent: str, event: str | None, more: tuple[str, ...]) -> int:
    """Take in what an agent program reports; ckpt install AGENT has it called.

    AGENT is one of claude codex gemini qwen copilot opencode cline hermes cursor goose openhands. EVENT is the agent's
    own name of the event; where it also stands in the JSON on stdin, that one counts. A prompt becomes a turn, a call
    of a tool a step, each with the checkpoints around it.

    Exit status: always 0. On stdout stands nothing, or one JSON document for the agent; errors go to hooks.log in the
    store, and are told to the person once, at the next prompt. CKPT_OFF=1 switches it off for a session.
    """
    return answer([agent, *([event] if event else []), *more])
