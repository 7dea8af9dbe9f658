"""Putting ckpt into an agent's configuration and taking it out: announce, do, confirm, under one lock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from checkpointer import disk
from checkpointer.agents.editing.trouble import Unfit
from checkpointer.agents.installation import change, ledger, plan
from checkpointer.agents.installation.change import Change
from checkpointer.agents.installation.ledger import Installed
from checkpointer.agents.installation.plan import Plan
from checkpointer.agents.recipes.recipe import Caller, Recipe, Site
from checkpointer.errors import Unconfigurable


@contextlib.contextmanager
def _alone(doing: str) -> Iterator[None]:
    with disk.plain_errors(f"the place where installs are noted, {ledger.place()}"):
        lock = ledger.lock()
        lock.acquire(doing)
    try:
        yield
    finally:
        lock.release()


def install(recipe: Recipe, site: Site, caller: Caller) -> Plan:
    """Put ckpt's hooks and commands into an agent's configuration; a second time changes nothing.

    A kill in between leaves every file as it was or as it should be, and the next install or uninstall goes on from
    there. Raises Unconfigurable, with nothing written; Busy; ReadOnlyStore or NoSpace where it cannot be noted.
    """
    directory = recipe.directory(site)
    with _alone(f"installing for {recipe.name}"):
        found = plan.install(recipe, site, caller)
        known = ledger.load(recipe.name, directory)
        if not found.changes and known is not None:
            return found
        _sweep(found)
        noted = _noted(recipe, site, caller, found, known)
        with disk.plain_errors("noting the install"):
            ledger.save(noted)
        made = [Path(d) for d in noted.directories if known is None or d not in known.directories]
        with _refused(lambda: _take_back(recipe.name, directory, known, made)):
            change.carry_out(found.changes)
        return found


def _noted(recipe: Recipe, site: Site, caller: Caller, found: Plan, known: Installed | None) -> Installed:
    directory = recipe.directory(site)
    noted = known or Installed(recipe.name, str(directory), str(site.project) if site.project else None)
    missing = {str(d) for made in found.changes for d in change.missing_directories(made.path)}
    own = {str(p) for p in found.owned}
    digests = {str(c.path): ledger.digest(c.after) for c in found.changes if c.after is not None and str(c.path) in own}
    copies = {str(c.path): ledger.digest(c.data) for c in found.backups}
    return Installed(
        agent=noted.agent,
        directory=noted.directory,
        project=noted.project,
        command=caller.path,
        at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        created=sorted({*noted.created, *map(str, found.created)}),
        directories=sorted({*noted.directories, *missing}, key=lambda d: (d.count("/"), d)),
        digests={**noted.digests, **digests},
        copies={**{n: d for n, d in noted.copies.items() if n not in copies}, **copies},
    )


def _take_back(agent: str, directory: Path, known: Installed | None, made: list[Path]) -> None:
    _remove_empty(made)
    if known is not None:
        ledger.save(known)
    else:
        ledger.drop(agent, directory)


@contextlib.contextmanager
def _refused(then: Callable[[], None]) -> Iterator[None]:
    """What goes wrong while files are replaced, as our error; what was done is taken back already."""
    try:
        yield
    except (OSError, Unfit) as e:
        with contextlib.suppress(OSError):
            then()
        reason = e.strerror if isinstance(e, OSError) else str(e)
        name = f"{e.filename}: " if isinstance(e, OSError) and e.filename else "a file "
        raise Unconfigurable(f"{name}{reason}", kept="every file is as it was") from e


def uninstall(recipe: Recipe, site: Site) -> Plan:
    """Take out what is ours; every other byte stays as it is. What somebody changed in a file of ours is moved aside.

    A copy of the configuration as it was goes only where the configuration is that again, byte for byte.
    Raises Unconfigurable, with nothing written; Busy.
    """
    directory = recipe.directory(site)
    with _alone(f"uninstalling from {recipe.name}"):
        found = plan.uninstall(recipe, site)
        known = ledger.load(recipe.name, directory)
        _sweep(found)
        with _refused(lambda: None):
            change.carry_out(found.changes)
        if known is not None:
            _remove_empty([Path(d) for d in known.directories])
            with disk.plain_errors("noting the uninstall"):
                ledger.drop(recipe.name, directory)
        return found


def _sweep(found: Plan) -> None:
    for path in found.touched:
        change.sweep(path)


def _remove_empty(directories: list[Path]) -> None:
    """Remove directories of ours, the innermost first, as far as nobody has put anything there."""
    for directory in reversed(directories):
        with contextlib.suppress(OSError):
            disk.remove_directory(directory)


def difference(changes: list[Change]) -> str:
    """What the changes would do, in git's format."""
    import difflib

    lines = []
    for made in changes:
        before, after = (_lines(data) for data in (made.before, made.after))
        old = f"a/{str(made.path).lstrip('/')}" if made.before is not None else "/dev/null"
        new = f"b/{str(made.path).lstrip('/')}" if made.after is not None else "/dev/null"
        for line in difflib.unified_diff(before, after, old, new):
            ended = line.endswith("\n")
            lines.append(line if ended else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "backslashreplace").splitlines(keepends=True)
