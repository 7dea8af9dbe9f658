"""The words recipes are written in: a place, a way to call ckpt, the parts that go into a configuration."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkpointer.agents.editing.document import Format
from checkpointer.agents.editing.values import Entry, Ours

MARK = "put here by `ckpt install`"
COMMANDS = {
    "undo": "Take back what the last turn changed (ckpt)",
    "redo": "Take back an undo (ckpt)",
    "log": "What was changed, when, by whom (ckpt)",
}


@dataclass(frozen=True)
class Site:
    """Whose configuration is meant: a person's, or a project's that a team shares."""

    home: Path
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, hash=False)
    project: Path | None = None

    def directory(self, user: str, *, variable: str = "", project: str | None = None) -> Path:
        """Where an agent keeps its configuration: `user` below the home unless a variable says otherwise."""
        if self.project is not None:
            return self.project / (project if project is not None else user)
        named = self.environ.get(variable, "") if variable else ""
        return Path(os.path.abspath(os.path.expanduser(named))) if named else self.home / user

    def config_home(self, name: str) -> Path:
        """`name` in `$XDG_CONFIG_HOME`, else in `.config`."""
        named = self.environ.get("XDG_CONFIG_HOME", "")
        return (Path(named) if named.startswith("/") else self.home / ".config") / name


@dataclass(frozen=True)
class Caller:
    """How a configuration calls ckpt: by an absolute path, or, where `path` is empty, by name if it is there at all."""

    path: str = ""

    def words(self, agent: str, event: str) -> list[str]:
        """The words of the call, for what starts a program without a shell."""
        return [self.path or "ckpt", "hook", agent, event]

    def shell(self, agent: str, event: str) -> str:
        """The call as one line for `sh`; without a path, silent and harmless where ckpt is missing."""
        if self.path:
            return shlex.join(self.words(agent, event))
        return f"command -v ckpt >/dev/null 2>&1 || exit 0; exec {shlex.join(self.words(agent, event))}"


_GUARD = re.compile(r"command -v ckpt >/dev/null(?: 2>&1)? \|\| exit 0; exec (?=ckpt )")
_PROGRAM = r"""(?:"[^"$`\\]*\bckpt"|'[^']*\bckpt'|[^\s;&|<>()$`"'\\]*)"""


def ours(agent: str) -> Ours:
    """Is a mapping of a configuration the call of a hook of ours for this agent, and nothing but that call?

    A line that does more, as `notify; ckpt hook ...`, is a person's.
    """
    call = re.compile(rf"{_PROGRAM}\s+hook\s+{re.escape(agent)}\s+[\w.:-]+")

    def alone(line: str) -> bool:
        line = _GUARD.sub("", line, count=1) if _GUARD.match(line) else line
        try:
            words = shlex.split(line)
        except ValueError:
            return False
        return (call.fullmatch(line) is not None or shlex.join(words) == line) and ours_by_words(words)

    def ours_by_words(words: Sequence[str]) -> bool:
        return len(words) == 4 and os.path.basename(words[0]) == "ckpt" and list(words[1:3]) == ["hook", agent]

    def is_ours(value: dict[str, Any]) -> bool:
        args = value.get("args")
        for line in (value.get("command"), value.get("bash")):
            if isinstance(line, str) and isinstance(args, list):
                if ours_by_words([line, *(a if isinstance(a, str) else "" for a in args)]):
                    return True
            elif isinstance(line, str) and alone(line):
                return True
        return False

    return is_ours


def wrapped(agent: str) -> Callable[[dict[str, Any]], bool]:
    """Does a mapping of a configuration call a hook of ours among other things? It is a person's then."""
    call = re.compile(rf"ckpt['\"]?\s+hook\s+{re.escape(agent)}(?:\s|$)")
    is_ours = ours(agent)

    def is_wrapped(value: dict[str, Any]) -> bool:
        return not is_ours(value) and call.search(line_of(value)) is not None

    return is_wrapped


def line_of(value: dict[str, Any]) -> str:
    """What a mapping of a configuration calls, as one line; empty where it calls nothing."""
    line, args = value.get("command") or value.get("bash"), value.get("args")
    words = [line, *(args if isinstance(args, list) else [])]
    return " ".join(w for w in words if isinstance(w, str)) if isinstance(line, str) else ""


def path_in(value: dict[str, Any]) -> str:
    """Which ckpt a hook of ours calls: an absolute path, or `ckpt` where it is called by name."""
    line = value.get("command") or value.get("bash") or ""
    if isinstance(value.get("args"), list):
        return str(line)
    try:
        words = shlex.split(str(line))
    except ValueError:
        return ""
    return next((w for w, n in itertools.pairwise(words) if n == "hook"), "")


@dataclass(frozen=True)
class Hook:
    """An event to be told of. `timeout` is in seconds; the recipe turns it into the agent's own unit."""

    event: str
    timeout: int = 30
    matcher: str | None = None


@dataclass(frozen=True)
class Merged:
    """Entries in a file that others write too. `skeleton` is what a file of this kind holds without any entry."""

    path: Path
    form: Format
    entries: tuple[Entry, ...]
    skeleton: str = ""


@dataclass(frozen=True)
class Owned:
    """A file that is ours alone. `mark` stands in every version of it that we ever wrote."""

    path: Path
    content: bytes
    mark: bytes
    mode: int = 0o644


Part = Merged | Owned


@dataclass(frozen=True)
class Switch:
    """A setting that keeps every hook from running: `keys` of the file at `path` are `value`."""

    path: Path
    form: Format
    keys: tuple[str, ...]
    value: Any
    told: str


@dataclass(frozen=True)
class Recipe:
    """One agent program. `programs` are its commands; `parts` says what goes where, `hand` what a person still does.

    `elsewhere` are parts that may stand there from another time, `switches` what would keep hooks from running.

    `confined` says whether the agent's settings keep its shell from writing below a place, and what would let it;
    `shell` says the same in general.

    `gated`: no hook of a person's own configuration runs before the person has said yes to it in the agent.

    `typed` is what becomes of `ckpt undo` typed as a prompt: `answered` by ckpt with no request to the model; `told`,
    done by ckpt and passed on by the model; `terminal`, where the agent shows nothing of what a hook says. `steps` says
    how finely its turns can be told apart.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    hooks: tuple[Hook, ...]
    parts: Callable[[Recipe, Site, Caller], Sequence[Part]]
    directory: Callable[[Site], Path]
    hand: Callable[[Site], Sequence[str]] = lambda site: ()
    switches: Callable[[Site], Sequence[Switch]] = lambda site: ()
    elsewhere: Callable[[Recipe, Site, Caller], Sequence[Part]] = lambda recipe, site, caller: ()
    confined: Callable[[Site, str], tuple[str, str] | None] = lambda site, place: None
    project: bool = True
    trust: str = "none"
    gated: bool = False
    typed: str = "answered"
    steps: str = "each call"
    slash: bool = False
    shell: str = "it can use the store"

    def ours(self, value: dict[str, Any]) -> bool:
        """Is a mapping of its configuration a hook of ours?"""
        return ours(self.name)(value)

    def wrapped(self, value: dict[str, Any]) -> bool:
        """Does a mapping of its configuration call a hook of ours within a line of a person's?"""
        return wrapped(self.name)(value)


def by_each_member(site: Site) -> Sequence[str]:
    """What is left to do by hand where a project's hooks run only in folders that a person trusts."""
    return () if site.project is None else ["each member trusts the folder, and has ckpt on the PATH"]


def all_hooks_off(settings: Path) -> Sequence[Switch]:
    """The switch of Claude Code and its kin."""
    return [Switch(settings, "jsonc", ("disableAllHooks",), True, "disableAllHooks is true: no hook runs")]


def grouped(recipe: Recipe, caller: Caller, *, unit: int = 1, **more: Any) -> tuple[Entry, ...]:
    """Entries as Claude Code has them and many after it: groups by event, each with its commands.

    `unit` is how many of the agent's units of time a second has; `more` goes into each command.
    """
    return tuple(
        Entry(
            ("hooks", hook.event),
            {
                **({"matcher": hook.matcher} if hook.matcher is not None else {}),
                "hooks": [
                    {
                        "type": "command",
                        "command": caller.shell(recipe.name, hook.event),
                        "timeout": hook.timeout * unit,
                        **more,
                    }
                ],
            },
        )
        for hook in recipe.hooks
    )


def flat(recipe: Recipe, caller: Caller) -> tuple[Entry, ...]:
    """Entries that stand in their event's list themselves, timeouts in seconds."""
    return tuple(
        Entry(("hooks", h.event), {"command": caller.shell(recipe.name, h.event), "timeout": h.timeout})
        for h in recipe.hooks
    )


def markdown(directory: Path, arguments: str) -> list[Owned]:
    """A slash command a file: what is typed becomes the prompt that ckpt answers.

    `arguments` is what the agent replaces by the words behind the command; where it is empty, the file is the prompt
    and nothing but the prompt.
    """
    found = []
    for verb, about in COMMANDS.items():
        prompt = f"ckpt {verb} {arguments}".rstrip()
        head = f"---\n# {MARK}\ndescription: {about}\n---\n" if arguments else ""
        mark = MARK if arguments else prompt
        found.append(Owned(directory / f"ckpt-{verb}.md", f"{head}{prompt}\n".encode(), mark.encode()))
    return found
