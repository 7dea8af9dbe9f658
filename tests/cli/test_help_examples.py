"""What `--help` shows can be typed: every example is taken by its command's own grammar."""

from __future__ import annotations

import shlex

import click
import pytest

from checkpointer.cli import app, examples
from checkpointer.cli.registry import COMMANDS

EVERY = [(name, words) for name, listed in examples.EXAMPLES.items() for words, _ in listed]


@pytest.mark.parametrize(("name", "words"), EVERY, ids=lambda value: value or "alone")
def test_an_example_is_taken(name: str, words: str) -> None:
    with app.root.make_context("ckpt", [name, *shlex.split(words)]) as ctx:
        command = app.root.get_command(ctx, name)
        assert command is not None
        command.make_context(name, shlex.split(words), parent=ctx).close()


def test_they_are_of_commands_there_are() -> None:
    assert set(examples.EXAMPLES) | set(examples.NOTES) <= set(COMMANDS)


def test_help_shows_them() -> None:
    with app.root.make_context("ckpt", ["undo"]) as ctx:
        command = app.root.get_command(ctx, "undo")
        assert command is not None
        shown = command.get_help(click.Context(command, parent=ctx, info_name="undo"))
    assert "  ckpt undo t3..           everything since before t3\n" in shown
    assert examples.T in shown
    assert max(len(line) for line in shown.splitlines()) <= 120
