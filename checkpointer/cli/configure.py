"""`ckpt config`: every key, its value and where it came from; or set one."""

from __future__ import annotations

import os

import click

from checkpointer.cli.app import Command
from checkpointer.cli.call import Call
from checkpointer.cli.phrase import size
from checkpointer.config import KEYS, Config, Value, known
from checkpointer.errors import Usage


@click.command(cls=Command)
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("--unset", is_flag=True, help="Take KEY out of the file: the default holds again.")
@click.pass_obj
def config(call: Call, key: str | None, value: str | None, unset: bool) -> int:
    """Show what is set and where it came from, or set KEY to VALUE."""
    found = call.config
    if unset:
        return _unset(call, found, key, value)
    if key is not None and value is not None:
        call.person_only("changing the configuration")
        found.set(key, value)
        if call.out.json:
            call.out.document(_document(found, key))
        else:
            call.out.line(f"{key} = {_shown(key, found[key])}   in {found.path}")
        return 0
    names = [known(key).name] if key is not None else list(KEYS)
    if call.out.json:
        for name in names:
            call.out.document(_document(found, name))
        return 0
    if key is not None:
        call.out.line(_shown(key, found[key]))
        return 0
    width = max(len(n) for n in names)
    for name in names:
        origin = f"{'default' if found.origin(name) == 'default' else 'the file':8}"
        call.out.line(f"{name:{width}}  {_shown(name, found[name]):8}  {origin}  {KEYS[name].about}".rstrip())
    call.out.line(f"the file: {found.path}" + ("" if os.path.exists(found.path) else "  (not there yet)"))
    for name in found.unknown:
        call.out.note(f"note: {found.path}: there is no key {name}")
    return 0


def _unset(call: Call, found: Config, key: str | None, value: str | None) -> int:
    if key is None or value is not None:
        raise Usage("--unset takes one KEY and no VALUE", next=("ckpt config KEY --unset", "ckpt config"))
    call.person_only("changing the configuration")
    taken = found.unset(key)
    if call.out.json:
        call.out.document(_document(found, key))
    elif taken:
        call.out.line(f"{key} is {_shown(key, found[key])} again, the default   in {found.path}")
    else:
        call.out.line(f"{key} was not set; it is {_shown(key, found[key])}, the default")
    return 0


def _shown(name: str, value: Value) -> str:
    if KEYS[name].kind == "size":
        return size(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _document(found: Config, name: str) -> dict[str, object]:
    key = KEYS[name]
    return {"key": name, "value": found[name], "default": key.default, "origin": found.origin(name), "about": key.about}
