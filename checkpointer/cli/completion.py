"""`ckpt completion SHELL`: the lines a shell needs, and what it asks back while a person types.

The shell calls `ckpt completion words WORD...` with the words typed so far; the answer is a candidate a line, a tab,
and what it is. Handles come with their prompts. An error is no candidate.
"""

from __future__ import annotations

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
        call.out.line(f"{candidate}\t{about}")
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
    if verb == "completion":
        return [(s, "") for s in SCRIPTS]
    if verb not in (*POINTS, *TURNS) or (position and verb != "diff"):
        return []
    from checkpointer.cli.listing import handles

    try:
        return handles(call, points=verb in POINTS, turns=verb in TURNS or verb in POINTS)
    except (CheckpointerError, OSError):
        return []
