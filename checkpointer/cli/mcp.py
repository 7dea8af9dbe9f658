"""`ckpt mcp`: the workspace's history as tools for a model, over the Model Context Protocol."""

from __future__ import annotations

import os

import click

from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.errors import Failed


@click.command(cls=Command)
@click.pass_obj
def mcp(call: Call) -> int:
    """Serve status, log, show, diff, save, undo and redo to a model, on standard input and output.

    Agents start this themselves, once it stands in their configuration as an MCP server: `ckpt mcp`, with `-C DIR`
    before it where they start servers elsewhere than in the workspace. An undo reaches what the agent's own session
    did; no tool takes --force. Needs the extra `mcp`.
    """
    try:
        import mcp.server  # noqa: F401
    except ImportError as e:
        raise Failed(
            "ckpt mcp needs the package mcp, which is not installed here",
            kept="nothing was started",
            next=("pip install 'agent-checkpointer[mcp]'",),
        ) from e
    from checkpointer.agents import toolserver

    directory = call.directory
    server = toolserver.server(os.fsdecode(directory), lambda: _above(directory))
    server.run("stdio")
    return 0


def _above(directory: bytes) -> str | None:
    """The run that the server belongs to, once there is one: it may be begun after us."""
    from checkpointer import home
    from checkpointer.agents.belonging import run_above

    place = home.locate(directory)
    if place is None:
        return os.environ.get("CKPT_RUN")
    inside = os.environ.get("CKPT_WORKSPACE", "")
    return run_above(place.directory, logs=True, elsewhere=bool(inside) and place.root != os.fsencode(inside))
