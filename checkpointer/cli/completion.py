"""`ckpt completion SHELL`: the lines a shell needs, and what it asks back while a person types.

The shell calls `ckpt completion words WORD...` with the words typed so far; the answer is a candidate a line, a tab,
and what it is. Handles come with their prompts. An error is no candidate.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from checkpointer.cli.app import Verbatim
from checkpointer.cli.call import Call
from checkpointer.cli.registry import COMMANDS
from checkpointer.errors import CheckpointerError

BASH = """\
_ckpt() {
    local IFS=$'\\n' line cur=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(ckpt completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ ${#COMPREPLY[@]} -eq 1 ]; then
        COMPREPLY=("${COMPREPLY[0]%%$'\\t'*}")
    else
        local i
        for i in "${!COMPREPLY[@]}"; do
            if [ "$COMP_TYPE" = 63 ]; then
                COMPREPLY[i]="${COMPREPLY[i]/$'\\t'/   }"
            else
                COMPREPLY[i]="${COMPREPLY[i]%%$'\\t'*}"
            fi
        done
    fi
}
complete -o default -F _ckpt ckpt
"""
ZSH = """\
#compdef ckpt
_ckpt() {
    local -a found
    local line
    while IFS= read -r line; do
        found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done < <(ckpt completion words "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#found )); then
        _describe -V 'ckpt' found
    else
        _files
    fi
}
compdef _ckpt ckpt
"""
FISH = """\
complete -c ckpt -f -a '(ckpt completion words (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
complete -c ckpt -n 'contains -- -- (commandline -opc)' -F
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}

POINTS = ("show", "diff", "cat", "restore", "pin")
TURNS = ("undo", "redo", "show")


@click.command(cls=Verbatim, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("shell", type=click.Choice([*SCRIPTS, "words"]))
@click.argument("typed", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def completion(call: Call, shell: str, typed: tuple[str, ...]) -> int:
    """Print what makes bash, zsh or fish complete ckpt's words.

    \b
    bash:  eval "$(ckpt completion bash)"     in ~/.bashrc
    zsh:   eval "$(ckpt completion zsh)"      in ~/.zshrc
    fish:  ckpt completion fish > ~/.config/fish/completions/ckpt.fish
    """
    if shell in SCRIPTS:
        call.out.write(SCRIPTS[shell].encode())
        return 0
    for candidate, about in candidates(call, list(typed)):
        call.out.line(f"{candidate}\t{' '.join(about.split())}")
    return 0


def candidates(call: Call, typed: list[str]) -> list[tuple[str, str]]:
    """What may stand where the last of the typed words stands, each with a word about it."""
    current = typed[-1] if typed else ""
    before = typed[:-1]
    if "--" in before:
        return []
    for i, word in enumerate(before):
        if word == "-C" and i + 1 < len(before):
            call.take({"directories": (before[i + 1],)})
    verbs = [w for i, w in enumerate(before) if not w.startswith("-") and (i == 0 or before[i - 1] != "-C")]
    if before and before[-1] in ("-C", "--to"):
        return []
    if before and before[-1] == "--type" and verbs[:1] == ["events"]:
        return [(name, about) for name, about in _types() if name.startswith(current)]
    if before and before[-1] == "--dismiss":
        return [(name, about) for name, about in _resumable(call) if name.startswith(current)]
    if not verbs:
        found = [(name, entry.about) for name, entry in COMMANDS.items()]
    elif current.startswith("-"):
        found = _options(verbs[0])
    else:
        found = _words(call, verbs[0], len(verbs) - 1)
    return [(c, about) for c, about in found if c.startswith(current)]


def _options(verb: str) -> list[tuple[str, str]]:
    from checkpointer.cli.app import root

    command = root.get_command(click.Context(root), verb)
    if command is None:
        return []
    options = [p for p in command.params if isinstance(p, click.Option)]
    return [(o, p.help or "") for p in options for o in (*p.opts, *p.secondary_opts) if o.startswith("--")]


def _words(call: Call, verb: str, position: int) -> list[tuple[str, str]]:
    if verb == "config" and position == 0:
        from checkpointer.config import KEYS

        return [(k.name, k.about) for k in KEYS.values()]
    if verb in ("install", "uninstall") or (verb in ("doctor", "hook") and position == 0):
        from checkpointer.agents.recipes.catalogue import RECIPES

        return [(r.name, r.title) for r in RECIPES.values() if r.hooks]
    if verb == "completion":
        return [(s, "") for s in SCRIPTS]
    try:
        if position == 0 and verb in HANDLES:
            return HANDLES[verb](call)
        if verb in (*POINTS, *TURNS) and (not position or verb == "diff"):
            from checkpointer.cli.listing import handles

            return handles(call, points=verb in POINTS, turns=verb in TURNS or verb in POINTS)
    except (CheckpointerError, OSError):
        pass
    return []


def _runs(call: Call) -> list[tuple[str, str]]:
    """The runs, newest first."""
    from checkpointer.cli.run import how_it_stands
    from checkpointer.run import roster

    directory = call.workspace().directory
    found = [roster.read(directory, name) for name in roster.names(directory)]
    found.sort(key=lambda info: info.last.timestamp() if info.last else 0.0, reverse=True)
    return [(info.handle, f"{how_it_stands(info)}  {' '.join(info.command)}".rstrip()) for info in found]


def _resumable(call: Call) -> list[tuple[str, str]]:
    from checkpointer.run import resuming

    found = resuming.resumable(call.workspace().directory)
    return [(info.handle, " ".join(info.command)) for info in reversed(found)]


def _uncertain(call: Call) -> list[tuple[str, str]]:
    from checkpointer.cli.titles import open_questions

    return [(one["handle"], one["about"]) for one in open_questions(call.workspace())[0]]


def _approvals(call: Call) -> list[tuple[str, str]]:
    from checkpointer.cli.titles import open_questions

    return [(one["name"], one["about"]) for one in open_questions(call.workspace())[1]]


HANDLES: dict[str, Callable[[Call], list[tuple[str, str]]]] = {
    "resume": _resumable,
    "events": _runs,
    "bench": _runs,
    "export": _runs,
    "fork": _runs,
    "migrate": _runs,
    "uncertain": _uncertain,
    "settle": _uncertain,
    "approvals": _approvals,
}
"""Verbs whose first word names a run or a question, and what there is to name."""


def _types() -> list[tuple[str, str]]:
    """The types of events, each with the first line about it."""
    from checkpointer.events import TYPES

    return [(name, (cls.__doc__ or "").strip().partition("\n")[0]) for name, cls in sorted(TYPES.items())]
