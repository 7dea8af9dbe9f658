"""Every command: the module that answers it, the group it stands under in `--help`, one line about it.

A module is imported when its command is called, so that `--help`, `--version` and completion stay light.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """`where` is `module:attribute`, a click command. `usage` is what follows the name in the list."""

    where: str
    group: str
    usage: str
    about: str


GROUPS = ("look", "go back", "agents", "runs", "store", "plumbing")

_CLI = "checkpointer.cli."

COMMANDS: dict[str, Entry] = {
    "status": Entry(_CLI + "status:status", "look", "", "is this directory protected, and what would undo do"),
    "log": Entry(_CLI + "history:log", "look", "[-- PATH...]", "turns, saves and restores, newest first"),
    "show": Entry(_CLI + "show:show", "look", "[T|P]", "what one turn, step or checkpoint changed"),
    "diff": Entry(_CLI + "difference:diff", "look", "[P [P]] [-- PATH...]", "two points compared, as git prints it"),
    "cat": Entry(_CLI + "difference:cat", "look", "P PATH", "one file as it was"),
    "blame": Entry(_CLI + "blame:blame", "look", "PATH", "each line of a file with the turn that wrote it"),
    "bisect": Entry(_CLI + "bisect:bisect", "look", "--good P --bad P -- CMD", "which turn broke it, by trying CMD"),
    "undo": Entry(_CLI + "undo:undo", "go back", "[T|T..|T..T] [-- PATH...]", "take back what a turn changed"),
    "redo": Entry(_CLI + "undo:redo", "go back", "[T]", "take back an undo"),
    "restore": Entry(_CLI + "restore:restore", "go back", "P [--to DIR] [-- PATH...]", "the files as of a checkpoint"),
    "save": Entry(_CLI + "save:save", "go back", "[-m LABEL]", "make a checkpoint now"),
    "pin": Entry(_CLI + "save:pin", "go back", "P [-m LABEL]", "keep a checkpoint for good, or name it"),
    "run": Entry(_CLI + "run:run", "agents", "[--agent NAME] [--] CMD...", "run a command that can be undone"),
    "resume": Entry(_CLI + "resume:resume", "agents", "[RUN] [--keep|--restore]", "go on with a run that was cut off"),
    "install": Entry(_CLI + "install:install", "agents", "[AGENT...]", "put ckpt into agents; alone: which there are"),
    "uninstall": Entry(_CLI + "uninstall:uninstall", "agents", "AGENT...|--all", "take ckpt out of agents again"),
    "doctor": Entry(_CLI + "doctor:doctor", "agents", "[AGENT]", "does it all work, and what mends what does not"),
    "runs": Entry(_CLI + "run:runs", "runs", "[--dismiss RUN]", "who worked here, since when, how it ended"),
    "events": Entry(_CLI + "events:events", "runs", "[RUN]", "a run's log, event by event"),
    "uncertain": Entry(_CLI + "uncertain:uncertain", "runs", "[U]", "calls whose outcome nobody knows"),
    "settle": Entry(_CLI + "uncertain:settle", "runs", "U --happened|...", "say what became of such a call"),
    "approvals": Entry(_CLI + "approvals:approvals", "runs", "[KEY]", "calls that wait for a person's yes, or no"),
    "fork": Entry(_CLI + "forking:fork", "runs", "RUN [@POINT] DIR", "another run from a point of one, files and all"),
    "export": Entry(_CLI + "bundle:export", "runs", "RUN FILE", "a run as one file that can be checked without ckpt"),
    "import": Entry(_CLI + "bundle:import_", "runs", "FILE [DIR]", "verify such a file, and keep it to be looked at"),
    "workspaces": Entry(_CLI + "stores:workspaces", "store", "", "every directory that has a store"),
    "gc": Entry(_CLI + "stores:gc", "store", "", "drop old checkpoints and runs' logs, give space back"),
    "purge": Entry(_CLI + "purge:purge", "store", "PATH", "take a path's content out of every checkpoint"),
    "forget": Entry(_CLI + "purge:forget", "store", "DIR", "delete a directory's store, leave the directory"),
    "verify": Entry(_CLI + "stores:verify", "store", "", "check every promise of the store"),
    "config": Entry(_CLI + "configure:config", "store", "[KEY [VALUE|--unset]]", "what is set, and where it came from"),
    "mcp": Entry(_CLI + "mcp:mcp", "plumbing", "", "the history as tools for a model (MCP)"),
    "acp": Entry(_CLI + "acp:acp", "plumbing", "-- AGENT", "stand between an editor and an agent (ACP)"),
    "hook": Entry(_CLI + "hookhelp:hook", "plumbing", "AGENT [EVENT]", "what an agent's hooks call at each step"),
    "bench": Entry(_CLI + "bench:bench", "plumbing", "[RUN]", "what replaying a run costs, when snapshots pay"),
    "demo": Entry(
        _CLI + "demo:demo",
        "plumbing",
        "[--without-keys]",
        "undo and a killed run in half a minute, apart from all of yours",
    ),
    "migrate": Entry(
        _CLI + "migration:migrate", "plumbing", "RUN", "write a run's log of an older version in today's words"
    ),
    "completion": Entry(_CLI + "completion:completion", "plumbing", "SHELL", "completion for bash, zsh or fish"),
}
