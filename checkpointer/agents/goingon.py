"""How an agent goes on with a conversation of its own: the words to start it with; pure.

One that a person talked to is started as it is by hand. One that was given its task on the command line is started so
again, with the options that it had, in the same session and with a word to go on: there may be no terminal.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from checkpointer.agents import ancestry, dialects

GO_ON: Final = "You were cut off. Look at what is there, and go on with your task."
"""The prompt of an agent that nobody talks to."""

_FLAGGED: Final = ("claude", "gemini", "qwen", "copilot", "cursor")
_PROMPT: Final = ("-p", "--prompt", "--print")
_SESSION: Final = ("--resume", "-r", "--session", "-s", "--session-id", "--conversation")
_NEWEST: Final = ("--continue", "-c", "--last")


def words(agent: str, session: str, command: Sequence[str]) -> list[str]:
    """What to start; empty where the agent has no way, or its session is not known. `command` is how it ran before."""
    known = dialects.dialect(agent).resume if agent in dialects.NAMES else ""
    if not known or not session:
        return []
    own = [session if word == "ID" else word for word in known.split()]
    at = next((n for n, word in enumerate(command[:3]) if ancestry.is_agent([word])), None)
    program = list(command[: at + 1]) if at is not None else [own[0]]
    given = list(command[at + 1 :]) if at is not None else []
    if agent == "codex" and given[:1] in (["exec"], ["e"]):
        return [*program, "exec", "resume", session, *_but_prompt(_but_session(given[1:], "resume")), GO_ON]
    if agent == "opencode" and given[:1] == ["run"]:
        return [*program, "run", "--session", session, *_but_prompt(_but_session(given[1:])), GO_ON]
    if agent in _FLAGGED and any(word in _PROMPT for word in given):
        return [*program, "--resume", session, *_but_flagged(_but_session(given)), "-p", GO_ON]
    return [*(program if os.path.basename(program[-1]) == own[0] else own[:1]), *own[1:]]


def _but_session(given: Sequence[str], verb: str = "") -> list[str]:
    """Without what says which conversation to go on with."""
    out: list[str] = []
    rest = list(given)
    if verb and rest[:1] == [verb]:
        rest = rest[1:]
        if rest and not rest[0].startswith("-") and len(rest) > 1:
            rest = rest[1:]  # its id
    while rest:
        word = rest.pop(0)
        if word in _SESSION:
            if rest and not rest[0].startswith("-"):
                rest.pop(0)
        elif word not in _NEWEST and not word.startswith(tuple(f"{name}=" for name in _SESSION)):
            out.append(word)
    return out


def _but_prompt(given: Sequence[str]) -> list[str]:
    """Without a prompt at the end."""
    return list(given[:-1] if given and not given[-1].startswith("-") else given)


def _but_flagged(given: Sequence[str]) -> list[str]:
    """Without `-p` and the prompt behind it."""
    out: list[str] = []
    rest = list(given)
    while rest:
        word = rest.pop(0)
        if word in _PROMPT:
            if rest and not rest[0].startswith("-"):
                rest.pop(0)
        elif not word.startswith(("--prompt=", "--print=")):
            out.append(word)
    return out
