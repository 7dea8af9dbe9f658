"""The words of a call: common flags before and after the verb, the verb, its own words, the paths after `--`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, ClassVar

import click

from checkpointer.cli.call import Call
from checkpointer.cli.registry import COMMANDS, GROUPS

PATHS = "checkpointer.paths"


def _common() -> list[click.Parameter]:
    return [
        click.Option(["-C", "directories"], multiple=True, metavar="DIR", help="As if started in DIR."),
        click.Option(["--json"], is_flag=True, help="One JSON document (lists: one a line)."),
        click.Option(["--color"], type=click.Choice(["auto", "always", "never"]), help="Colours."),
        click.Option(["-q", "--quiet"], is_flag=True, help="No notes, no progress."),
        click.Option(["-v", "--verbose"], is_flag=True, help="More detail."),
    ]


class Command(click.Command):
    """A command that takes the common flags, and whose words after `--` are paths (see `paths_of`)."""

    split_paths: ClassVar[bool] = True
    needs_directory: ClassVar[bool] = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*self.params, *_common()]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.split_paths and "--" in args:
            cut = args.index("--")
            ctx.meta[PATHS] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from checkpointer.cli import examples

        below = examples.text(self.name or "")
        if below:
            formatter.write(f"\n{below}\n")

    def invoke(self, ctx: click.Context) -> Any:
        call = ctx.find_object(Call)
        assert call is not None
        call.take(ctx.params)
        if self.needs_directory:
            call.must_be_somewhere()
        return super().invoke(ctx)


class Verbatim(Command):
    """A command whose words after `--` are another program's. It says itself where it cannot start."""

    split_paths = False
    needs_directory = False


def paths_of(ctx: click.Context) -> list[str] | None:
    """The words after `--`, or None where there was none. `--` with nothing behind it is an empty list."""
    found: list[str] | None = ctx.meta.get(PATHS)
    return found


class Root(click.Group):
    """`ckpt` itself: alone it is `status`. Commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.where.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, 1, 0.6)
            hint = f"; did you mean {near[0]}?" if near else "; ckpt --help lists what there is"
            ctx.fail(f"there is no command {name!r}{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        call = ctx.ensure_object(Call)
        if ctx.params.pop("version", False):
            from checkpointer import version

            call.out.line(f"ckpt {version()}")
            return 0
        call.take(ctx.params)
        return super().invoke(ctx)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(full_help())


def full_help() -> str:
    """Every command by group, and the common flags."""
    import textwrap

    shown = {name: f"{name} {e.usage}".rstrip() for name, e in COMMANDS.items()}
    width = max(len(text) for text in shown.values()) + 2
    lines = [
        "ckpt: the safety net around a coding agent. Alone it is `ckpt status`.",
        "",
        "usage: ckpt [COMMAND] [-C DIR] [--json] [--color auto|always|never] [-q] [-v] ...",
    ]
    for group in GROUPS:
        names = [n for n, e in COMMANDS.items() if e.group == group]
        if names:
            lines += ["", group, *(f"  {shown[n]:{width}}{COMMANDS[n].about}" for n in names)]
    lines += [
        "",
        *textwrap.wrap(
            "T is a turn (t3), a step (t3.2) or turns (t3.., t3..t5). P is a checkpoint (17), a label, t3 (right after "
            "it), t3- (right before it), @14:05 or @10m (the newest one then), or now (the files on disk).",
            100,
        ),
    ]
    return "\n".join(lines) + "\n"


SHORT_HELP = """\
ckpt is the safety net around a coding agent: it brings files back, and touches nothing else.
Nothing is protected in {here} yet.

  ckpt save                 make a checkpoint of this directory now
  ckpt run -- COMMAND       run an agent, or any command, that can be undone

  ckpt                      is it protected, and what would undo do
  ckpt undo   ckpt redo     take back what a turn changed, and back again
  ckpt log    ckpt diff     what changed, when, by whom

ckpt --help lists every command.
"""


@click.group(
    cls=Root,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[click.Option(["--version"], is_flag=True, help="The version."), *_common()],
)
@click.pass_context
def root(ctx: click.Context) -> Any:
    if ctx.invoked_subcommand is None:
        ctx.ensure_object(Call).must_be_somewhere()
        module = importlib.import_module(COMMANDS["status"].where.partition(":")[0])
        return module.alone(ctx.ensure_object(Call))
    return None


def run(args: Sequence[str], call: Call | None = None) -> int:
    """Answer one call; the exit status. Raises click's and our exceptions."""
    # Not click's `main`: it would turn a broken pipe and Ctrl-C into ends of its own.
    with root.make_context("ckpt", list(args), obj=call) as ctx:
        result = root.invoke(ctx)
    return result if isinstance(result, int) and not isinstance(result, bool) else 0
